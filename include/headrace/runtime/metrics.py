"""The metrics of an snode, in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as PrometheusHistogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.model.execution_history import NO_HISTORY, ExecutionHistory
from headrace.model.jobs import JobCounters, JobKind, JobRecord, JobState

if TYPE_CHECKING:
    from headrace.streams.sources.subscriptions import JobActivity

# A batch of a thousand rows takes about 0.3 s; one that catches up may take minutes.
BATCH_BUCKETS_S: Final = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)

STREAM_LABELS: Final = ("snode", "database", "stream")
SOURCE_LABELS: Final = (*STREAM_LABELS, "source")
COUNTERS: Final[tuple[tuple[str, str, Callable[[JobCounters], int]], ...]] = (
    ("stream_rows_in", "Rows read.", lambda counters: counters.rows_in),
    ("stream_rows_used", "Rows merged into windows.", lambda counters: counters.rows_used),
    ("stream_rows_updated", "Rows that replaced an earlier row.", lambda counters: counters.rows_updated),
    ("stream_rows_filtered", "Rows dropped by WHERE.", lambda counters: counters.rows_filtered),
    ("stream_rows_expired", "Rows dropped because they were late.", lambda counters: counters.rows_expired),
    ("stream_rows_out", "Rows written to the target.", lambda counters: counters.rows_out),
    ("stream_rows_discarded", "Results older than the target's KEEP.", lambda counters: counters.rows_discarded),
)
QUERY_LABELS: Final = ("snode", "cq")
QUERY_COUNTERS: Final[tuple[tuple[str, str, Callable[[JobCounters], int]], ...]] = (
    ("cq_executions_done", "Executions that were done, repeated ones included.", lambda counters: counters.batches),
    ("cq_executions_failed", "Attempts to execute that failed.", lambda counters: counters.failures),
    ("cq_rows_out", "Rows written to the targets.", lambda counters: counters.rows_out),
)


class Histogram:
    """The durations of micro-batches by bucket."""

    def __init__(self) -> None:
        self._histogram = PrometheusHistogram(
            "headrace_batch_seconds", "Duration of micro-batches.", buckets=BATCH_BUCKETS_S, registry=None
        )

    def observe(self, seconds: float) -> None:
        """Record the duration of one micro-batch."""
        self._histogram.observe(seconds)

    def collect(self, snode: str) -> Iterator[Metric]:
        """Yield the histogram with the label of its snode, without the time at which it was created."""
        for metric in self._histogram.collect():
            samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            metric.samples = [sample._replace(labels={"snode": snode, **sample.labels}) for sample in samples]
            yield metric


@dataclass(frozen=True, slots=True, eq=False)
class SnodeMetrics:
    """The measurements of an snode at one moment.

    Attributes:
        histories: The newest execution of each continuous query; None if the catalog cannot be read.
    """

    snode: str
    epoch: int
    records: Sequence[JobRecord]
    batches: Histogram
    memory_bytes: int
    loop_age_s: float
    now: int = 0
    activity: Mapping[str, JobActivity] = field(default_factory=dict)
    catalog_away_s: float = 0.0
    slow_batch_ms: int = 120_000
    histories: Mapping[str, ExecutionHistory] | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families; this makes it a Prometheus collector."""
        yield self._count_states("streams", "Streams by state.", JobKind.STREAM)
        yield self._count_states("continuous_queries", "Continuous queries by state.", JobKind.CONTINUOUS_QUERY)
        for name, text, value in (
            ("lease_epoch", "Epoch of the lease held.", self.epoch),
            ("memory_bytes", "Resident memory of the driver.", self.memory_bytes),
            ("loop_age_seconds", "Seconds since the sources were last polled.", self.loop_age_s),
            ("catalog_away_seconds", "Seconds since the catalog could last be read; 0 while it can.", self.catalog_away_s),
            (
                "slow_batches",
                "Micro-batches in flight for longer than HEADRACE_SLOW_BATCH_MS.",
                len(slow_batches(self.activity, self.slow_batch_ms)),
            ),
        ):
            yield gauge(name, text, ("snode",), [((self.snode,), value)])
        yield from self.batches.collect(self.snode)
        yield from self._stream_families()
        yield from self._query_families()

    def _of_kind(self, kind: JobKind) -> list[JobRecord]:
        return [record for record in self.records if record.definition.kind is kind]

    def _count_states(self, name: str, text: str, kind: JobKind) -> Metric:
        """Return the number of jobs of a kind in each state."""
        states = Counter(record.state for record in self._of_kind(kind))
        return gauge(name, text, ("snode", "state"), [((self.snode, state.value), states[state]) for state in JobState])

    def _stream_families(self) -> Iterator[Metric]:
        """Yield the metrics of each stream."""
        streams = self._of_kind(JobKind.STREAM)
        in_flight = {job_id: activity.in_flight_ms for job_id, activity in self.activity.items()}
        ages = [in_flight.get(record.definition.id, 0) / 1000 for record in streams]
        lags = [None if (lag := self._lag_ms(record)) is None else lag / 1000 for record in streams]
        yield gauge(
            "stream_batch_age_seconds", "Age of the micro-batch in flight; 0 if there is none.", STREAM_LABELS, self._labeled(ages)
        )
        yield gauge("stream_lag_seconds", "Age of the oldest commit not yet handled.", STREAM_LABELS, self._labeled(lags))
        yield gauge("stream_source_version", "Source version handled.", SOURCE_LABELS, self._source_versions(streams))
        pending = [record.progress.counters.rows_pending for record in streams]
        yield gauge(
            "stream_rows_pending", "Rows committed to the source but not yet handled.", STREAM_LABELS, self._labeled(pending)
        )
        quarantined = [record.progress.counters.rows_quarantined for record in streams]
        yield gauge("stream_rows_quarantined", "Rows in quarantine.", STREAM_LABELS, self._labeled(quarantined))
        dropped = [record.progress.counters.rows_dropped for record in streams]
        yield gauge("stream_rows_dropped", "Rows dropped from quarantine.", STREAM_LABELS, self._labeled(dropped))
        for name, text, count in COUNTERS:
            family = CounterMetricFamily(f"headrace_{name}", text, labels=STREAM_LABELS)
            for labels, value in self._labeled([count(record.progress.counters) for record in streams]):
                family.add_metric(labels, value)
            yield family

    def _source_versions(self, streams: Sequence[JobRecord]) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield the handled version of each source of each stream, with labels."""
        for record in streams:
            for source, version in (record.offsets or {}).items():
                yield (self.snode, record.definition.database, record.definition.name, source), version

    def _query_families(self) -> Iterator[Metric]:
        """Yield the metrics of each continuous query, those that Airflow executes included."""
        queries = self._of_kind(JobKind.CONTINUOUS_QUERY)
        labels = [(self.snode, record.definition.name) for record in queries]
        text = "Age of the oldest execution that is due and not done."
        yield gauge("cq_lag_seconds", text, QUERY_LABELS, zip(labels, self._query_lags_s(queries), strict=False))
        for name, text, count in QUERY_COUNTERS:
            family = CounterMetricFamily(f"headrace_{name}", text, labels=QUERY_LABELS)
            for label, record in zip(labels, queries, strict=True):
                family.add_metric(label, count(record.progress.counters))
            yield family

    def _query_lags_s(self, queries: Sequence[JobRecord]) -> list[float]:
        """Return the lag of each continuous query in seconds; none while the catalog cannot be read."""
        if self.histories is None:
            return []
        pairs = [(record.definition.schedule, self.histories.get(record.definition.id, NO_HISTORY)) for record in queries]
        return [history.lag_ms(schedule, self.now) / 1000 for schedule, history in pairs]

    def _lag_ms(self, record: JobRecord) -> int | None:
        """Return a stream's lag now, as its poller sees the source, else as of its last micro-batch."""
        activity = self.activity.get(record.definition.id)
        return record.progress.lag_ms(self.now) if activity is None else activity.lag_ms(self.now)

    def _labeled(self, values: Iterable[float | None]) -> list[tuple[tuple[str, ...], float]]:
        """Return the streams' values with their labels, without unknown values."""
        return [
            ((self.snode, record.definition.database, record.definition.name), value)
            for record, value in zip(self._of_kind(JobKind.STREAM), values, strict=True)
            if value is not None
        ]


def slow_batches(activity: Mapping[str, JobActivity], limit_ms: int) -> dict[str, int]:
    """Return micro-batches in flight for longer than a limit: milliseconds by the id of their stream."""
    return {job_id: job.in_flight_ms for job_id, job in activity.items() if job.in_flight_ms > limit_ms}


def gauge(name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    """Return one gauge with all its samples."""
    family = GaugeMetricFamily(f"headrace_{name}", text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def render_metrics(reading: SnodeMetrics) -> str:
    """Return the text that Prometheus reads."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(reading)
    return generate_latest(registry).decode()
