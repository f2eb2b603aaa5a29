"""The metrics of an snode, in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as PrometheusHistogram
from prometheus_client.core import Metric

from headrace.jobs.hosts import JobActivity
from headrace.jobs.kinds import JobKind
from headrace.jobs.registry import kinds
from headrace.model.execution_history import ExecutionHistory
from headrace.model.job_parts import wholes
from headrace.model.jobs import JobRecord, JobState
from headrace.runtime.metric_families import gauge
from headrace.runtime.trigger_metrics import CountedTriggers, trigger_metrics

# A batch of a thousand rows takes about 0.3 s; one that catches up may take minutes.
BATCH_BUCKETS_S: Final = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Histogram:
    """The durations of micro-batches by bucket."""

    def __init__(self) -> None:
        self._histogram = PrometheusHistogram(
            "headrace_batch_seconds", "Duration of micro-batches.", buckets=BATCH_BUCKETS_S, registry=None
        )

    def observe(self, seconds: float) -> None:
        self._histogram.observe(seconds)

    def collect(self, snode: str) -> Iterator[Metric]:
        """Yield the histogram with the label of its snode, without the time at which it was created."""
        for metric in self._histogram.collect():
            samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            metric.samples = [sample._replace(labels={"snode": snode, **sample.labels}) for sample in samples]
            yield metric


@dataclass(frozen=True, slots=True, eq=False)
class SnodeMetrics:
    """The measurements of an snode at one moment, and its jobs with what they have not handled then.

    `histories` is None if the catalog cannot be read.
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
    triggers: CountedTriggers = ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families; this makes it a Prometheus collector."""
        for kind in kinds():
            yield self._count_states(kind)
        slow = len(slow_batches(self.activity, self.slow_batch_ms))
        for name, text, value in (
            ("lease_epoch", "Epoch of the lease held.", self.epoch),
            ("memory_bytes", "Resident memory of the driver.", self.memory_bytes),
            ("loop_age_seconds", "Seconds since the sources were last polled.", self.loop_age_s),
            ("catalog_away_seconds", "Seconds since the catalog could last be read; 0 while it can.", self.catalog_away_s),
            ("slow_batches", "Micro-batches in flight for longer than HEADRACE_SLOW_BATCH_MS.", slow),
        ):
            yield gauge(name, text, ("snode",), [((self.snode,), value)])
        yield from self.batches.collect(self.snode)
        for kind in kinds():
            if kind.metrics is not None:
                yield from kind.metrics()(self)
        yield from trigger_metrics(self.triggers)

    def of_kind(self, name: str) -> list[JobRecord]:
        return wholes([record for record in self.records if record.definition.kind == name])

    def _count_states(self, kind: JobKind) -> Metric:
        states = Counter(record.state for record in self.of_kind(kind.name))
        samples = [((self.snode, state.value), states[state]) for state in JobState]
        return gauge(kind.key, f"{kind.plural.capitalize()} by state.", ("snode", "state"), samples)


def slow_batches(activity: Mapping[str, JobActivity], limit_ms: int) -> dict[str, int]:
    """Return micro-batches in flight for longer than a limit: milliseconds by the id of their stream."""
    return {job_id: job.in_flight_ms for job_id, job in activity.items() if job.in_flight_ms > limit_ms}


def render_metrics(reading: SnodeMetrics) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(reading)
    return generate_latest(registry).decode()
