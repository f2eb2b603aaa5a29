"""The windows of an INTERVAL as a sequence: by arithmetic if they have a fixed length, by Spark SQL if they follow a calendar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.compute import Plan
from headrace.compute.nodes import bigint_sql
from headrace.compute.plan import WEND, WSTART
from headrace.compute.window_plans import DAY, IntervalWindow
from headrace.compute.windows import intervals
from headrace.compute.windows.fill import AT, NEXT, gap_windows
from headrace.errors import InternalError
from headrace.model.time import Precision
from headrace.model.windows import Int64s, WindowGrid, Windows
from headrace.streams.windows.window_sql import small_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GAP: Final = "_gap"


@dataclass(frozen=True)
class CalendarGrid:
    """Windows that follow a calendar. The methods are those of `WindowGrid`."""

    spark: Callable[[], SparkSession]
    window: IntervalWindow
    precision: Precision

    def first_open(self, instant: int) -> int:
        span = self.window.max_span(self.precision)
        windows = self._windows(instant - 2 * span, instant)
        return int(windows.start[windows.last >= instant][0])

    def ended(self, start: int, instant: int, count: int) -> Windows:
        windows = self._windows(start, instant)
        has_ended = np.flatnonzero((windows.start >= start) & (windows.last < instant))[:count]
        return Windows(windows.start[has_ended], windows.last[has_ended])

    def end(self, start: int) -> int:
        windows = self._windows(start, start)
        return int(windows.last[windows.start == start][0]) + 1

    def next_start(self, start: int) -> int:
        following = self._windows(start, start + 2 * self.window.max_span(self.precision)).start
        return int(following[following > start][0])

    def max_between(self, starts: Int64s, ends: Int64s) -> int:
        lengths = ends - starts
        return int((lengths[lengths > self._min_step] // self._min_step).sum())

    def between(self, starts: Int64s, ends: Int64s) -> tuple[Int64s, Windows]:
        wide = np.flatnonzero(ends - starts > self._min_step)
        if len(wide) == 0:
            return wide, Windows(wide, wide)
        rows = pa.table({GAP: wide, WSTART: starts[wide], NEXT: ends[wide]})
        frame = small_session(self.spark()).createDataFrame(rows)
        missing = gap_windows(self.window, self.precision, frame).toArrow().sort_by([(GAP, "ascending"), (AT, "ascending")])
        gap, start, last = int64_columns(missing, GAP, AT, WEND)
        return gap, Windows(start, last)

    @property
    def _min_step(self) -> int:
        """The shortest distance of two windows in ticks, except for changes of the clock."""
        return self.window.sliding.min_ticks(self.precision)

    def _windows(self, first: int, last: int) -> Windows:
        """Return the windows that start from `first` to `last`, and the one before them.

        They are computed from instants that are closer than any two windows.
        """
        step = DAY.ticks(self.precision) // 4
        if not self.window.sliding.is_calendar:
            step = max(1, min(step, self.window.sliding.ticks(self.precision) // 2))
        instants = f"explode(concat(sequence({bigint_sql(first)}, {bigint_sql(last)}, {step}L), array({bigint_sql(last)})))"
        start = intervals.start(self.window, "_at", self.precision)
        rows = self.spark().sql(
            f"SELECT _start, {intervals.end(self.window, '_start', self.precision)} AS _last "
            f"FROM (SELECT DISTINCT {start} AS _start FROM (SELECT {instants} AS _at)) ORDER BY _start"
        )
        return Windows(*int64_columns(rows.toArrow(), "_start", "_last"))


def int64_columns(table: pa.Table, *names: str) -> list[Int64s]:
    """Return columns of BIGINT without NULL."""
    return [table[name].to_numpy().astype(np.int64) for name in names]


def window_grid(plan: Plan, spark: Callable[[], SparkSession]) -> WindowGrid | CalendarGrid:
    """Return the windows of a query with INTERVAL, or the points of one with EVERY."""
    if plan.interp is not None:
        return WindowGrid(plan.interp.every, 0, 0)
    if not isinstance(plan.window, IntervalWindow):
        raise InternalError("only windows of INTERVAL are a sequence")
    return plan.window.grid(plan.precision) or CalendarGrid(spark, plan.window, plan.precision)
