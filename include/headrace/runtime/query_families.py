"""The metrics of continuous queries, by query, those that Airflow executes included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client.core import Metric

from headrace.model.execution_history import NO_HISTORY
from headrace.model.jobs import JobCounters, JobRecord
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.runtime.metric_families import counter, gauge
from headrace.runtime.metrics import SnodeMetrics

LABELS: Final = ("snode", "cq")
COUNTERS: Final[tuple[tuple[str, str, Callable[[JobCounters], int]], ...]] = (
    ("cq_executions_done", "Executions that were done, repeated ones included.", lambda counters: counters.batches),
    ("cq_executions_failed", "Attempts to execute that failed.", lambda counters: counters.failures),
    ("cq_rows_out", "Rows written to the targets.", lambda counters: counters.rows_out),
)


def query_families(reading: SnodeMetrics) -> Iterator[Metric]:
    queries = reading.of_kind(CONTINUOUS_QUERY)
    labels = [(reading.snode, record.definition.name) for record in queries]
    text = "Age of the oldest execution that is due and not done."
    yield gauge("cq_lag_seconds", text, LABELS, zip(labels, lags_s(reading, queries), strict=False))
    for name, text, count in COUNTERS:
        yield counter(name, text, LABELS, zip(labels, (count(record.progress.counters) for record in queries), strict=True))


def lags_s(reading: SnodeMetrics, queries: Sequence[JobRecord]) -> list[float]:
    """Return the lag of each continuous query in seconds; none while the catalog cannot be read."""
    if reading.histories is None:
        return []
    pairs = [(record.definition.schedule, reading.histories.get(record.definition.id, NO_HISTORY)) for record in queries]
    return [history.lag_ms(schedule, reading.now) / 1000 for schedule, history in pairs]
