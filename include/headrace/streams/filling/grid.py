"""The windows that lie in gaps: by arithmetic for INTERVAL of a fixed length, by Spark SQL for one that follows a calendar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.compute.kernels import UnsupportedError
from headrace.compute.kernels.windows import Grid, interval_grid
from headrace.compute.plan import WEND, WSTART
from headrace.compute.window_plans import IntervalWindow
from headrace.compute.windows.fill import AT, NEXT, gap_windows
from headrace.context import Context
from headrace.errors import LimitError
from headrace.model.time import Duration, Precision
from headrace.streams.definition.define import StreamPlan
from headrace.streams.filling.gaps import Gaps
from headrace.streams.windows.change_batch import Int64s, to_numpy
from headrace.streams.windows.window_sql import small_session

MAX_FILLED_ROWS = 5_000_000
"""Rows that FILL may add in one micro-batch, which have to fit the driver. More are a row with a wrong timestamp."""

MONTH = Duration(28, "d")
GAP = "_gap"


@dataclass(frozen=True)
class MissingWindows:
    """Windows in gaps: the number of the gap, and their first and last instant in ticks, both inclusive."""

    gap: Int64s
    start: Int64s
    end: Int64s


class WindowGrid(Protocol):
    """Finds the windows in gaps."""

    def windows_in(self, gaps: Gaps) -> MissingWindows:
        """Return the windows that start in gaps, ordered by gap and start.

        Raises:
            LimitError: There are more than `MAX_FILLED_ROWS`.
        """


def window_grid(context: Context, plan: StreamPlan) -> WindowGrid:
    """Return the windows of a stream's INTERVAL."""
    window = plan.query.window
    assert isinstance(window, IntervalWindow)
    try:
        return FixedGrid(interval_grid(window, plan.query.precision), plan.name)
    except UnsupportedError:
        return CalendarGrid(context, window, plan.query.precision, plan.name)


@dataclass(frozen=True)
class FixedGrid:
    """Windows of a fixed length."""

    grid: Grid
    stream: str

    def windows_in(self, gaps: Gaps) -> MissingWindows:
        """See `WindowGrid`."""
        step = self.grid.step
        counts = np.maximum((gaps.end - gaps.start) // step - 1, 0)
        check_count(int(counts.sum()), self.stream)
        gap = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(gap)) - np.repeat(np.cumsum(counts) - counts, counts)
        start = gaps.start[gap] + (number + 1) * step
        return MissingWindows(gap, start, start + self.grid.length - 1)


@dataclass(frozen=True)
class CalendarGrid:
    """Windows of days, months or years in a time zone."""

    context: Context
    window: IntervalWindow
    precision: Precision
    stream: str

    def windows_in(self, gaps: Gaps) -> MissingWindows:
        """See `WindowGrid`."""
        sliding = self.window.sliding
        least = sliding.months * MONTH.ticks(self.precision) if sliding.is_calendar else sliding.ticks(self.precision)
        wide = np.flatnonzero(gaps.end - gaps.start > least)
        check_count(int(((gaps.end - gaps.start)[wide] // least).sum()), self.stream)
        if len(wide) == 0:
            return MissingWindows(wide, wide, wide)
        rows = pa.table({GAP: wide, WSTART: gaps.start[wide], NEXT: gaps.end[wide]})
        frame = small_session(self.context.spark()).createDataFrame(rows)
        missing = gap_windows(self.window, self.precision, frame).toArrow().sort_by([(GAP, "ascending"), (AT, "ascending")])
        gap, start, end = (to_numpy(missing[name]).astype(np.int64) for name in (GAP, AT, WEND))
        return MissingWindows(gap, start, end)


def check_count(count: int, stream: str) -> None:
    """Raise `LimitError` if FILL would add too many rows at once."""
    if count > MAX_FILLED_ROWS:
        raise LimitError(
            f"FILL of stream {stream} would add {count} rows in one micro-batch, more than {MAX_FILLED_ROWS}",
            hint="skip the row that is far from the others with RESUME STREAM … IGNORE UNTREATED, or use a longer INTERVAL",
        )
