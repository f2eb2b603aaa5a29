"""The windows of an INTERVAL as a sequence: which of them have ended by an instant, and when the next one ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from headrace.compute import Plan
from headrace.compute.nodes import bigint_sql
from headrace.compute.window_plans import DAY, IntervalWindow
from headrace.compute.windows import intervals
from headrace.errors import InternalError
from headrace.model.time import Precision
from headrace.streams.windows.change_batch import Int64s

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class GridWindows:
    """Consecutive windows, in ticks. `last` is the last instant of each."""

    start: Int64s
    last: Int64s


class WindowGrid(Protocol):
    """The windows of a query, in order. All instants are in ticks."""

    def first_open(self, instant: int) -> int:
        """Return the start of the earliest window that has not ended before an instant."""

    def ended(self, start: int, instant: int, count: int) -> GridWindows:
        """Return the first `count` windows from the one at `start` on that have ended by an instant, which is after them."""

    def end(self, start: int) -> int:
        """Return the end of the window at `start`, exclusive."""

    def next_start(self, start: int) -> int:
        """Return the start of the window after the one at `start`."""


@dataclass(frozen=True)
class FixedGrid:
    """Windows of a fixed length; points in time if the length is 0."""

    length: int
    step: int
    offset: int

    def first_open(self, instant: int) -> int:
        """See `WindowGrid`."""
        earliest = instant - self.length + (1 if self.length else 0)
        return earliest + (self.offset - earliest) % self.step

    def ended(self, start: int, instant: int, count: int) -> GridWindows:
        """See `WindowGrid`."""
        total = max(0, (instant - self.length - start) // self.step + 1)
        starts = start + np.arange(min(total, count), dtype=np.int64) * self.step
        return GridWindows(starts, starts + max(self.length - 1, 0))

    def end(self, start: int) -> int:
        """See `WindowGrid`."""
        return start + self.length

    def next_start(self, start: int) -> int:
        """See `WindowGrid`."""
        return start + self.step


@dataclass(frozen=True)
class CalendarGrid:
    """Windows that follow a calendar, computed by Spark SQL from instants that are closer than any two windows."""

    spark: Callable[[], SparkSession]
    window: IntervalWindow
    precision: Precision

    def first_open(self, instant: int) -> int:
        """See `WindowGrid`."""
        span = self.window.max_span(self.precision)
        windows = self._windows(instant - 2 * span, instant)
        return int(windows.start[windows.last >= instant][0])

    def ended(self, start: int, instant: int, count: int) -> GridWindows:
        """See `WindowGrid`."""
        windows = self._windows(start, instant)
        has_ended = np.flatnonzero((windows.start >= start) & (windows.last < instant))[:count]
        return GridWindows(windows.start[has_ended], windows.last[has_ended])

    def end(self, start: int) -> int:
        """See `WindowGrid`."""
        windows = self._windows(start, start)
        return int(windows.last[windows.start == start][0]) + 1

    def next_start(self, start: int) -> int:
        """See `WindowGrid`."""
        following = self._windows(start, start + 2 * self.window.max_span(self.precision)).start
        return int(following[following > start][0])

    def _windows(self, first: int, last: int) -> GridWindows:
        """Return the windows that start from `first` to `last`, and the one before them."""
        step = DAY.ticks(self.precision) // 4
        if not self.window.sliding.is_calendar:
            step = max(1, min(step, self.window.sliding.ticks(self.precision) // 2))
        instants = f"explode(concat(sequence({bigint_sql(first)}, {bigint_sql(last)}, {step}L), array({bigint_sql(last)})))"
        start = intervals.start(self.window, "_at", self.precision)
        rows = self.spark().sql(
            f"SELECT _start, {intervals.end(self.window, '_start', self.precision)} AS _last "
            f"FROM (SELECT DISTINCT {start} AS _start FROM (SELECT {instants} AS _at)) ORDER BY _start"
        )
        table = rows.toArrow()
        return GridWindows(*(table[name].to_numpy().astype(np.int64) for name in ("_start", "_last")))


def window_grid(plan: Plan, spark: Callable[[], SparkSession]) -> WindowGrid:
    """Return the windows of a query with INTERVAL, or the points of one with EVERY."""
    if plan.interp is not None:
        return FixedGrid(0, plan.interp.every, 0)
    window = plan.window
    if not isinstance(window, IntervalWindow):
        raise InternalError("only windows of INTERVAL are closed by the clock")
    durations = (window.length, window.sliding, window.offset)
    if window.zone is not None or any(duration.is_calendar for duration in durations):
        return CalendarGrid(spark, window, plan.precision)
    return FixedGrid(*(duration.ticks(plan.precision) for duration in durations))
