"""FILL over the rows of a result: empty cells get values from the rows before and after, or a constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.compute.evaluation.ordering import order_sql
from headrace.compute.nodes import Node
from headrace.compute.plan import Plan
from headrace.compute.plan_clauses import GapFill, Output
from headrace.compute.types import spark_type
from headrace.model.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    """Return the last point with a value up to a row, as a struct of its instant and value."""
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
    return f"if(abs({fill.time} - ({point}).t) <= {fill.max_age}L, ({point}).v, NULL)"


def linear_sql(fill: GapFill, order: str, column: str, type_: DataType) -> str:
    """Return the value on the line between the points before and after a gap; numbers only. Of one instant, it is that before."""
    before, after = last_point(fill, order, column), next_point(fill, order, column)
    share = f"coalesce(CAST({fill.time} - ({before}).t AS DOUBLE) / nullif(({after}).t - ({before}).t, 0), 0D)"
    value = f"(({before}).v + (CAST(({after}).v AS DOUBLE) - ({before}).v) * {share})"
    return f"coalesce({column}, CAST({value} AS {spark_type(type_)}))"
