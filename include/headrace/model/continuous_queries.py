"""Continuous queries: their schedule, and the arithmetic of their executions. Instants and lengths are in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.model.tree_statements import TimeoutPolicy


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a continuous query is executed, and over which range.

    Executions are due at `boundary + k * every` for whole k, negative ones too, from `first` on. An execution at `t` computes
    `[t - start_offset, t - end_offset)`.
    """

    every: int
    boundary: int
    start_offset: int
    end_offset: int
    policy: TimeoutPolicy
    first: int

    def range_at(self, scheduled: int) -> tuple[int, int]:
        """Return the range `[start, end)` of the execution at an instant."""
        return scheduled - self.start_offset, scheduled - self.end_offset

    def at_or_after(self, instant: int) -> int:
        """Return the first instant of the schedule that is not before `instant`, regardless of `first`."""
        return self.boundary - (self.boundary - instant) // self.every * self.every

    def at_or_before(self, instant: int) -> int:
        """Return the last instant of the schedule that is not after `instant`, regardless of `first`."""
        return self.boundary + (instant - self.boundary) // self.every * self.every

    def next_after(self, last: int | None) -> int:
        """Return the instant that follows the last execution; None is none yet."""
        return self.first if last is None else max(self.first, self.at_or_after(last + 1))

    def due(self, last: int | None, now: int) -> Iterator[int]:
        """Yield the instants that are due after the last execution: all of them in order, or with DISCARD the latest."""
        following = self.next_after(last)
        if following > now:
            return
        if self.policy is TimeoutPolicy.DISCARD:
            yield self.at_or_before(now)
        else:
            yield from range(following, now + 1, self.every)

    def overlapping(self, start: int, end: int) -> range:
        """Return the instants whose ranges overlap `[start, end)`, in order."""
        first = self.at_or_after(start + self.end_offset + 1)
        return range(first, end + self.start_offset, self.every)


def first_execution(every: int, boundary: int, now: int) -> int:
    """Return when the first execution is due: the boundary, or if it has passed, the first instant that is not before `now`."""
    return boundary if now <= boundary else boundary - (boundary - now) // every * every


@dataclass(frozen=True, slots=True)
class ContinuousQuery:
    """What a job holds of a continuous query beside its statement; `sources` and `targets` are paths for display.

    `timezone` is that of the session that created it. `generation` is how many queries of its name were dropped before.
    """

    schedule: Schedule
    timezone: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    generation: int = 0


class ExecutionState(StrEnum):
    """The state of one execution."""

    PENDING = "PENDING"
    """Due, but not started. It is recorded only if it was executed before it was due, by a clock that was ahead."""
    MISSED = "MISSED"
    """Left out, because a later one was due already. It is not recorded."""
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"


ON_BEHALF: Final = "/by/"
"""In the name of a holder: separates the one for which an execution is done and the process that does it."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a continuous query over `[start, end)`; instants in epoch milliseconds.

    Attributes:
        attempt: Counts from 1. A newer attempt takes the execution over from an older one.
        holder: Who runs it, or ran it.
        rows: Rows written by the last attempt; None before it is done.
        replaces: Whether an earlier attempt, or another execution, may have written to the range.
        takes_over: Whether the process of an earlier attempt may still be about to write.
    """

    job_id: str
    scheduled: int
    start: int
    end: int
    state: ExecutionState
    attempt: int = 1
    holder: str = ""
    rows: int | None = None
    started: int | None = None
    finished: int | None = None
    message: str | None = None
    replaces: bool = True
    takes_over: bool = False

    def is_done_for(self, holder: str, again: bool) -> bool:
        """Return whether it is DONE, and, if it is to be repeated, by the holder or on its behalf."""
        if self.state is not ExecutionState.DONE:
            return False
        return not again or self.holder.partition(ON_BEHALF)[0] == holder.partition(ON_BEHALF)[0]

    @property
    def duration_ms(self) -> int | None:
        """How long the last attempt took; None while it runs."""
        return None if self.started is None or self.finished is None else self.finished - self.started
