"""Calls of triggers one after the other, and what they leave. Spark's tasks make those of stateless triggers for large writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from headrace.code.artifacts import ArtifactStore
from headrace.code.hosts import HostLimits
from headrace.code.triggers import FireResult, HostedTrigger, TabletRows
from headrace.errors import Error
from headrace.model.time import Precision
from headrace.model.trees import Device
from headrace.model.triggers import RegisteredTrigger, TriggerActivity
from headrace.trees.tablets import WrittenTablets
from headrace.trees.triggers import MatchedTrigger, called_triggers
from headrace.trigger import FailureStrategy, Insertion

MAX_ERROR_CHARACTERS: Final = 1_000

Call = tuple[RegisteredTrigger, TabletRows]


@dataclass(slots=True)
class CallResults:
    """What calls of triggers leave. Can be pickled.

    Attributes:
        activities: What is counted of each call, with the trigger's id.
        failure: The first failure.
        ended_by: The failure of a pessimistic trigger, after which no other is called.
        insertions: The rows that triggers insert, with their ids.
    """

    activities: list[tuple[str, TriggerActivity]] = field(default_factory=list)
    failure: Error | None = None
    ended_by: Error | None = None
    insertions: list[tuple[str, Insertion]] = field(default_factory=list)


def make_calls(calls: Iterable[Call], make: Callable[[RegisteredTrigger, TabletRows], FireResult]) -> Iterator[CallResults]:
    """Make calls, and yield what each leaves, up to the first failure of a pessimistic trigger."""
    for trigger, rows in calls:
        started = time.perf_counter_ns()
        try:
            result = make(trigger, rows)
        except Error as error:
            activity = failed_call(error, time.perf_counter_ns() - started)
            ended_by = error if trigger.failure_strategy is FailureStrategy.PESSIMISTIC else None
            yield CallResults([(trigger.id, activity)], error, ended_by)
            if ended_by is not None:
                return
        else:
            activity = TriggerActivity(1, duration_us=(time.perf_counter_ns() - started) // 1_000)
            yield CallResults([(trigger.id, activity)], insertions=[(trigger.id, one) for one in result.insertions])


def failed_call(error: Error, duration_ns: int) -> TriggerActivity:
    """Return what is counted of a call that failed, without the time of the failure."""
    return TriggerActivity(1, 1, 1, duration_ns // 1_000, error.message[:MAX_ERROR_CHARACTERS])


@dataclass(frozen=True, slots=True)
class TaskTriggers:
    """Stateless triggers as Spark's tasks call them, in a code host beside each worker. Can be pickled.

    Attributes:
        matched: The triggers.
        devices: The devices of the rows.
        precision: That of the database.
        store: The code of the triggers.
        limits: What a host may use, by the trigger's id.
    """

    matched: Sequence[MatchedTrigger]
    devices: Mapping[str, Device]
    precision: Precision
    store: ArtifactStore
    limits: Mapping[str, HostLimits]

    def call(self, batches: Iterable[pa.Table]) -> CallResults:
        """Call the triggers with rows, which are in the columns of their table."""
        tablets = WrittenTablets(self.devices, self.precision, lambda: iter(batches), is_in_memory=False)
        results, counted = CallResults(), dict[str, TriggerActivity]()
        for one in make_calls(called_triggers(self.matched, [tablets]), self._fire):
            for id_, activity in one.activities:
                counted[id_] = counted.get(id_, TriggerActivity()).followed_by(activity)
            results.failure = results.failure or one.failure
            results.ended_by = one.ended_by
            results.insertions += one.insertions
        results.activities = list(counted.items())
        return results

    def _fire(self, trigger: RegisteredTrigger, rows: TabletRows) -> FireResult:
        key = (trigger.id, self.store.uri)
        if key not in _hosted:
            _hosted[key] = HostedTrigger.stored(trigger, self.store, self.limits[trigger.id])
        return _hosted[key].fire_stateless(rows)


_hosted: Final[dict[tuple[str, str], HostedTrigger]] = {}
