"""Calls of triggers by a write: all BEFORE, the write, all AFTER, then the rows that they insert."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from headrace.code.artifacts import ArtifactStore
from headrace.code.hosts import HostLimits
from headrace.context import Context
from headrace.errors import Error, TriggerFireError, UserCodeError
from headrace.model.tree_status import TreeStatus
from headrace.model.triggers import RegisteredTrigger, TriggerActivity, TriggerEvent
from headrace.trees.calls import CallResults, TaskTriggers, failed_call, make_calls
from headrace.trees.tablets import WrittenTablets
from headrace.trees.trigger_instances import call_trigger
from headrace.trees.triggers import MatchedTrigger, called_triggers
from headrace.trigger import FailureStrategy, Insertion

logger = logging.getLogger(__name__)

FAILED_BEFORE: Final = "Failed to complete the insertion because trigger error before the insertion."
COMPLETED: Final = "Meet trigger error before/after the insertion, the insertion itself is completed."


@dataclass(slots=True)
class Firing:
    """The calls of one write."""

    context: Context
    matched: Sequence[MatchedTrigger]
    written: Sequence[WrittenTablets]
    failure: Error | None = None
    insertions: dict[str, list[Insertion]] = field(default_factory=dict)

    def fire_before(self) -> None:
        """Call the triggers before the write.

        Raises:
            TriggerFireError: One that is pessimistic failed, so nothing may be written.
        """
        failed = self._fire(TriggerEvent.BEFORE_INSERT)
        if failed is not None:
            raise self._error(failed, is_written=False)

    def fire_after(self) -> None:
        """Call the triggers after the write, up to the first pessimistic one that fails."""
        self._fire(TriggerEvent.AFTER_INSERT)

    def finish(self) -> None:
        """Raise `TriggerFireError` if a trigger failed."""
        if self.failure is not None:
            raise self._error(self.failure, is_written=True)

    def owned_insertions(self) -> Iterator[tuple[RegisteredTrigger, list[Insertion]]]:
        """Yield the rows that each trigger inserts."""
        triggers = {one.trigger.id: one.trigger for one in self.matched}
        for id_, insertions in self.insertions.items():
            yield triggers[id_], insertions

    def note_failure(self, trigger: RegisteredTrigger, error: Error) -> None:
        """Note what a trigger's rows were not written for."""
        self._note(CallResults([(trigger.id, failed_call(error, 0))], error))

    def _fire(self, event: TriggerEvent) -> Error | None:
        """Call the triggers of an event. Return the failure of a pessimistic one, after which no other is called."""
        matched = [one for one in self.matched if one.trigger.event is event]
        for written in self.written if matched else ():
            for results in self._results(matched, written):
                self._note(results)
                if results.ended_by is not None:
                    return results.ended_by
        return None

    def _results(self, matched: Sequence[MatchedTrigger], written: WrittenTablets) -> Iterator[CallResults]:
        """Yield what calls leave. Of rows in Spark's tasks, only those for stateful triggers pass through this process."""
        in_tasks = [one for one in matched if written.map_in_tasks is not None and not one.trigger.is_stateful]
        if written.map_in_tasks is not None and in_tasks:
            settings = self.context.settings
            limits = {one.trigger.id: HostLimits.of(settings, one.trigger.owner, one.trigger.name) for one in in_tasks}
            triggers = TaskTriggers(in_tasks, written.devices, written.precision, ArtifactStore.of(settings), limits)
            try:
                yield from written.map_in_tasks(triggers.call)
            except Error as error:
                yield lost_tasks(in_tasks, error)
        here = [one for one in matched if one not in in_tasks] if in_tasks else matched
        yield from make_calls(called_triggers(here, [written]), partial(call_trigger, self.context))

    def _note(self, results: CallResults) -> None:
        for id_, activity in results.activities:
            count_calls(self.context, self._name(id_), id_, activity)
        self.failure = self.failure or results.failure
        for id_, insertion in results.insertions:
            self.insertions.setdefault(id_, []).append(insertion)

    def _name(self, id_: str) -> str:
        return next(one.trigger.name for one in self.matched if one.trigger.id == id_)

    def _error(self, cause: Error, *, is_written: bool) -> TriggerFireError:
        hint = "; ".join(filter(None, (cause.message, cause.hint)))
        error = TriggerFireError(COMPLETED if is_written else FAILED_BEFORE, hint=hint)
        error.is_written = is_written
        error.__cause__ = cause
        return error.with_status(TreeStatus.TRIGGER_FIRE_ERROR)


def lost_tasks(matched: Sequence[MatchedTrigger], error: Error) -> CallResults:
    """Return the failure of triggers whose calls are lost, since Spark's tasks failed."""
    names = ", ".join(one.trigger.name for one in matched)
    failure = UserCodeError(f"Spark's tasks could not call triggers {names}: {error.message}", hint="the driver's log has more")
    is_pessimistic = any(one.trigger.failure_strategy is FailureStrategy.PESSIMISTIC for one in matched)
    return CallResults(failure=failure, ended_by=failure if is_pessimistic else None)


def count_calls(context: Context, name: str, id_: str, calls: TriggerActivity) -> None:
    """Count calls of a trigger, and stop one that has failed too often in a row, if the settings say so."""
    activities = context.catalog.trigger_activities
    if not calls.failures:
        activities.count(id_, calls)
        return
    logger.warning("%s", calls.last_error)
    activities.count(id_, replace(calls, last_error_at=context.catalog.now()))
    max_failures = context.settings.trigger_max_failures
    if max_failures:
        reason = f"it failed {max_failures} times in a row, the last time with: {calls.last_error}"
        if activities.stop_failing(id_, max_failures, reason):
            logger.warning("trigger %s is stopped: %s", name, reason)
