"""The metrics of streams, by stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import Metric

from headrace.model.jobs import JobCounters, JobRecord
from headrace.runtime.metrics import SnodeMetrics, counter, gauge
from headrace.streams.kind import STREAM

LABELS: Final = ("snode", "database", "stream")
SOURCE_LABELS: Final = (*LABELS, "source")
Count = Callable[[JobCounters], int]
GAUGES: Final[tuple[tuple[str, str, Count], ...]] = (
    ("stream_rows_pending", "Rows committed to the source but not yet handled.", lambda counters: counters.rows_pending),
    ("stream_rows_quarantined", "Rows in quarantine.", lambda counters: counters.rows_quarantined),
    ("stream_rows_dropped", "Rows dropped from quarantine.", lambda counters: counters.rows_dropped),
)
COUNTERS: Final[tuple[tuple[str, str, Count], ...]] = (
    ("stream_rows_in", "Rows read.", lambda counters: counters.rows_in),
    ("stream_rows_used", "Rows merged into windows.", lambda counters: counters.rows_used),
    ("stream_rows_updated", "Rows that replaced an earlier row.", lambda counters: counters.rows_updated),
    ("stream_rows_filtered", "Rows dropped by WHERE.", lambda counters: counters.rows_filtered),
    ("stream_rows_expired", "Rows dropped because they were late.", lambda counters: counters.rows_expired),
    ("stream_rows_out", "Rows written to the target.", lambda counters: counters.rows_out),
    ("stream_rows_discarded", "Results older than the target's KEEP.", lambda counters: counters.rows_discarded),
)


def stream_families(reading: SnodeMetrics) -> Iterator[Metric]:
    streams = reading.of_kind(STREAM)

    def labeled(value: Callable[[JobRecord], float | None]) -> list[tuple[tuple[str, ...], float]]:
        """Return a value of each stream with labels, without unknown values."""
        values = [(labels_of(reading, record), value(record)) for record in streams]
        return [(labels, value) for labels, value in values if value is not None]

    def age_s(record: JobRecord) -> float:
        activity = reading.activity.get(record.definition.id)
        return 0 if activity is None else activity.in_flight_ms / 1000

    age_text = "Age of the micro-batch in flight; 0 if there is none."
    yield gauge("stream_batch_age_seconds", age_text, LABELS, labeled(age_s))
    lag_text = "Age of the oldest commit not yet handled."
    yield gauge("stream_lag_seconds", lag_text, LABELS, labeled(lambda record: lag_s(reading, record)))
    versions = [
        ((*labels_of(reading, record), source), version) for record in streams for source, version in (record.offsets or {}).items()
    ]
    yield gauge("stream_source_version", "Source version handled.", SOURCE_LABELS, versions)
    for name, text, count in GAUGES:
        yield gauge(name, text, LABELS, labeled(counted(count)))
    for name, text, count in COUNTERS:
        yield counter(name, text, LABELS, labeled(counted(count)))


def counted(count: Count) -> Callable[[JobRecord], float]:
    """Return a function that takes a count from a stream's record."""
    return lambda record: count(record.progress.counters)


def labels_of(reading: SnodeMetrics, record: JobRecord) -> tuple[str, ...]:
    """Return the labels of a stream."""
    return reading.snode, record.definition.database, record.definition.name


def lag_s(reading: SnodeMetrics, record: JobRecord) -> float | None:
    """Return a stream's lag now, as its poller sees the source, else as of its last micro-batch."""
    activity = reading.activity.get(record.definition.id)
    lag_ms = record.progress.lag_ms(reading.now) if activity is None else activity.lag_ms(reading.now)
    return None if lag_ms is None else lag_ms / 1000
