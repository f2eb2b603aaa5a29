"""Groups of subtables without rows: a query that counts rows of subtables has a group for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.compute.evaluation.ordering import RANK, SHARE
from headrace.compute.plan import Plan
from headrace.compute.running import run
from headrace.compute.windows.segments import key_columns, updates
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_empty_groups(plan: Plan, made: DataFrame, prepared: DataFrame, subtables: DataFrame) -> DataFrame:
    """Add the groups of subtables (`tbname`, tags and, where `made` has them, their ranks) that `made` lacks.

    An added group has the partials that no rows have.
    """
    keys = key_columns(plan)
    ranks = [column for column in (RANK, SHARE) if column in made.columns]
    partials = [partial.column for partial in plan.partials]
    known = subtables.where(run(plan, plan.empty_groups))
    groups = known.selectExpr(*(f"{run(plan, key.sql)} AS e_{key.column}" for key in plan.keys), *ranks).distinct()
    groups = groups.withColumnsRenamed({column: f"e_{column}" for column in ranks})
    nothing = prepared.where("false").agg(*updates(plan)).withColumnsRenamed({name: f"e_{name}" for name in partials})
    same = " AND ".join(f"{column} <=> e_{column}" for column in keys)
    marked = made.withColumn("_has_rows", F.expr("true"))
    found = marked.join(groups, F.expr(same), "full_outer").crossJoin(F.broadcast(nothing))
    return found.selectExpr(*(f"if(_has_rows, {name}, e_{name}) AS {name}" for name in (*keys, *ranks, *partials)))
