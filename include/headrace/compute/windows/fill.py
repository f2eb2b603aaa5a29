"""FILL: windows without rows, filled from their neighbors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.compute import calendar
from headrace.compute.nodes import Column, Node, bigint, call
from headrace.compute.plan import WEND, WSTART, Plan
from headrace.compute.plan_clauses import Output
from headrace.compute.sql_text import named_sql, raise_error
from headrace.compute.types import double_to_number, spark_type
from headrace.compute.window_plans import FillPlan, IntervalWindow
from headrace.compute.windows import intervals
from headrace.compute.windows.numbering import THROUGH_CURRENT_ROW, over
from headrace.compute.windows.segments import finish_as_ticks, to_stored_columns
from headrace.errors import LimitError
from headrace.model.queries import FillMode
from headrace.model.time import Precision

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_FILLED_WINDOWS: Final = 10_000_000
"""More windows in the range of WHERE are a mistake, such as a year in the wrong century."""

IS_FILLED: Final = "_is_filled"
"""Whether a window was added by FILL."""
AT: Final = "_at"
STEP: Final = "_step"
NEXT: Final = "_next"
WALL: Final = "_wall"
NEXT_WALL: Final = "_next_wall"
RANGE_START: Final = "_range_start"
RANGE_END: Final = "_range_end"
FORCED_MODES: Final = (FillMode.NULL_F, FillMode.VALUE_F)


def fill_windows(plan: Plan, windows: DataFrame) -> DataFrame:
    """Return finished windows together with the missing ones, between the windows of a group and to the ends of WHERE's range.

    Input and result have keys, `_wstart`, `_wend` and the outputs, with instants as ticks; the result also has `_is_filled`. A
    group without windows gets none, except for `NULL_F` and `VALUE_F` in a query without keys. With `fill.between`, nothing is
    added at the ends of WHERE's range.
    """
    window = plan.window
    assert isinstance(window, IntervalWindow)
    assert window.fill is not None
    keys, fill = [key.column for key in plan.keys], window.fill
    first, last = (None, None) if fill.between else edge_window_starts(plan, window)
    if fill.mode in FORCED_MODES and not keys and has_bounded_range(plan) and first is not None:
        windows = ensure_one_row(plan, windows, first)
    values = [output for output in (*plan.outputs, *plan.hidden) if output.is_filled]
    with_neighbors = windows.selectExpr("*", *neighbor_columns(fill, keys, values))
    positioned = add_starts(window, plan.precision, add_steps(window, plan.precision, with_neighbors, first, last))
    names = {output.column: filled_value(fill, output, number) for number, output in enumerate(values)}
    names |= {IS_FILLED: f"{STEP} != 0L"}
    filled = positioned.selectExpr(*keys, f"{AT} AS {WSTART}", *(f"{sql} AS {name}" for name, sql in names.items()))
    ended = filled.selectExpr("*", f"{intervals.end(window, Column(WSTART), plan.precision)} AS {WEND}")
    outputs = {
        output.column: Column(output.column) if output.is_filled else output.node for output in (*plan.outputs, *plan.hidden)
    }
    return ended.selectExpr(*keys, WSTART, WEND, IS_FILLED, *named_sql(plan, outputs))


def fill_stored(plan: Plan, windows: DataFrame) -> DataFrame:
    """Return finished windows of a plan with FILL as `finish` does, together with the missing ones, and `_is_filled`."""
    return to_stored_columns(plan, fill_windows(plan, finish_as_ticks(plan, windows)), [IS_FILLED])


def add_starts(window: IntervalWindow, precision: Precision, stepped: DataFrame) -> DataFrame:
    """Add the window start that lies `_step` slides after a window as `_at`, without those that the clock skips."""
    point = intervals.add_slides(window, Column(WALL), Column(STEP), precision)
    start = calendar.to_utc(point, window.zone or "UTC", precision)
    positioned = stepped.selectExpr("*", f"if({STEP} = 0L, {WSTART}, {start}) AS {AT}")
    if not intervals.has_shifted_starts(window, precision):
        return positioned
    return positioned.where(f"{STEP} = 0L OR {intervals.grid_point(window, Column(AT), precision)} = {point}")


def has_bounded_range(plan: Plan) -> bool:
    first, last = plan.range
    return first is not None and last is not None and first <= last


def edge_window_starts(plan: Plan, window: IntervalWindow) -> tuple[Node | None, Node | None]:
    """Return the first and last window start in WHERE's range. Raises `LimitError` if there are too many."""
    first, last = plan.range
    if first is not None and last is not None and not window.sliding.is_calendar:
        count = (last - first) // window.sliding.ticks(plan.precision)
        if count > MAX_FILLED_WINDOWS:
            raise LimitError(f"FILL would make {count} windows in each group", hint="narrow the range of timestamps in WHERE")
    starts = [None if end is None else intervals.start(window, bigint(end), plan.precision) for end in (first, last)]
    return starts[0], starts[1]


def ensure_one_row(plan: Plan, windows: DataFrame, first: Node) -> DataFrame:
    """Return the windows, or if there are none, a window of NULLs at the start of the range from which to fill."""
    nulls = [f"CAST(NULL AS {spark_type(output.type)}) AS {output.column}" for output in (*plan.outputs, *plan.hidden)]
    single = windows.sparkSession.range(1).selectExpr(f"{first} AS {WSTART}", f"{first} AS {WEND}", *nulls, "true AS _added")
    both = windows.selectExpr("*", "false AS _added").unionByName(single)
    counted = both.selectExpr("*", "count_if(NOT _added) OVER () AS _existing")
    return counted.where("NOT _added OR _existing = 0").drop("_added", "_existing")


def neighbor_columns(fill: FillPlan, keys: list[str], values: list[Output]) -> list[str]:
    """Return columns for the start of the next window, whether a window is the first one, and values to fill with."""
    order = [WSTART]
    following = "" if fill.keeps_nulls else " IGNORE NULLS"
    columns = [f"lead({WSTART}) {over(keys, order)} AS {NEXT}", f"lag({WSTART}) {over(keys, order)} IS NULL AS _first"]
    for output in values:
        match fill.mode:
            case FillMode.PREV if fill.keeps_nulls:
                columns.append(f"{output.column} AS {neighbor_name(output)}")
            case FillMode.PREV:
                columns.append(f"last({output.column}, true) {over(keys, order, THROUGH_CURRENT_ROW)} AS {neighbor_name(output)}")
            case FillMode.NEXT:
                columns.append(f"lead({output.column}){following} {over(keys, order)} AS {neighbor_name(output)}")
            case FillMode.LINEAR:
                columns.append(f"lead({output.column}) {over(keys, order)} AS {neighbor_name(output)}")
    return columns


def neighbor_name(output: Output) -> str:
    return f"_n_{output.column}"


def add_steps(window: IntervalWindow, precision: Precision, windows: DataFrame, first: Node | None, last: Node | None) -> DataFrame:
    """Repeat each window for those filled from it, with the number of slides between them as `_step` (0 for itself).

    Intermediate results are columns, because the expressions of a calendar would be megabytes if nested.
    """
    bounds = {RANGE_START: first, RANGE_END: last}
    bounded = windows.selectExpr("*", *(f"{start} AS {name}" for name, start in bounds.items() if start is not None))
    instants = {WALL: WSTART, NEXT_WALL: NEXT} | {f"{name}_wall": name for name, start in bounds.items() if start is not None}
    walls = bounded.selectExpr(
        "*", *(f"{intervals.grid_point(window, Column(at), precision)} AS {name}" for name, at in instants.items())
    )
    before, after = step_counts(window, precision, first is not None, last is not None)
    counted = walls.selectExpr("*", f"{before} AS _before", f"{after} AS _after")
    return counted.selectExpr("*", f"explode({step_numbers('_before', '_after')}) AS {STEP}")


def step_numbers(before: str, after: str) -> str:
    """Return the array of slides from a window to those filled from it, including 0. Too many fail the query."""
    message = f"concat('FILL would make ', {before} + {after}, ' windows from one')"
    return f"if({before} + {after} > {MAX_FILLED_WINDOWS}L, {raise_error(message)}, sequence(-{before}, {after}))"


def step_counts(window: IntervalWindow, precision: Precision, low: bool, high: bool) -> tuple[str, str]:
    """Return how many windows to fill before and after a window. `low` and `high`: whether WHERE's range has the end."""
    before = f"if(_first, greatest({slides_between(window, f'{RANGE_START}_wall', WALL, precision)}, 0L), 0L)" if low else "0L"
    tail = f"greatest({slides_between(window, WALL, f'{RANGE_END}_wall', precision)}, 0L)" if high else "0L"
    return before, f"if({NEXT} IS NULL, {tail}, {slides_between(window, WALL, NEXT_WALL, precision)} - 1L)"


def slides_between(window: IntervalWindow, first: str, second: str, precision: Precision) -> Node:
    """Return how many slides lie between two window starts in wall-clock time."""
    if window.sliding.is_calendar:
        count = calendar.months(Column(second), precision) - calendar.months(Column(first), precision)
        return call("div", count, bigint(window.sliding.months))
    return call("div", Column(second) - Column(first), bigint(window.sliding.ticks(precision)))


def filled_value(fill: FillPlan, output: Output, number: int) -> str:
    """Return an output: its own value in an existing window (the neighbor's if NULL), else the value of the mode."""
    own, neighbor = output.column, neighbor_name(output)
    if fill.keeps_nulls and fill.mode in (FillMode.PREV, FillMode.NEXT):
        return f"if({STEP} = 0L, {own}, {neighbor})"
    if fill.keeps_nulls and fill.mode in (FillMode.VALUE, FillMode.VALUE_F):
        return f"if({STEP} = 0L, {own}, {fill.values[number]})"
    match fill.mode:
        case FillMode.PREV:
            return f"if({STEP} < 0L, NULL, {neighbor})"
        case FillMode.NEXT:
            return f"if({STEP} > 0L, {neighbor}, coalesce({own}, {neighbor}))"
        case FillMode.VALUE | FillMode.VALUE_F:
            return f"if({STEP} = 0L, coalesce({own}, {fill.values[number]}), {fill.values[number]})"
        case FillMode.LINEAR if output.type.is_number:
            points = (WSTART, Column(own)), (NEXT, Column(neighbor))
            value = double_to_number(value_on_line(AT, *points), output.type)
            return f"CASE WHEN {STEP} = 0L THEN {own} WHEN {STEP} > 0L THEN {value} END"
        case _:
            return f"if({STEP} = 0L, {own}, NULL)"


def value_on_line(at: str, first: tuple[str, Node], second: tuple[str, Node]) -> Node:
    """Return the value at an instant on the line through two points; instants are names of columns."""
    (start, low), (end, high) = first, second
    elapsed, length = Column(at) - Column(start), Column(end) - Column(start)
    return low + (high.cast("double") - low) * elapsed / call("nullif", length, bigint(0))
