"""Windows counted from the start of a range: `GROUP BY ([start, end), interval, step)`.

Window k starts at `first + k * step` and ends `length` later, or with the range. Months are those of a zone's calendar, counted
from the range's start and before shorter units, so that no window depends on the one before: January 31 plus one month is the end
of February, plus two months March 31.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.compute.columnar.arrays import refuse
from headrace.compute.columnar.runs import Int64s
from headrace.compute.nodes import bigint, bigint_sql
from headrace.compute.plan import TS, WEND, WSTART, Plan
from headrace.compute.types import from_ticks
from headrace.compute.window_plans import Bound
from headrace.compute.windows.kind import WindowPlan
from headrace.compute.windows.numbering import window_number
from headrace.compute.windows.segments import base_key_columns, update_columns
from headrace.errors import LimitError
from headrace.model.instants import add_months
from headrace.model.time import Precision
from headrace.model.windows import WindowGrid, copies
from headrace.storage.spark.functions import F
from headrace.storage.values.scalars import tick_range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_CALENDAR_WINDOWS: Final = 10_000
MAX_WINDOWS: Final = 50_000_000
MAX_ARRAY_WINDOWS: Final = 1_000_000
"""Windows of a range, for which there are arrays."""
MAX_OVERLAPS: Final = 20
"""Windows that may contain one row; with more, Spark explodes the rows."""
INDEX: Final = "_window"


@dataclass(frozen=True, slots=True)
class RangeWindow(WindowPlan):
    """Windows that start at `first` and every `step` after it, before `end`; each is cut there. Those without rows count too.

    Attributes:
        first, end: Ticks; `end` is exclusive.
        length, step: Ticks, in addition to the calendar months in `months`; `zone` is that of the calendar.
        right: Windows are open on the left and closed on the right, and are called by their end.
    """

    first: Bound
    end: Bound
    length: int
    step: int
    months: tuple[int, int] = (0, 0)
    zone: str = "UTC"
    right: bool = False
    is_fixed = True

    def __str__(self) -> str:
        steps = f"{in_words(self.months[0], self.length)}, a new one every {in_words(self.months[1], self.step)}"
        return f"{steps}, from {self.first.ticks} to {self.end.ticks}"

    def grid(self, plan: Plan) -> RangeGrid:
        """Return the windows of the range. Raises `UnsupportedError` if there are too many."""
        return window_range(plan, self)

    def aggregate(self, plan: Plan, prepared: DataFrame) -> DataFrame:
        assigned = assign_windows(plan, self, prepared)
        return assigned.groupBy(*base_key_columns(plan), WSTART, WEND).agg(*update_columns(plan))


def in_words(months: int, ticks: int) -> str:
    """Return the length of a window of calendar months, ticks, or both."""
    return " and ".join(f"{count} {unit}" for count, unit in ((months, "months"), (ticks, "ticks")) if count)


def assign_windows(plan: Plan, window: RangeWindow, prepared: DataFrame) -> DataFrame:
    """Return prepared rows once for each window that they lie in, with its start and last instant."""
    at = assignment_instant(window)
    if any(window.months):
        grid = window_grid(plan, window, prepared.sparkSession)
        return prepared.join(F.broadcast(grid), F.expr(f"{at} BETWEEN {WSTART} AND {WEND}"))
    first, end = range_bounds(plan, window)
    numbers = window_number(f"({at} - {bigint_sql(first)})", window.length, window.step)
    inside = prepared.where(f"{at} >= {bigint_sql(first)} AND {at} < {bigint_sql(end)}")
    indexed = inside.selectExpr("*", f"{numbers} AS {INDEX}")
    if window.step != window.length:
        indexed = indexed.where(f"{INDEX} IS NOT NULL")
    start = f"({bigint_sql(first)} + {INDEX} * {bigint_sql(window.step)})"
    last = f"least({start} + {bigint_sql(window.length - 1)}, {bigint_sql(end - 1)})"
    return indexed.selectExpr("*", f"{start} AS {WSTART}", f"{last} AS {WEND}").drop(INDEX)


def assignment_instant(window: RangeWindow, ticks: str = TS) -> str:
    """Return the instant by which a row is assigned: windows that are closed on the right are those of the instant before."""
    return f"({ticks} - 1L)" if window.right else ticks


def range_bounds(plan: Plan, window: RangeWindow) -> tuple[int, int]:
    """Return the range's start and its exclusive end in ticks."""
    return window.first.at(plan.present), window.end.at(plan.present)


def within_range(plan: Plan, window: RangeWindow, rows: DataFrame, time: str) -> DataFrame:
    """Return the rows near the range, by conditions on the stored timestamps that prune files. Others are in no window."""
    first, end = range_bounds(plan, window)
    low, high = tick_range(plan.precision)
    if first > low:
        rows = rows.where(f"{time} >= {from_ticks(bigint(first), plan.precision)}")
    return rows.where(f"{time} <= {from_ticks(bigint(end), plan.precision)}") if end < high else rows


def rows_in_windows(plan: Plan, window: RangeWindow, rows: DataFrame, ticks: str) -> DataFrame:
    """Return the rows that lie in a window, once each; `ticks` is their instant."""
    at = assignment_instant(window, ticks)
    if any(window.months):
        grid = window_grid(plan, window, rows.sparkSession)
        return rows.join(F.broadcast(grid), F.expr(f"{at} BETWEEN {WSTART} AND {WEND}"), "left_semi")
    first, end = range_bounds(plan, window)
    inside = rows.where(f"{at} >= {bigint_sql(first)} AND {at} < {bigint_sql(end)}")
    is_between = f"({at} - {bigint_sql(first)}) % {bigint_sql(window.step)} >= {bigint_sql(window.length)}"
    return inside.where(f"NOT {is_between}") if window.step > window.length else inside


def window_grid(plan: Plan, window: RangeWindow, spark: SparkSession) -> DataFrame:
    """Return the start and last instant of every window. Raises `LimitError` if there are too many of them."""
    first, end = range_bounds(plan, window)
    if any(window.months):
        pairs = calendar_windows(window, first, end, plan.precision)
        return spark.createDataFrame(pairs, f"{WSTART} BIGINT, {WEND} BIGINT")
    count = max(0, -(-(end - first) // window.step))
    if count > MAX_WINDOWS:
        raise LimitError(
            f"GROUP BY makes {count} windows, at most {MAX_WINDOWS} are possible", hint="make the step longer or the range shorter"
        )
    start = f"({bigint_sql(first)} + id * {bigint_sql(window.step)})"
    return spark.range(count).selectExpr(
        f"{start} AS {WSTART}", f"least({start} + {bigint_sql(window.length - 1)}, {bigint_sql(end - 1)}) AS {WEND}"
    )


def calendar_windows(window: RangeWindow, first: int, end: int, precision: Precision) -> list[tuple[int, int]]:
    """Return start and last instant of windows whose length or step is of months. Raise `LimitError` if there are too many."""
    pairs: list[tuple[int, int]] = []
    length_months, step_months = window.months
    zone = window.zone
    while (start := add_months(first, step_months * len(pairs), zone, precision) + window.step * len(pairs)) < end:
        if len(pairs) == MAX_CALENDAR_WINDOWS:
            raise LimitError("The time windows may exceed 10000, please ensure your input.", hint="make the range shorter")
        last = (
            add_months(first, step_months * len(pairs) + length_months, zone, precision) + window.step * len(pairs) + window.length
        )
        pairs.append((start, min(last, end) - 1))
    return pairs


@dataclass(frozen=True, slots=True)
class RangeGrid:
    """The windows that start in a range of ticks, in order. Rows outside of it are in none.

    Attributes:
        starts, ends: First and last instants.
        end: The end of the range, exclusive, where windows are cut.
        shift: Ticks that are subtracted from an instant before it is assigned.
        regular: The windows without the cut; None if they are of months.
    """

    starts: Int64s
    ends: Int64s
    end: int
    shift: int
    regular: WindowGrid | None

    def assign(self, ticks: Int64s) -> tuple[Int64s | None, Int64s]:
        """Return rows and the starts of the windows that contain them; rows are None for each row once."""
        is_inside = (ticks >= self.starts[0] + self.shift) & (ticks < self.end + self.shift)
        inside = None if is_inside.all() else np.flatnonzero(is_inside)
        rows, numbers = self._number((ticks if inside is None else ticks[inside]) - self.shift)
        if inside is not None:
            rows = inside if rows is None else inside[rows]
        return rows, self.starts[numbers]

    def _number(self, instants: Int64s) -> tuple[Int64s | None, Int64s]:
        if self.regular is None:
            first, end = np.searchsorted(self.ends, instants, "left"), np.searchsorted(self.starts, instants, "right")
            rows, within = copies(np.maximum(end - first, 0))
            return rows, first[rows] + within
        assigned, starts = self.regular.assign(instants)
        numbers = (starts - self.regular.offset) // self.regular.step
        if assigned is None or not self.regular.overlaps:
            return assigned, numbers
        exists = numbers >= 0
        return assigned[exists], numbers[exists]

    def lasts(self, starts: Int64s) -> Int64s:
        """Return the last instants of windows."""
        lasts: Int64s = self.ends[np.searchsorted(self.starts, starts)]
        return lasts


def window_range(plan: Plan, window: RangeWindow) -> RangeGrid:
    """Return the windows of GROUP BY time. Raises `UnsupportedError` if there are too many, or one row lies in too many."""
    first, end = range_bounds(plan, window)
    shift = 1 if window.right else 0
    if any(window.months):
        pairs = np.array(calendar_windows(window, first, end, plan.precision), np.int64).reshape(-1, 2)
        starts, lasts = pairs[:, 0], pairs[:, 1]
        refuse(not len(starts), "no windows")
        return RangeGrid(starts, lasts, end, shift, None)
    grid = WindowGrid(window.step, first, window.length)
    count = max(0, -(-(end - first) // window.step))
    refuse(
        not 0 < count <= MAX_ARRAY_WINDOWS or window.length > MAX_OVERLAPS * window.step or end > 2**62 or first < -(2**62),
        "number of windows",
    )
    starts = first + np.arange(count, dtype=np.int64) * window.step
    return RangeGrid(starts, np.minimum(starts + (window.length - 1), end - 1), end, shift, grid)


def time_limits(plan: Plan) -> tuple[int | None, int | None]:
    """Return the first and last instant that the plan can use, in ticks."""
    first, last = plan.range
    if isinstance(plan.window, RangeWindow):
        start, end = range_bounds(plan, plan.window)
        first = start if first is None else max(first, start)
        last = end if last is None else min(last, end)
    return first, last
