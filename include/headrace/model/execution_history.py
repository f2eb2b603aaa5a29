"""What is to be seen of the executions of a continuous query: those of the ledger, and those that are due or were missed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.model.continuous_queries import Execution, ExecutionState, Schedule
from headrace.model.tree_statements import TimeoutPolicy


@dataclass(frozen=True, slots=True)
class ExecutionHistory:
    """What the ledger has of one continuous query.

    Attributes:
        newest: The newest executions by instant of the schedule, newest first; all of them if `is_complete`.
        unfinished: All executions that are not DONE, oldest first.
    """

    newest: tuple[Execution, ...] = ()
    unfinished: tuple[Execution, ...] = ()
    is_complete: bool = False

    @property
    def last(self) -> Execution | None:
        """The execution of the latest instant; None if there is none yet."""
        return self.newest[0] if self.newest else None

    def last_scheduled(self, schedule: Schedule) -> int | None:
        """Return the latest instant that was executed; None if none was since the schedule began."""
        return None if self.last is None or self.last.scheduled < schedule.first else self.last.scheduled

    def left_out(self, schedule: Schedule) -> tuple[int, int | None]:
        """Return how many instants before the last one were not executed, and the oldest; those before `newest` are not seen."""
        recorded = {execution.scheduled for execution in self.newest if execution.scheduled >= schedule.first}
        if not recorded:
            return 0, None
        first, last = schedule.first if self.is_complete else min(recorded), max(recorded)
        oldest = next((instant for instant in range(first, last, schedule.every) if instant not in recorded), None)
        return (last - first) // schedule.every + 1 - len(recorded), oldest

    def lag_ms(self, schedule: Schedule, now: int) -> int:
        """Return the age of the oldest execution that is due and not done or repeated, 0 if there is none."""
        last = self.last_scheduled(schedule)
        waiting = [schedule.next_after(last)]
        if schedule.policy is TimeoutPolicy.BLOCKED:
            regular_from = schedule.first if last is None else last
            waiting += [execution.scheduled for execution in self.unfinished if not is_repeated(execution, regular_from)]
            _, left_out = self.left_out(schedule)
            waiting += [] if left_out is None else [left_out]
        else:
            waiting += [execution.scheduled for execution in self.unfinished if execution.scheduled == last]
        return max(0, now - min(waiting))


NO_HISTORY = ExecutionHistory()


def is_repeated(execution: Execution, last: int) -> bool:
    """Return whether an execution runs although a later one has been started: then it computes its range again."""
    return execution.state is ExecutionState.RUNNING and execution.scheduled < last


def next_execution(schedule: Schedule, now: int) -> int:
    """Return the first instant of a schedule that lies in the future."""
    return max(schedule.first, schedule.at_or_after(now + 1))


def absent_executions(job_id: str, schedule: Schedule, recorded: Sequence[Execution], since: int, now: int) -> Iterator[Execution]:
    """Yield the executions that are due, but not recorded, from the latest back to the instant `since`.

    `recorded` has the executions of the ledger from `since` on, in any order; it may have forgotten those before.
    """
    present = {execution.scheduled for execution in recorded}
    last = max((at for at in present if at >= schedule.first), default=None)
    first = schedule.at_or_after(max(schedule.first, since))
    for instant in range(schedule.at_or_before(now), first - 1, -schedule.every):
        if instant not in present:
            yield Execution(job_id, instant, *schedule.range_at(instant), absent_state(schedule, instant, last, now), 0)


def absent_state(schedule: Schedule, instant: int, last: int | None, now: int) -> ExecutionState:
    """Return the state of an execution that is due, but not recorded; `last` is the latest instant that was executed."""
    is_latest = instant == schedule.at_or_before(now)
    if schedule.policy is TimeoutPolicy.DISCARD and ((last is not None and instant < last) or not is_latest):
        return ExecutionState.MISSED
    return ExecutionState.PENDING
