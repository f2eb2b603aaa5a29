"""Rules of GROUP BY clauses, which check a clause and return its window plan, and of FILL."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Final

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment
from headrace.compute.binding.ranges import constant_instant
from headrace.compute.language import WindowRule
from headrace.compute.nodes import FALSE, TRUE, Column, Node, Value, bigint, string
from headrace.compute.plan import WEND, WSTART, Plan
from headrace.compute.plan_clauses import GapFill, MaxAge, Output, Sort
from headrace.compute.plan_sources import SeriesRows
from headrace.compute.terms import ColumnRole, Term
from headrace.compute.types import is_text
from headrace.compute.window_plans import Argument, Bound
from headrace.compute.windows.ranges import RangeWindow
from headrace.compute.windows.row_runs import RunWindow
from headrace.compute.windows.sessions import SessionWindow
from headrace.errors import LimitError, ProgrammingError, TypeMismatchError
from headrace.model.expressions import Call, DurationLiteral, Expression, Literal, transform
from headrace.model.time import Duration, Precision
from headrace.model.tree_queries import (
    CompoundDuration,
    GroupByCondition,
    GroupByCount,
    GroupBySession,
    GroupByTime,
    GroupByVariation,
    TreeFill,
    TreeFillMode,
)
from headrace.model.types import BIGINT, NUMBERS, DataType, TypeKind

CONTROL: Final = "_state"
SHOWN_END: Final = Column(WEND) + bigint(1)
"""The instant that a window shows if it is closed on the right."""


DAYS: Final = {"n": 30, "y": 365}
"""Days of a month and a year where they are lengths of their own."""


def duration_ticks(duration: CompoundDuration, precision: Precision) -> int:
    """Return a duration in ticks; a month has 30 days, a year 365."""
    fixed = (Duration(part.count * DAYS[part.unit], "d") if part.is_calendar else part for part in duration)
    return sum(part.ticks(precision) for part in fixed)


def years_in_days(node: DurationLiteral) -> DurationLiteral:
    """Return what moves an instant: months are those of the calendar, and a year is 365 days."""
    duration = node.value
    return replace(node, value=Duration(duration.count * DAYS["y"], "d")) if duration.unit == "y" else node


def window_length(duration: CompoundDuration, precision: Precision) -> tuple[int, int]:
    """Return the calendar months of a duration, and its other units in ticks."""
    months = sum(part.months for part in duration if part.is_calendar)
    return months, duration_ticks(tuple(part for part in duration if not part.is_calendar), precision)


def time_window(clause: GroupByTime, rows: Binder, names: Environment) -> RangeWindow:
    """Return the windows of GROUP BY ([start, end), interval, step)."""
    if clause.range is None:
        message = "The query time range should be specified in the GROUP BY TIME clause."
        raise ProgrammingError(message, hint="write GROUP BY ([start, end), interval)", span=clause.span)
    length_months, length = window_length(clause.interval, names.precision)
    step_months, step = window_length(clause.step or clause.interval, names.precision)
    if length <= 0 and not length_months:
        message = "The second parameter time interval should be a positive integer."
        raise LimitError(message, hint="such as 1m", span=clause.interval[0].span)
    if step <= 0 and not step_months:
        message = "The third parameter time slidingStep should be a positive integer."
        raise LimitError(message, hint="such as 1m", span=(clause.step or clause.interval)[0].span)
    first, end = (constant_bound(node, rows) for node in (clause.range.start, clause.range.end))
    if first.present == end.present and first.ticks >= end.ticks:
        raise LimitError(
            "Start time should be smaller than endTime in GroupBy", hint="swap the ends of the range", span=clause.range.span
        )
    return RangeWindow(first, end, length, step, (length_months, step_months), names.timezone, clause.range.left_open)


def constant_bound(node: Expression, rows: Binder) -> Bound:
    """Bind an end of a range, which must be a constant instant."""
    bound = constant_instant(transform(node, lambda part: years_in_days(part) if isinstance(part, DurationLiteral) else None), rows)
    if bound is None:
        raise ProgrammingError("the range of GROUP BY needs constant instants", hint="write times or whole numbers", span=node.span)
    return bound


def limit_windows(plan: Plan) -> Plan:
    """Narrow the range of windows by time to those within LIMIT and OFFSET, so that others are not computed."""
    window = plan.window
    if not isinstance(window, RangeWindow) or not can_limit_windows(plan, window):
        return plan
    count = -(-(window.end.ticks - window.first.ticks) // window.step)
    skipped = plan.order.offset or 0
    kept = count if plan.order.limit is None else plan.order.limit
    is_descending = time_sorts(plan)[0].descending
    low, high = (max(0, count - skipped - kept), count - skipped) if is_descending else (skipped, min(count, skipped + kept))
    if low >= high:
        return plan
    first = window.first.ticks + low * window.step
    end = min(window.end.ticks, first + (high - low - 1) * window.step + window.length)
    narrowed = replace(window, first=replace(window.first, ticks=first), end=replace(window.end, ticks=end))
    # Further windows that overlap the last one begin in its range.
    limits = replace(plan.order, limit=plan.order.limit if window.length > window.step else None, offset=None)
    return replace(plan, selection=replace(plan.groups, window=narrowed), order=limits)


def can_limit_windows(plan: Plan, window: RangeWindow) -> bool:
    """Return whether every window is one row of the result, in the order of time, and windows do not depend on others."""
    if any(window.months) or window.first.present != window.end.present or (plan.order.limit is None and not plan.order.offset):
        return False
    if not isinstance(plan.source, SeriesRows) or (plan.keys and len(plan.source.devices) > 1):
        return False
    if plan.groups.having is not None or plan.gap_fill is not None:
        return False
    instants = {output.column for output in (*plan.outputs, *plan.hidden) if output.node in (Column(WSTART), SHOWN_END)}
    sorts = time_sorts(plan)
    directions = {sort.descending for sort in sorts}
    if len(directions) != 1 or any(sort.column not in instants for sort in sorts):
        return False
    return window.length <= window.step or directions == {False}


def time_sorts(plan: Plan) -> list[Sort]:
    devices = {output.column for output in plan.outputs if output.role is ColumnRole.SERIES}
    return [sort for sort in plan.order.sorts if sort.column not in devices]


def control_argument(node: Expression, rows: Binder) -> Argument:
    term: Term = rows.bind(node)
    return Argument(CONTROL, term.node, term.type or BIGINT)


def variation_window(clause: GroupByVariation, rows: Binder, _: Environment) -> RunWindow:
    control = control_argument(clause.expression, rows)
    if clause.delta and (is_text(control.type) or control.type.kind is TypeKind.BOOL):
        raise TypeMismatchError("Only support numeric type when delta != 0", hint="leave out delta", span=clause.expression.span)
    return RunWindow("variation", control, delta=clause.delta, ignore_null=clause.ignore_null)


def condition_window(clause: GroupByCondition, rows: Binder, _: Environment) -> RunWindow:
    control = control_argument(clause.expression, rows)
    if control.type.kind is not TypeKind.BOOL:
        raise TypeMismatchError("the condition of GROUP BY CONDITION is not a BOOLEAN", hint="compare", span=clause.expression.span)
    return RunWindow("condition", control, keep=clause.keep, ignore_null=clause.ignore_null)


def session_window(clause: GroupBySession, _: Binder, names: Environment) -> SessionWindow:
    return SessionWindow(duration_ticks(clause.gap, names.precision))


def count_window(clause: GroupByCount, rows: Binder, _: Environment) -> RunWindow:
    if clause.count <= 0:
        raise LimitError(
            "The size of GROUP BY COUNT should be greater than 0", hint="give a number of rows", span=clause.count_span
        )
    return RunWindow("count", control_argument(clause.expression, rows), size=clause.count, ignore_null=clause.ignore_null)


WINDOWS: Final[dict[type, WindowRule]] = {
    GroupByTime: time_window,
    GroupByVariation: variation_window,
    GroupByCondition: condition_window,
    GroupBySession: session_window,
    GroupByCount: count_window,
}

TYPES: Final = {TypeKind.INT: "INT", TypeKind.BIGINT: "BIGINT", TypeKind.FLOAT: "FLOAT", TypeKind.DOUBLE: "DOUBLE"}


def gap_fill(fill: TreeFill, plan: Plan, *, has_time: bool, by_device: bool) -> GapFill:
    fixed = has_time + by_device
    values = [None if number < fixed else fill_value(fill, output) for number, output in enumerate(plan.outputs)]
    time = Column(plan.outputs[0].column) if has_time else bigint(0)
    return GapFill(fill.mode.value, tuple(values), time, max_age(fill, plan))


def max_age(fill: TreeFill, plan: Plan) -> MaxAge | None:
    """Return how far FILL(PREVIOUS, age) looks back: months of the calendar, and the rest, in which a year has 365 days."""
    if fill.max_age is None:
        return None
    months = sum(part.count for part in fill.max_age if part.unit == "n")
    rest = tuple(part for part in fill.max_age if part.unit != "n")
    return MaxAge(duration_ticks(rest, plan.precision), months, plan.timezone, plan.precision)


def fill_value(fill: TreeFill, output: Output) -> Node | None:
    """Return what fills the gaps of an output; None if its type cannot hold the value."""
    match fill.mode:
        case TreeFillMode.PREVIOUS:
            return Column(output.column)
        case TreeFillMode.LINEAR:
            return Column(output.column) if output.type.kind in (*NUMBERS, TypeKind.TIMESTAMP) else None
        case _:
            return constant(fill.value, output.type)


def constant(node: Expression | None, type_: DataType) -> Node | None:
    """Write a constant in a type; None if the type cannot hold it."""
    match node:
        case Literal(value=bool(value)):
            if type_.kind is TypeKind.BOOL:
                return TRUE if value else FALSE
            return string(str(value).lower()) if is_string(type_) else None
        case Literal(value=int(value)):
            return integer_constant(value, type_)
        case Literal(value=float(value)):
            return number_constant(repr(value), type_) if type_.kind not in (TypeKind.INT, TypeKind.BIGINT) else None
        case Literal(value=str(value)):
            return string(value) if is_string(type_) else date_constant(value) if type_.kind is TypeKind.DATE else None
        case Call(function="-" | "unary-", arguments=(Literal(value=int() | float() as value),)):
            return constant(Literal(-value), type_)
    return None


def is_string(type_: DataType) -> bool:
    """Return whether a type is TEXT or STRING."""
    return type_.kind in (TypeKind.VARCHAR, TypeKind.NCHAR)


def integer_constant(value: int, type_: DataType) -> Node | None:
    """Write an integer in a type; None if the type cannot hold it."""
    match type_.kind:
        case TypeKind.INT if not -(2**31) <= value < 2**31:
            return None
        case TypeKind.TIMESTAMP:
            return bigint(value)
        case TypeKind.DATE:
            text = str(value)
            return date_constant(f"{text[:-4]}-{text[-4:-2]}-{text[-2:]}")
    return number_constant(str(value), type_)


def date_constant(written: str) -> Node | None:
    """Write a day such as 2024-05-01 as a DATE; None if there is no such day."""
    try:
        return Value(date.fromisoformat(written), "date")
    except ValueError:
        return None


def number_constant(written: str, type_: DataType) -> Node | None:
    """Write a number in a type; None if the type is neither numeric nor text."""
    if is_string(type_):
        return string(written)
    return string(written).cast(TYPES[type_.kind]) if type_.kind in TYPES else None
