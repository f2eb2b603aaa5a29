"""Values computed from the rows before and after: INTERP at regular points in time, and FILL of empty cells of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.compute.evaluation.ordering import order_sql
from headrace.compute.nodes import Column, Node, bigint_sql, spark_sql
from headrace.compute.plan import TS, Plan
from headrace.compute.plan_clauses import GapFill, InterpPlan, Output
from headrace.compute.sql_text import named_sql, raise_error
from headrace.compute.types import double_to_number, spark_type
from headrace.compute.window_plans import Argument, Bound
from headrace.compute.windows.fill import value_on_line
from headrace.compute.windows.numbering import over
from headrace.errors import LimitError
from headrace.model.queries import FillMode
from headrace.model.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_POINTS: Final = 10_000_000
POINT: Final = "_at"
FILLED: Final = "_filled"
NEXT_INSTANT: Final = "_next"
CONSTANT_MODES: Final = (FillMode.VALUE, FillMode.VALUE_F, FillMode.NULL, FillMode.NULL_F)


def interpolate(plan: Plan, interp: InterpPlan, prepared: DataFrame) -> DataFrame:
    """Return keys, points (`_at`), whether each was interpolated (`_filled`), and the outputs, with instants as ticks."""
    keys = [key.column for key in plan.keys]
    if interp.skip_nulls:
        prepared = prepared.where(" AND ".join(f"{argument.column} IS NOT NULL" for argument in plan.arguments))
    following = [f"lead({column}) {over(keys, [TS])} AS _n_{column}" for column in (argument.column for argument in plan.arguments)]
    with_next = prepared.selectExpr(
        "*", f"lead({TS}) {over(keys, [TS])} AS {NEXT_INSTANT}", f"lag({TS}) {over(keys, [TS])} IS NULL AS _first", *following
    )
    ranged = with_next.selectExpr(
        "*", f"{range_end(plan, interp.first, 'min')} AS _from", f"{range_end(plan, interp.last, 'max')} AS _to"
    )
    points = ranged.where("_from <= _to").selectExpr("*", f"explode({point_array(interp)}) AS {POINT}")
    values = [f"{point_value(interp, argument, number)} AS i{number}" for number, argument in enumerate(plan.arguments)]
    valued = points.where(point_condition(interp.mode)).selectExpr(*keys, POINT, f"{POINT} <> {TS} AS {FILLED}", *values)
    outputs = {output.column: output.node for output in (*plan.outputs, *plan.hidden)}
    return valued.selectExpr(*keys, POINT, *named_sql(plan, outputs))


def range_end(plan: Plan, bound: Bound | None, default: str) -> str:
    """Return an end of the range in ticks, by default that of the data."""
    return f"{default}({TS}) OVER ()" if bound is None else bigint_sql(bound.at(plan.present))


def point_array(interp: InterpPlan) -> str:
    """Return the points from a row to the next one, for the first row also those before it."""
    step = bigint_sql(interp.every)
    first = f"if(_first, 0L, greatest(CAST(ceil(({TS} - _from) / {float(interp.every)!r}D) AS BIGINT), 0L))"
    end = f"if({NEXT_INSTANT} IS NULL, _to, least(_to, {NEXT_INSTANT} - 1L))"
    last = f"CAST(floor(({end} - _from) / {float(interp.every)!r}D) AS BIGINT)"
    message = f"concat('INTERP would make ', {last} - {first}, ' points between two rows')"
    sequence = f"transform(sequence({first}, {last}), i -> _from + i * {step})"
    limited = f"if({last} - {first} > {MAX_POINTS}L, {raise_error(message)}, {sequence})"
    return f"if({last} >= {first}, {limited}, array())"


def point_condition(mode: FillMode) -> str:
    match mode:
        case FillMode.PREV:
            return f"{POINT} >= {TS}"
        case FillMode.NEXT:
            return f"{POINT} <= {TS} OR {NEXT_INSTANT} IS NOT NULL"
        case FillMode.LINEAR:
            return f"{POINT} = {TS} OR ({POINT} > {TS} AND {NEXT_INSTANT} IS NOT NULL)"
        case mode if mode in (*CONSTANT_MODES, FillMode.NEAR):
            return "true"
        case _:
            return f"{POINT} = {TS}"


def point_value(interp: InterpPlan, argument: Argument, number: int) -> str:
    own, next_value = argument.column, f"_n_{argument.column}"
    match interp.mode:
        case FillMode.NEXT:
            return f"if({POINT} <= {TS}, {own}, {next_value})"
        case FillMode.NEAR:
            nearer = f"{NEXT_INSTANT} - {POINT} < {POINT} - {TS}"
            return f"if({NEXT_INSTANT} IS NOT NULL AND {POINT} > {TS} AND {nearer}, {next_value}, {own})"
        case FillMode.LINEAR if argument.type.is_number:
            line = value_on_line(POINT, (TS, Column(own)), (NEXT_INSTANT, Column(next_value)))
            return f"if({POINT} = {TS}, {own}, {double_to_number(line, argument.type)})"
        case FillMode.VALUE | FillMode.VALUE_F:
            return f"if({POINT} = {TS}, {own}, {interp.values[number]})"
        case FillMode.PREV | FillMode.NONE:
            return own
        case _:
            return f"if({POINT} = {TS}, {own}, NULL)"


def check_points(first: int | None, last: int | None, every: int) -> None:
    """Raise `LimitError` if a range has too many points."""
    if first is not None and last is not None and (last - first) // every > MAX_POINTS:
        raise LimitError(f"INTERP would make {(last - first) // every} points", hint="narrow RANGE, or make EVERY longer")


POSITION: Final = "_position"
"""The position of a row in the order of the result, from 1. Sorting by filled columns would give another order."""


def fill_gaps(plan: Plan, fill: GapFill, rows: DataFrame) -> DataFrame:
    """Return the rows with the cells of `plan.outputs` filled, and with their position; other columns stay."""
    order = f"ORDER BY {order_sql(plan.order.sorts)}" if plan.order.sorts else "ORDER BY NULL"
    sql = {
        output.column: fill_sql(fill, order, output, value)
        for output, value in zip(plan.outputs, fill.values, strict=True)
        if value is not None
    }
    filled = (f"{sql[name]} AS {name}" if name in sql else name for name in rows.columns)
    return rows.selectExpr(*filled, f"row_number() OVER ({order}) AS {POSITION}")


def fill_sql(fill: GapFill, order: str, output: Output, value: Node) -> str:
    column = output.column
    match fill.mode:
        case "CONSTANT":
            return f"coalesce({column}, {value})"
        case "PREVIOUS":
            return previous_sql(fill, order, column)
        case _:
            return linear_sql(fill, order, column, output.type)


def last_point(fill: GapFill, order: str, column: str) -> str:
    point = f"if({column} IS NULL, NULL, named_struct('t', {fill.time}, 'v', {column}))"
    return f"last({point}, true) OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"


def next_point(fill: GapFill, order: str, column: str) -> str:
    point = f"if({column} IS NULL, NULL, named_struct('t', {fill.time}, 'v', {column}))"
    return f"first({point}, true) OVER ({order} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"


def previous_sql(fill: GapFill, order: str, column: str) -> str:
    """Return the value before a gap, unless its instant is too far away."""
    point = last_point(fill, order, column)
    if fill.max_age is None:
        return f"({point}).v"
    # In descending order, the row before is later.
    latest = fill.max_age.after(spark_sql("least({}, ({}).t)", fill.time, point))
    return f"if(greatest({fill.time}, ({point}).t) <= {latest}, ({point}).v, NULL)"


def linear_sql(fill: GapFill, order: str, column: str, type_: DataType) -> str:
    """Return the value on the line between the points before and after a gap; numbers only. Of one instant, it is that before."""
    before, after = last_point(fill, order, column), next_point(fill, order, column)
    share = f"coalesce(CAST({fill.time} - ({before}).t AS DOUBLE) / nullif(({after}).t - ({before}).t, 0), 0D)"
    value = f"(({before}).v + (CAST(({after}).v AS DOUBLE) - ({before}).v) * {share})"
    return f"coalesce({column}, CAST({value} AS {spark_type(type_)}))"
