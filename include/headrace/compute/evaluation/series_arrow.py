"""Functions over whole series: the points that they return are joined to the rows on time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.compute.functions.arrow import TIME, VALUE, apply_rule
from headrace.compute.nodes import Column, columns_of
from headrace.compute.plan import Plan
from headrace.compute.plan_clauses import SeriesArrowCall
from headrace.compute.plan_sources import SeriesRows
from headrace.compute.sql_text import named_sql
from headrace.compute.types import from_ticks, spark_type
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INSTANT: Final = "__call_time"


def add_series_arrow_calls(plan: Plan, rows: DataFrame) -> DataFrame:
    """Return the rows of `SeriesRows` with a column for each call; instants that only a call has are further rows.

    A series passes through one task, as Arrow.
    """
    keys = [plan.identity.series_column] if plan.identity.series_column else []
    timed = rows.selectExpr("*", f"{plan.identity.time} AS {INSTANT}")
    joined = timed
    for call in plan.series.arrow_calls:
        joined = joined.join(call_points(plan, call, timed, keys), [*keys, INSTANT], "full_outer")
    # A sub-query returns its time in ticks.
    instant = Column(INSTANT)
    time = from_ticks(instant, plan.precision) if isinstance(plan.source, SeriesRows) else instant
    assert plan.identity.time is not None
    (name,) = columns_of(plan.identity.time)
    return joined.withColumn(name, F.expr(str(time))).drop(INSTANT)


def call_points(plan: Plan, call: SeriesArrowCall, timed: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the points of one call: keys, instant, value."""
    inputs = named_sql(plan, {f"x{number}": node for number, node in enumerate(call.inputs)})
    points = timed.selectExpr(*keys, f"{INSTANT} AS {TIME}", *inputs)
    schema = ", ".join([*(f"{key} STRING" for key in keys), f"{INSTANT} BIGINT", f"{call.column} {spark_type(call.type)}"])
    apply = evaluator(call, tuple(keys))
    return points.groupBy(*keys).applyInArrow(apply, schema)


def evaluator(call: SeriesArrowCall, keys: tuple[str, ...]) -> Callable[[pa.Table], pa.Table]:
    def evaluate(group: pa.Table) -> pa.Table:
        points = apply_rule(call.rule, group.drop_columns(list(keys)) if keys else group)
        columns = {INSTANT: points[TIME], call.column: points[VALUE]}
        for key in keys:
            columns = {key: pa.repeat(group[key][0], points.num_rows), **columns}
        return pa.table(columns)

    return evaluate
