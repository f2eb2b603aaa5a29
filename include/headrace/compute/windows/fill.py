"""FILL: windows without rows, filled from their neighbors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from headrace.compute import calendar
from headrace.compute.frames import Frame, Repetition, SparkRows
from headrace.compute.nodes import NULL, TRUE, Column, Node, Over, bigint, both, call, case, either, if_
from headrace.compute.plan import WEND, WSTART, Plan
from headrace.compute.plan_clauses import Output
from headrace.compute.sql_text import stored_outputs
from headrace.compute.types import double_to_number
from headrace.compute.window_plans import FillPlan
from headrace.compute.windows import intervals
from headrace.compute.windows.intervals import IntervalWindow
from headrace.compute.windows.numbering import THROUGH_CURRENT_ROW
from headrace.compute.windows.segments import finish_as_ticks, key_columns
from headrace.errors import LimitError
from headrace.model.queries import FillMode
from headrace.model.time import Precision

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

F = TypeVar("F", bound=Frame)
MAX_FILLED_WINDOWS: Final = 10_000_000
"""More windows in the range of WHERE are a mistake, such as a year in the wrong century."""

IS_FILLED: Final = "_is_filled"
"""Whether a window was added by FILL."""
AT, LAST, STEP, NEXT, FIRST = map(Column, ("_at", "_last", "_step", "_next", "_first"))
LOW, HIGH, POINT, WALL, LOW_WALL, HIGH_WALL = map(Column, ("_low", "_high", "_point", "_wall", "_low_wall", "_high_wall"))
FORCED_MODES: Final = (FillMode.NULL_F, FillMode.VALUE_F)


def fill_stored(plan: Plan, windows: DataFrame) -> DataFrame:
    """Return finished windows of a plan with FILL as `finish` does, together with the missing ones, and `_is_filled`."""
    return to_stored(plan, fill_rows(plan, SparkRows(plan, finish_as_ticks(plan, windows)))).frame


def to_stored(plan: Plan, filled: F) -> F:
    """Return what `fill_rows` does with the outputs in stored types."""
    kept: dict[str, Node] = {name: Column(name) for name in (*key_columns(plan), WSTART, WEND, IS_FILLED)}
    return filled.select(kept | stored_outputs(plan))


def fill_rows(plan: Plan, windows: F) -> F:
    """Return finished windows together with the missing ones, between the windows of a group and to the ends of WHERE's range.

    Input and result have keys, `_wstart`, `_wend` and the outputs, with instants as ticks; the result also has `_is_filled`. A
    group without windows gets none, except for `NULL_F` and `VALUE_F` in a query without keys. With `fill.between`, nothing is
    added at the ends of WHERE's range.
    """
    window = plan.interval
    assert window is not None
    assert window.fill is not None
    keys: dict[str, Node] = {key.column: Column(key.column) for key in plan.keys}
    fill, outputs = window.fill, (*plan.outputs, *plan.hidden)
    first, last = (None, None) if fill.between else edge_window_starts(plan, window)
    if fill.mode in FORCED_MODES and not keys and has_bounded_range(plan) and first is not None:
        windows = windows.or_row({WSTART: first, WEND: first}, {output.column: output.type for output in outputs})
    values = [output for output in outputs if output.is_filled]
    with_neighbors = windows.extend(neighbor_columns(fill, tuple(keys.values()), values))
    return fill_positions(
        plan, fill, add_windows(window, plan.precision, add_steps(window, plan.precision, with_neighbors, first, last))
    )


def fill_positions(plan: Plan, fill: FillPlan, positioned: F) -> F:
    """Return the windows at `_at` to `_last` with their values.

    Each row has the window that one is filled from, itself if it has rows: keys, `_wstart`, the outputs that depend on rows,
    `_next`, and `neighbor_columns`.
    """
    keys: dict[str, Node] = {key.column: Column(key.column) for key in plan.keys}
    outputs = (*plan.outputs, *plan.hidden)
    values = [output for output in outputs if output.is_filled]
    filled = {output.column: filled_value(fill, output, number) for number, output in enumerate(values)}
    ended = positioned.select({**keys, WSTART: AT, WEND: LAST, IS_FILLED: call("<>", AT, Column(WSTART)), **filled})
    results = {output.column: Column(output.column) if output.is_filled else output.node for output in outputs}
    ends = {name: Column(name) for name in (WSTART, WEND, IS_FILLED)}
    return ended.select({**keys, **ends, **results})


def add_windows(window: IntervalWindow, precision: Precision, stepped: F) -> F:
    """Add as `_at` and `_last` the ends of the window whose grid point is `_step` slides after that of a window, if there is one.

    Only those that start from `_low` up to `_high` are kept.
    """
    pointed = stepped.extend({POINT.name: intervals.add_slides(window, WALL, STEP, precision)})
    start = calendar.to_utc(POINT, window.zone or "UTC", precision)
    windows = pointed.extend({AT.name: start, LAST.name: intervals.last_instant(window, POINT, precision)})
    if not intervals.has_shifted_starts(window, precision):
        return windows
    is_before_high = either(HIGH > AT, both(NEXT.is_null(), AT.equals(HIGH)))
    return windows.where(both(intervals.exists(window, POINT, AT, LAST, precision), AT >= LOW, is_before_high))


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


def neighbor_columns(fill: FillPlan, keys: tuple[Node, ...], values: list[Output]) -> dict[str, Node]:
    """Return columns for the start of the next window, whether a window is the first one, and values to fill with."""
    order = (Column(WSTART),)
    columns: dict[str, Node] = {
        NEXT.name: Over(call("lead", Column(WSTART)), keys, order),
        FIRST.name: Over(call("lag", Column(WSTART)), keys, order).is_null(),
    }
    for output in values:
        own, name = Column(output.column), neighbor(output).name
        match fill.mode:
            case FillMode.PREV if fill.keeps_nulls:
                columns[name] = own
            case FillMode.PREV:
                columns[name] = Over(call("last", own, TRUE), keys, order, THROUGH_CURRENT_ROW)
            case FillMode.NEXT:
                columns[name] = Over(call("lead", own), keys, order, ignores_nulls=not fill.keeps_nulls)
            case FillMode.LINEAR:
                columns[name] = Over(call("lead", own), keys, order)
    return columns


def neighbor(output: Output) -> Column:
    """Return the column of the value to fill with."""
    return Column(f"_n_{output.column}")


def add_steps(window: IntervalWindow, precision: Precision, windows: F, first: Node | None, last: Node | None) -> F:
    """Repeat each window for itself and those filled from it, with the number of slides between their grid points as `_step`.

    These are those from `_low`, which is the window itself or the first one of WHERE's range, up to the next one or the last one of
    the range, `_high`. Intermediate results are columns, because the expressions of a calendar would be megabytes if nested.
    """
    low = Column(WSTART) if first is None else if_(FIRST, call("least", first, Column(WSTART)), Column(WSTART))
    high = Column(WSTART) if last is None else call("greatest", last, Column(WSTART))
    bounded = windows.extend({LOW.name: low, HIGH.name: if_(NEXT.is_null(), high, NEXT)})
    points = {WALL.name: Column(WSTART), LOW_WALL.name: LOW, HIGH_WALL.name: HIGH}
    walls = bounded.extend({name: intervals.point_of(window, at, precision) for name, at in points.items()})
    before, after = step_counts(window, precision)
    message = ("FILL would make ", " windows from one")
    return walls.repeat(Repetition(STEP.name, -before, after, MAX_FILLED_WINDOWS, message))


def step_counts(window: IntervalWindow, precision: Precision) -> tuple[Node, Node]:
    """Return how many grid points before and after that of a window may be those of windows filled from it."""
    before = slides_between(window, LOW_WALL, WALL, precision)
    after = slides_between(window, WALL, HIGH_WALL, precision) - if_(NEXT.is_null(), bigint(0), bigint(1))
    if not intervals.has_shifted_starts(window, precision):
        return before, after
    before = before + intervals.max_reordered(window, LOW, precision)
    return before, call("greatest", after + intervals.max_reordered(window, HIGH, precision), bigint(0))


def slides_between(window: IntervalWindow, first: Node, second: Node, precision: Precision) -> Node:
    """Return how many slides lie between two window starts in wall-clock time."""
    if window.sliding.is_calendar:
        count = calendar.months(second, precision) - calendar.months(first, precision)
        return call("div", count, bigint(window.sliding.months))
    return call("div", second - first, bigint(window.sliding.ticks(precision)))


def filled_value(fill: FillPlan, output: Output, number: int) -> Node:
    """Return an output: its own value in an existing window (the neighbor's if NULL), else the value of the mode."""
    own, other, is_own = Column(output.column), neighbor(output), AT.equals(Column(WSTART))
    if fill.keeps_nulls and fill.mode in (FillMode.PREV, FillMode.NEXT):
        return if_(is_own, own, other)
    if fill.keeps_nulls and fill.mode in (FillMode.VALUE, FillMode.VALUE_F):
        return if_(is_own, own, fill.values[number])
    match fill.mode:
        case FillMode.PREV:
            return if_(Column(WSTART) > AT, NULL, other)
        case FillMode.NEXT:
            return if_(Column(WSTART) < AT, other, call("coalesce", own, other))
        case FillMode.VALUE | FillMode.VALUE_F:
            return if_(is_own, call("coalesce", own, fill.values[number]), fill.values[number])
        case FillMode.LINEAR if output.type.is_number:
            points = (Column(WSTART), own), (NEXT, other)
            return case([(is_own, own), (Column(WSTART) < AT, double_to_number(value_on_line(AT, *points), output.type))])
        case _:
            return if_(is_own, own, NULL)


def value_on_line(at: Node, first: tuple[Node, Node], second: tuple[Node, Node]) -> Node:
    """Return the value at an instant on the line through two points, each an instant and a value."""
    (start, low), (end, high) = first, second
    elapsed, length = at - start, end - start
    return low + (high.cast("double") - low) * elapsed / call("nullif", length, bigint(0))
