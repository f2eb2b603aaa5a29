"""Windows of GROUP BY time: the windows of each row, and the ends of each window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.compute.columnar.runs import Bools, Int64s
from headrace.compute.nodes import UnsupportedError
from headrace.compute.plan import Plan
from headrace.compute.window_plans import RangeWindow
from headrace.compute.windows.ranges import calendar_windows, range_bounds
from headrace.model.windows import WindowGrid

MAX_OVERLAPS: Final = 20
"""Windows that may contain one row; with more, Spark explodes the rows."""


@dataclass(frozen=True, slots=True)
class WindowRange:
    """The windows that start in a range of ticks, in order.

    Attributes:
        starts, lasts: First and last instants.
        end: The end of the range, exclusive, where windows are cut.
        shift: Ticks that are subtracted from an instant before it is assigned.
        grid: The windows without the cut; None if they do not overlap and vary in length.
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
            windows = np.searchsorted(self.starts, instants, "right") - 1
            contained = np.flatnonzero(instants <= self.lasts[windows])
            return contained, windows[contained]
        rows, starts = self.grid.assign(instants)
        numbers = (starts - self.grid.offset) // self.grid.step
        if rows is None or not self.grid.overlaps:
            return rows, numbers
        exists = numbers >= 0
        return rows[exists], numbers[exists]


def window_range(plan: Plan, window: RangeWindow, max_windows: int) -> WindowRange:
    """Return the windows of GROUP BY time.

    Raises:
        UnsupportedError: There are too many, or one row lies in too many.
    """
    first, end = range_bounds(plan, window)
    shift = 1 if window.right else 0
    if any(window.months):
        pairs = np.array(calendar_windows(window, first, end, plan.precision), np.int64).reshape(-1, 2)
        starts, lasts = pairs[:, 0], pairs[:, 1]
        if not len(starts) or (starts[1:] <= lasts[:-1]).any():
            raise UnsupportedError("overlapping windows of months")
        return WindowRange(starts, lasts, end, shift, None)
    grid = WindowGrid(window.step, first, window.length)
    count = max(0, -(-(end - first) // window.step))
    if not 0 < count <= max_windows or window.length > MAX_OVERLAPS * window.step or end > 2**62 or first < -(2**62):
        raise UnsupportedError("number of windows")
    starts = first + np.arange(count, dtype=np.int64) * window.step
    return WindowRange(starts, np.minimum(starts + (window.length - 1), end - 1), end, shift, grid)
