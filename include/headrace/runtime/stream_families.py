"""The metrics of streams, by stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from prometheus_client.core import Metric

from headrace.model.jobs import JobRecord
from headrace.runtime.metric_families import counter, gauge
from headrace.runtime.metrics import SnodeMetrics
from headrace.streams.kind import STREAM

LABELS: Final = ("snode", "database", "stream")
SOURCE_LABELS: Final = (*LABELS, "source")
GAUGES: Final = {
    "rows_pending": "Rows committed to the source but not yet handled.",
    "rows_quarantined": "Rows in quarantine.",
    "rows_dropped": "Rows dropped from quarantine.",
}
"""Texts for some of a stream's `JobCounters`, which name the metrics."""
COUNTERS: Final = {
    "rows_in": "Rows read.",
    "rows_used": "Rows merged into windows.",
    "rows_updated": "Rows that replaced an earlier row.",
    "rows_filtered": "Rows dropped by WHERE.",
    "rows_expired": "Rows dropped because they were late.",
    "rows_out": "Rows written to the target.",
    "rows_discarded": "Results older than the target's KEEP.",
}


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
    for family, texts in ((gauge, GAUGES), (counter, COUNTERS)):
        for name, text in texts.items():
            yield family(f"stream_{name}", text, LABELS, labeled(partial(count_of, name)))


def count_of(name: str, record: JobRecord) -> int:
    count: int = getattr(record.progress.counters, name)
    return count


def labels_of(reading: SnodeMetrics, record: JobRecord) -> tuple[str, ...]:
    return reading.snode, record.definition.database, record.definition.name


def lag_s(reading: SnodeMetrics, record: JobRecord) -> float | None:
    """Return a stream's lag now, in seconds."""
    lag_ms = record.progress.lag_ms(reading.now)
    return None if lag_ms is None else lag_ms / 1000
