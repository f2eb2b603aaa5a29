"""FILL over the rows of a result: empty cells get values from the rows before and after, or a constant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.compute.plan import GapFill, Output, Plan
from headrace.compute.types import spark_type
from headrace.model.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def fill_gaps(plan: Plan, fill: GapFill, rows: DataFrame) -> DataFrame:
    """Return the rows with the cells of `plan.outputs` filled; other columns stay."""
    sql = {
        output.column: fill_sql(fill, output, value)
        for output, value in zip(plan.outputs, fill.values, strict=True)
        if value is not None
    }
    return rows.selectExpr(*(f"{sql[name]} AS {name}" if name in sql else name for name in rows.columns))


def fill_sql(fill: GapFill, output: Output, value: str) -> str:
    """Return one output with its gaps filled, as Spark SQL."""
    column = output.column
    match fill.mode:
        case "CONSTANT":
            return f"coalesce({column}, {value})"
        case "PREVIOUS":
            return previous_sql(fill, column)
        case _:
            return linear_sql(fill, column, output.type)


def over_clause(fill: GapFill, frame: str) -> str:
    """Return an OVER clause in the order of time, within each group."""
    partition = f"PARTITION BY {fill.group} " if fill.group else ""
    return f"OVER ({partition}ORDER BY {fill.time}{' DESC' if fill.descending else ''} ROWS BETWEEN {frame})"


def last_point(fill: GapFill, column: str) -> str:
    """Return the latest point with a value up to a row, as a struct of its instant and value."""
    point = f"if({column} IS NULL, NULL, named_struct('t', {fill.time}, 'v', {column}))"
    return f"last({point}, true) {over_clause(fill, 'UNBOUNDED PRECEDING AND CURRENT ROW')}"


def next_point(fill: GapFill, column: str) -> str:
    """Return the earliest point with a value from a row on."""
    point = f"if({column} IS NULL, NULL, named_struct('t', {fill.time}, 'v', {column}))"
    return f"first({point}, true) {over_clause(fill, 'CURRENT ROW AND UNBOUNDED FOLLOWING')}"


def previous_sql(fill: GapFill, column: str) -> str:
    """Return the value before a gap, unless it is too old."""
    point = last_point(fill, column)
    if fill.max_age is None:
        return f"({point}).v"
    return f"if(abs({fill.time} - ({point}).t) <= {fill.max_age}L, ({point}).v, NULL)"


def linear_sql(fill: GapFill, column: str, type_: DataType) -> str:
    """Return the value on the line between the points before and after a gap; numbers only."""
    before, after = last_point(fill, column), next_point(fill, column)
    share = f"(CAST({fill.time} - ({before}).t AS DOUBLE) / (({after}).t - ({before}).t))"
    value = f"(({before}).v + (CAST(({after}).v AS DOUBLE) - ({before}).v) * {share})"
    return f"coalesce({column}, CAST({value} AS {spark_type(type_)}))"
