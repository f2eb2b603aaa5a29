"""Windows counted from the start of a range: `GROUP BY ([start, end), interval, step)`.

Window k starts at `first + k * step` and ends `length` later, or with the range. Months are those of a zone's calendar, counted
from the range's start and before shorter units, so that no window depends on the one before: January 31 plus one month is the end
of February, plus two months March 31.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.compute.nodes import bigint, bigint_sql
from headrace.compute.plan import TS, WEND, WSTART, Plan
from headrace.compute.types import from_ticks
from headrace.compute.window_plans import RangeWindow
from headrace.compute.windows.numbering import window_number
from headrace.errors import LimitError
from headrace.model.instants import add_months
from headrace.model.time import Precision
from headrace.storage.spark.functions import F
from headrace.storage.values.scalars import tick_range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_CALENDAR_WINDOWS: Final = 10_000
MAX_WINDOWS: Final = 50_000_000
INDEX: Final = "_window"


def assign_windows(plan: Plan, window: RangeWindow, prepared: DataFrame) -> DataFrame:
    """Return prepared rows once for each window that they lie in, with its start and last instant."""
    if any(window.months):
        grid = window_grid(plan, window, prepared.sparkSession)
        inside = f"{assignment_instant(window)} BETWEEN {WSTART} AND {WEND}"
        return prepared.join(F.broadcast(grid), F.expr(inside))
    first, end = range_bounds(plan, window)
    within = f"{assignment_instant(window)} >= {bigint_sql(first)} AND {assignment_instant(window)} < {bigint_sql(end)}"
    numbers = window_number(f"({assignment_instant(window)} - {bigint_sql(first)})", window.length, window.step)
    indexed = prepared.where(within).selectExpr("*", f"{numbers} AS {INDEX}")
    if window.step != window.length:
        indexed = indexed.where(f"{INDEX} IS NOT NULL")
    start = f"({bigint_sql(first)} + {INDEX} * {bigint_sql(window.step)})"
    last = f"least({start} + {bigint_sql(window.length - 1)}, {bigint_sql(end - 1)})"
    return indexed.selectExpr("*", f"{start} AS {WSTART}", f"{last} AS {WEND}").drop(INDEX)


def assignment_instant(window: RangeWindow) -> str:
    """Return the instant by which a row is assigned: windows that are closed on the right are those of the instant before."""
    return f"({TS} - 1L)" if window.right else TS


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
    at = f"({ticks} - 1L)" if window.right else ticks
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
