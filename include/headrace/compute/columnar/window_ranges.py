"""Windows counted from the start of a range, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.compute.columnar.arrays import refuse
from headrace.compute.columnar.runs import Bools, Int64s
from headrace.compute.plan import Plan
from headrace.compute.window_plans import RangeWindow
from headrace.compute.windows.ranges import calendar_windows, range_bounds
from headrace.model.windows import WindowGrid, copies

MAX_OVERLAPS: Final = 20
"""Windows that may contain one row; with more, Spark explodes the rows."""


@dataclass(frozen=True, slots=True)
class WindowRange:
    """The windows that start in a range of ticks, in order.

    Attributes:
        starts, lasts: First and last instants.
        end: The end of the range, exclusive, where windows are cut.
        shift: Ticks that are subtracted from an instant before it is assigned.
        grid: The windows without the cut; None if they are of months.
    """

    starts: Int64s
    lasts: Int64s
    end: int
    shift: int
    grid: WindowGrid | None

    def contains(self, ticks: Int64s) -> Bools:
        is_inside: Bools = (ticks >= self.starts[0] + self.shift) & (ticks < self.end + self.shift)
        return is_inside

    def assign(self, ticks: Int64s) -> tuple[Int64s | None, Int64s]:
        """Return rows, whose instants are in the range, and the numbers of their windows; rows are None for each row once."""
        instants = ticks - self.shift
        if self.grid is None:
            first, end = np.searchsorted(self.lasts, instants, "left"), np.searchsorted(self.starts, instants, "right")
            rows, within = copies(np.maximum(end - first, 0))
            return rows, first[rows] + within
        assigned, starts = self.grid.assign(instants)
        numbers = (starts - self.grid.offset) // self.grid.step
        if assigned is None or not self.grid.overlaps:
            return assigned, numbers
        exists = numbers >= 0
        return assigned[exists], numbers[exists]


def window_range(plan: Plan, window: RangeWindow, max_windows: int) -> WindowRange:
    """Return the windows of GROUP BY time. Raises `UnsupportedError` if there are too many, or one row lies in too many."""
    first, end = range_bounds(plan, window)
    shift = 1 if window.right else 0
    if any(window.months):
        pairs = np.array(calendar_windows(window, first, end, plan.precision), np.int64).reshape(-1, 2)
        starts, lasts = pairs[:, 0], pairs[:, 1]
        refuse(not len(starts), "no windows")
        return WindowRange(starts, lasts, end, shift, None)
    grid = WindowGrid(window.step, first, window.length)
    count = max(0, -(-(end - first) // window.step))
    refuse(
        not 0 < count <= max_windows or window.length > MAX_OVERLAPS * window.step or end > 2**62 or first < -(2**62),
        "number of windows",
    )
    starts = first + np.arange(count, dtype=np.int64) * window.step
    return WindowRange(starts, np.minimum(starts + (window.length - 1), end - 1), end, shift, grid)


@dataclass(frozen=True, slots=True)
class RangeGrid:
    """The windows of a range as a grid of windows that rows outside of it are in none of."""

    range: WindowRange

    def assign(self, instants: Int64s) -> tuple[Int64s | None, Int64s]:
        """Return rows and the starts of the windows that contain them; rows are None for each row once."""
        is_inside = self.range.contains(instants)
        inside = None if is_inside.all() else np.flatnonzero(is_inside)
        rows, numbers = self.range.assign(instants if inside is None else instants[inside])
        if inside is not None:
            rows = inside if rows is None else inside[rows]
        return rows, self.range.starts[numbers]

    def lasts(self, starts: Int64s) -> Int64s:
        """Return the last instants of windows."""
        lasts: Int64s = self.range.lasts[np.searchsorted(self.range.starts, starts)]
        return lasts


def time_limits(plan: Plan) -> tuple[int | None, int | None]:
    """Return the first and last instant that the plan can use, in ticks."""
    first, last = plan.range
    if isinstance(plan.window, RangeWindow):
        start, end = range_bounds(plan, plan.window)
        first = start if first is None else max(first, start)
        last = end if last is None else min(last, end)
    return first, last
