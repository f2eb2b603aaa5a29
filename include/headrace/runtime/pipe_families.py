"""The metrics of pipes, by pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import Metric

from headrace.model.jobs import JobCounters, JobRecord, JobState
from headrace.pipes.kind import PIPE
from headrace.runtime.metric_families import counter, gauge
from headrace.runtime.metrics import SnodeMetrics

LABELS: Final = ("snode", "pipe")
COUNTERS: Final[tuple[tuple[str, str, Callable[[JobCounters], int]], ...]] = (
    ("pipe_rows_out", "Rows delivered by the sink.", lambda counters: counters.rows_out),
    ("pipe_bytes_out", "Bytes delivered by the sink, as they are in memory.", lambda counters: counters.bytes_out),
    ("pipe_batches", "Batches delivered.", lambda counters: counters.batches),
    ("pipe_failures", "Attempts to deliver that failed.", lambda counters: counters.failures),
)


def pipe_families(reading: SnodeMetrics) -> Iterator[Metric]:
    """Yield lag, remaining rows, whether a pipe has failed, and counters."""
    pipes = reading.of_kind(PIPE)
    labels = [(reading.snode, record.definition.name) for record in pipes]
    lags = [(names, lag) for names, record in zip(labels, pipes, strict=True) if (lag := lag_s(reading, record)) is not None]
    yield gauge("pipe_lag_seconds", "Age of the oldest data not yet delivered.", LABELS, lags)
    pending = (record.progress.counters.rows_pending for record in pipes)
    yield gauge("pipe_rows_pending", "Rows not yet delivered.", LABELS, zip(labels, pending, strict=True))
    failed = (float(record.state is JobState.STOPPED) for record in pipes)
    yield gauge("pipe_stopped", "1 if an error has stopped the pipe.", LABELS, zip(labels, failed, strict=True))
    for name, text, count in COUNTERS:
        yield counter(name, text, LABELS, zip(labels, (count(record.progress.counters) for record in pipes), strict=True))


def lag_s(reading: SnodeMetrics, record: JobRecord) -> float | None:
    """Return a pipe's lag in seconds, as its driver sees the source, else as of its last batch; None before the first."""
    activity = reading.activity.get(record.definition.id)
    lag_ms = record.progress.lag_ms(reading.now) if activity is None else activity.lag_ms(reading.now)
    return None if lag_ms is None else lag_ms / 1000
