"""Values computed from the rows before and after: INTERP at regular points in time, and FILL of empty cells of a result."""

from __future__ import annotations

from typing import Final, TypeVar

from headrace.compute.evaluation.ordering import sort_nodes
from headrace.compute.frames import Frame, Repetition
from headrace.compute.nodes import (
    NULL,
    TRUE,
    Column,
    Node,
    Over,
    bigint,
    both,
    call,
    double,
    either,
    if_,
    integer,
    string,
)
from headrace.compute.plan import KEY, SERIES_KEY, TS, Plan
from headrace.compute.plan_clauses import GapFill, InterpPlan, Output
from headrace.compute.terms import ColumnRole
from headrace.compute.types import double_to_number, spark_type
from headrace.compute.window_plans import Argument, Bound
from headrace.compute.windows.fill import value_on_line
from headrace.compute.windows.numbering import FROM_CURRENT_ROW, THROUGH_CURRENT_ROW
from headrace.errors import LimitError
from headrace.model.queries import FillMode

F = TypeVar("F", bound=Frame)
MAX_POINTS: Final = 10_000_000
POINT: Final = "_at"
FILLED: Final = "_filled"
INSTANT, AT, NUMBER, FROM, TO = map(Column, (TS, POINT, "_number", "_first_point", "_last_point"))
NEXT_INSTANT, FIRST, BEFORE = Column("_next"), Column("_first"), Column("_before")
CONSTANT_MODES: Final = (FillMode.VALUE, FillMode.VALUE_F, FillMode.NULL, FillMode.NULL_F)


def interpolate(plan: Plan, interp: InterpPlan, prepared: F) -> F:
    """Return keys, points (`_at`), whether each was interpolated (`_filled`), and the outputs, with instants as ticks."""
    keys: dict[str, Node] = {key.column: Column(key.column) for key in plan.keys}
    at = tuple(keys.values())
    if interp.skip_nulls:
        prepared = prepared.where(both(*(Column(argument.column).is_not_null() for argument in plan.arguments)))
    prepared = first_of_instants(plan, prepared, at)
    following = {neighbor(argument).name: over("lead", Column(argument.column), at) for argument in plan.arguments}
    is_first = over("lag", INSTANT, at).is_null()
    with_next = prepared.extend({NEXT_INSTANT.name: over("lead", INSTANT, at), FIRST.name: is_first, **following})
    ranged = with_next.extend({FROM.name: range_end(plan, interp.first, "min"), TO.name: range_end(plan, interp.last, "max")})
    numbered = ranged.where(FROM <= TO).repeat(point_numbers(interp))
    points = numbered.extend({POINT: FROM + NUMBER * bigint(interp.every)})
    condition = point_condition(interp.mode)
    valued = points if condition is None else points.where(condition)
    values = {f"i{number}": point_value(interp, argument, number) for number, argument in enumerate(plan.arguments)}
    placed = valued.select({**keys, POINT: AT, FILLED: call("<>", AT, INSTANT), **values})
    outputs = {output.column: output.node for output in (*plan.outputs, *plan.hidden)}
    return placed.select({**keys, POINT: AT, **outputs})


def first_of_instants(plan: Plan, rows: F, keys: tuple[Node, ...]) -> F:
    """Keep the first row of each instant in a group: by subtable, then by composite key."""
    is_by_series = any(key.role is ColumnRole.SERIES for key in plan.keys)
    ties = [Column(name) for name in ((KEY,) if is_by_series else (SERIES_KEY, KEY)) if name in plan.identity.columns]
    if not ties:
        return rows
    before = Over(call("lag", INSTANT), keys, (INSTANT, *ties))
    return rows.extend({BEFORE.name: before}).where(either(BEFORE.is_null(), BEFORE < INSTANT))


def over(function: str, value: Node, keys: tuple[Node, ...]) -> Node:
    """Return a function over the rows of a group in order of time."""
    return Over(call(function, value), keys, (INSTANT,))


def neighbor(argument: Argument) -> Column:
    """Return the column of the value in the next row."""
    return Column(f"_n_{argument.column}")


def range_end(plan: Plan, bound: Bound | None, default: str) -> Node:
    """Return an end of the range in ticks, by default that of the data."""
    return Over(call(default, INSTANT), ()) if bound is None else bigint(bound.at(plan.present))


def point_numbers(interp: InterpPlan) -> Repetition:
    """Return the numbers of the points from a row to the next one, for the first row also those before it."""
    every, zero = double(float(interp.every)), bigint(0)
    since = call("ceil", (INSTANT - FROM) / every).cast("bigint")
    first = if_(FIRST, zero, call("greatest", since, zero))
    end = if_(NEXT_INSTANT.is_null(), TO, call("least", TO, NEXT_INSTANT - bigint(1)))
    last = call("floor", (end - FROM) / every).cast("bigint")
    return Repetition(NUMBER.name, first, last, MAX_POINTS, ("INTERP would make ", " points between two rows"))


def point_condition(mode: FillMode) -> Node | None:
    """Return the condition for a point to be in the result; None for all points."""
    match mode:
        case FillMode.PREV:
            return AT >= INSTANT
        case FillMode.NEXT:
            return either(AT <= INSTANT, NEXT_INSTANT.is_not_null())
        case FillMode.LINEAR:
            return either(AT.equals(INSTANT), both(AT > INSTANT, NEXT_INSTANT.is_not_null()))
        case mode if mode in (*CONSTANT_MODES, FillMode.NEAR):
            return None
        case _:
            return AT.equals(INSTANT)


def point_value(interp: InterpPlan, argument: Argument, number: int) -> Node:
    own, following, is_own = Column(argument.column), neighbor(argument), AT.equals(INSTANT)
    match interp.mode:
        case FillMode.NEXT:
            return if_(AT <= INSTANT, own, following)
        case FillMode.NEAR:
            is_nearer = NEXT_INSTANT - AT < AT - INSTANT
            return if_(both(NEXT_INSTANT.is_not_null(), AT > INSTANT, is_nearer), following, own)
        case FillMode.LINEAR if argument.type.is_number:
            line = value_on_line(AT, (INSTANT, own), (NEXT_INSTANT, following))
            return if_(is_own, own, double_to_number(line, argument.type))
        case FillMode.VALUE | FillMode.VALUE_F:
            return if_(is_own, own, interp.values[number])
        case FillMode.PREV | FillMode.NONE:
            return own
        case _:
            return if_(is_own, own, NULL)


def check_points(first: int | None, last: int | None, every: int) -> None:
    """Raise `LimitError` if a range has too many points."""
    if first is not None and last is not None and (last - first) // every > MAX_POINTS:
        raise LimitError(f"INTERP would make {(last - first) // every} points", hint="narrow RANGE, or make EVERY longer")


POSITION: Final = "_position"
"""The position of a row in the order of the result, from 1. Sorting by filled columns would give another order."""


def fill_gaps(plan: Plan, fill: GapFill, rows: F) -> F:
    """Return the rows with the cells of `plan.outputs` filled, and with their position; other columns stay."""
    order = tuple(key for sort in plan.order.sorts for key in sort_nodes(sort)) or (NULL,)
    cells = {
        output.column: filled_cell(fill, order, output, value)
        for output, value in zip(plan.outputs, fill.values, strict=True)
        if value is not None
    }
    others: dict[str, Node] = {name: Column(name) for name in rows.columns}
    return rows.select({**others, **cells, POSITION: Over(call("row_number"), (), order)})


def filled_cell(fill: GapFill, order: tuple[Node, ...], output: Output, value: Node) -> Node:
    column = Column(output.column)
    before = nearest_point(fill, "last", order, column, THROUGH_CURRENT_ROW)
    match fill.mode:
        case "CONSTANT":
            return call("coalesce", column, value)
        case "PREVIOUS":
            if fill.max_age is None:
                return value_of(before)
            # In descending order, the row before is later.
            latest = fill.max_age.after(call("least", fill.time, instant_of(before)))
            return if_(call("greatest", fill.time, instant_of(before)) <= latest, value_of(before), NULL)
    after = nearest_point(fill, "first", order, column, FROM_CURRENT_ROW)
    return call("coalesce", column, value_between(fill, before, after).cast(spark_type(output.type)))


def nearest_point(fill: GapFill, function: str, order: tuple[Node, ...], column: Node, frame: str) -> Node:
    """Return the instant and value of the last row up to a row that has one, or of the first from it on."""
    point = if_(column.is_null(), NULL, call("named_struct", string("t"), fill.time, string("v"), column))
    return Over(call(function, point, TRUE), (), order, frame)


def value_between(fill: GapFill, before: Node, after: Node) -> Node:
    """Return the value on the line between two points; numbers only. Of one instant, it is that before."""
    length = call("nullif", instant_of(after) - instant_of(before), integer(0))
    share = call("coalesce", (fill.time - instant_of(before)).cast("double") / length, double(0))
    return value_of(before) + (value_of(after).cast("double") - value_of(before)) * share


def instant_of(point: Node) -> Node:
    return call("instant_of", point)


def value_of(point: Node) -> Node:
    return call("value_of", point)
