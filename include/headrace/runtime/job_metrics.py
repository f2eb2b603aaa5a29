"""The metrics of streams, pipes and continuous queries, by job, those that Airflow runs included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from prometheus_client.core import Metric

from headrace.model.execution_history import NO_HISTORY
from headrace.model.job_parts import parts_of
from headrace.model.jobs import JobRecord, JobState
from headrace.pipes.kind import PIPE
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.runtime.metric_families import counter, gauge
from headrace.runtime.metrics import SnodeMetrics
from headrace.streams.kind import STREAM

Texts = Mapping[str, tuple[str, str]]
"""By the name of a metric, which of the `JobCounters` it is, and its text."""
STREAM_LABELS: Final = ("snode", "database", "stream")
SOURCE_LABELS: Final = (*STREAM_LABELS, "source")
PIPE_LABELS: Final = ("snode", "pipe")
QUERY_LABELS: Final = ("snode", "cq")
STREAM_GAUGES: Final[Texts] = {
    "stream_rows_pending": ("rows_pending", "Rows committed to the source but not yet handled."),
    "stream_rows_quarantined": ("rows_quarantined", "Rows in quarantine."),
    "stream_rows_dropped": ("rows_dropped", "Rows dropped from quarantine."),
}
STREAM_COUNTERS: Final[Texts] = {
    "stream_rows_in": ("rows_in", "Rows read."),
    "stream_rows_used": ("rows_used", "Rows merged into windows."),
    "stream_rows_updated": ("rows_updated", "Rows that replaced an earlier row."),
    "stream_rows_filtered": ("rows_filtered", "Rows dropped by WHERE."),
    "stream_rows_expired": ("rows_expired", "Rows dropped because they were late."),
    "stream_rows_out": ("rows_out", "Rows written to the target."),
    "stream_rows_discarded": ("rows_discarded", "Results older than the target's KEEP."),
}
PIPE_COUNTERS: Final[Texts] = {
    "pipe_rows_out": ("rows_out", "Rows delivered by the sink."),
    "pipe_bytes_out": ("bytes_out", "Bytes delivered by the sink, as they are in memory."),
    "pipe_batches": ("batches", "Batches delivered."),
    "pipe_failures": ("failures", "Attempts to deliver that failed."),
}
QUERY_COUNTERS: Final[Texts] = {
    "cq_executions_done": ("batches", "Executions that were done, repeated ones included."),
    "cq_executions_failed": ("failures", "Attempts to execute that failed."),
    "cq_rows_out": ("rows_out", "Rows written to the targets."),
}


class Jobs:
    """The jobs of a kind in a reading."""

    def __init__(self, reading: SnodeMetrics, kind: str, labels: tuple[str, ...]) -> None:
        self._reading, self._labels = reading, labels
        self.records = reading.of_kind(kind)

    def names(self, record: JobRecord) -> tuple[str, ...]:
        """Return the values of the labels."""
        job = record.definition
        return (self._reading.snode, job.database, job.name) if "database" in self._labels else (self._reading.snode, job.name)

    def gauge(self, name: str, text: str, value: Callable[[JobRecord], float | None]) -> Metric:
        """Return the family of a value of each job, without unknown values."""
        return gauge(name, text, self._labels, self._values(value))

    def counts(self, family: Callable[..., Metric], texts: Texts) -> Iterator[Metric]:
        """Yield the families of counters."""
        for name, (count, text) in texts.items():
            yield family(name, text, self._labels, self._values(partial(count_of, count)))

    def _values(self, value: Callable[[JobRecord], float | None]) -> Iterable[tuple[tuple[str, ...], float]]:
        pairs = [(self.names(record), value(record)) for record in self.records]
        return [(names, one) for names, one in pairs if one is not None]


def count_of(name: str, record: JobRecord) -> int:
    count: int = getattr(record.progress.counters, name)
    return count


def stream_families(reading: SnodeMetrics) -> Iterator[Metric]:
    """Yield the age of micro-batches, lag, versions of sources, and counters."""
    streams = Jobs(reading, STREAM, STREAM_LABELS)

    def age_s(record: JobRecord) -> float:
        ages = [one.in_flight_ms for part in parts_of(record) if (one := reading.activity.get(part.definition.id)) is not None]
        return max(ages, default=0) / 1000

    yield streams.gauge("stream_batch_age_seconds", "Age of the micro-batch in flight; 0 if there is none.", age_s)
    lag_text = "Age of the oldest commit not yet handled."
    yield streams.gauge("stream_lag_seconds", lag_text, lambda record: seconds(record.progress.lag_ms(reading.now)))
    versions = [
        ((*streams.names(record), source), version)
        for record in streams.records
        for source, version in (record.offsets or {}).items()
    ]
    yield gauge("stream_source_version", "Source version handled.", SOURCE_LABELS, versions)
    yield from streams.counts(gauge, STREAM_GAUGES)
    yield from streams.counts(counter, STREAM_COUNTERS)


def pipe_families(reading: SnodeMetrics) -> Iterator[Metric]:
    """Yield lag, remaining rows, whether a pipe has failed, and counters."""
    pipes = Jobs(reading, PIPE, PIPE_LABELS)

    def lag_s(record: JobRecord) -> float | None:
        """Return the lag as the pipe's driver sees the source, else as of its last batch; None before the first."""
        activity = reading.activity.get(record.definition.id)
        return seconds(record.progress.lag_ms(reading.now) if activity is None else activity.lag_ms(reading.now))

    yield pipes.gauge("pipe_lag_seconds", "Age of the oldest data not yet delivered.", lag_s)
    yield pipes.gauge("pipe_rows_pending", "Rows not yet delivered.", partial(count_of, "rows_pending"))
    stopped_text = "1 if an error has stopped the pipe."
    yield pipes.gauge("pipe_stopped", stopped_text, lambda record: float(record.state is JobState.STOPPED))
    yield from pipes.counts(counter, PIPE_COUNTERS)


def query_families(reading: SnodeMetrics) -> Iterator[Metric]:
    """Yield lag, which is unknown while the catalog cannot be read, and counters."""
    queries, histories = Jobs(reading, CONTINUOUS_QUERY, QUERY_LABELS), reading.histories

    def lag_s(record: JobRecord) -> float | None:
        if histories is None:
            return None
        history = histories.get(record.definition.id, NO_HISTORY)
        return seconds(history.lag_ms(record.definition.schedule, reading.now))

    yield queries.gauge("cq_lag_seconds", "Age of the oldest execution that is due and not done.", lag_s)
    yield from queries.counts(counter, QUERY_COUNTERS)


def seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
