"""Numbering of the windows of GROUP BY time: the window of each row, and the ends of each window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from headrace.compute.nodes import UnsupportedError
from headrace.compute.plan import Plan
from headrace.compute.window_plans import RangeWindow
from headrace.compute.windows.ranges import calendar_windows, range_bounds

Array = np.ndarray[Any, Any]
MAX_OVERLAPS: Final = 20
"""Windows that may contain one row; with more, Spark explodes the rows."""


@dataclass(frozen=True, slots=True)
class WindowGrid:
    """The windows of a range: first and last instants in ticks, ascending.

    Attributes:
        shift: Ticks that are subtracted from an instant before it is assigned.
        step: Ticks from one window to the next; 0 if they vary.
        overlaps: Greatest number of windows of one instant.
    """

    starts: Array
    ends: Array
    shift: int
    step: int
    overlaps: int

    def assign(self, ticks: Array) -> tuple[Array | None, Array, Array]:
        """Return rows, their windows, and which of the pairs hold; rows are None for each row once."""
        instants = ticks - self.shift
        regular = bool(self.step)
        latest = (instants - self.starts[0]) // self.step if regular else np.searchsorted(self.starts, instants, "right") - 1
        if self.overlaps == 1:
            return None, latest, self._contains(instants, latest)
        rows = np.tile(np.arange(len(ticks)), self.overlaps)
        windows = np.concatenate([latest - back for back in range(self.overlaps)])
        return rows, windows, self._contains(instants[rows], windows)

    @property
    def _is_gapless(self) -> bool:
        """True if windows of a fixed step follow each other without gaps and overlaps."""
        return self.overlaps == 1 and bool(self.step) and (len(self.starts) == 1 or bool(self.ends[0] + 1 == self.starts[1]))

    def _contains(self, instants: Array, windows: Array) -> Array:
        """Return whether windows contain instants."""
        contained: Array
        if self._is_gapless:
            contained = (instants >= self.starts[0]) & (instants <= self.ends[-1])
            return contained
        inside = (windows >= 0) & (windows < len(self.starts))
        clipped = np.clip(windows, 0, len(self.starts) - 1)
        contained = inside & (instants >= self.starts[clipped]) & (instants <= self.ends[clipped])
        return contained


def window_grid(plan: Plan, window: RangeWindow, max_windows: int) -> WindowGrid:
    """Return the windows of GROUP BY time.

    Raises:
        UnsupportedError: There are too many, or one row lies in too many.
    """
    first, end = range_bounds(plan, window)
    shift = 1 if window.right else 0
    if any(window.months):
        pairs = np.array(calendar_windows(window, first, end, plan.precision), np.int64).reshape(-1, 2)
        starts, ends = pairs[:, 0], pairs[:, 1]
        if not len(starts) or (starts[1:] <= ends[:-1]).any():
            raise UnsupportedError("overlapping windows of months")
        return WindowGrid(starts, ends, shift, 0, 1)
    count = max(0, -(-(end - first) // window.step))
    overlaps = -(-window.length // window.step)
    if not 0 < count <= max_windows or overlaps > MAX_OVERLAPS or end > 2**62 or first < -(2**62):
        raise UnsupportedError("number of windows")
    starts = first + np.arange(count, dtype=np.int64) * window.step
    return WindowGrid(starts, np.minimum(starts + (window.length - 1), end - 1), shift, window.step, overlaps)
