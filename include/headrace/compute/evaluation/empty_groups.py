"""Groups of subtables without rows, which a query that counts rows per subtable has too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.compute.evaluation.ordering import RANGE_PARTITION, RANK
from headrace.compute.plan import Plan
from headrace.compute.sql_text import named_sql, to_sql
from headrace.compute.windows.segments import key_columns, update_columns
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def add_empty_groups(plan: Plan, groups: DataFrame, prepared: DataFrame, subtables: DataFrame) -> DataFrame:
    """Add the groups of `subtables` that `groups` lacks, with the partials of no rows, in their types over `prepared` rows.

    `subtables` has series key, tags and, if `groups` has them, ranks of every subtable.
    """
    keys = key_columns(plan)
    ranks = [column for column in (RANK, RANGE_PARTITION) if column in groups.columns]
    partials = [partial.column for partial in plan.partials]
    assert plan.groups.empty_groups is not None
    matching = subtables.where(to_sql(plan, plan.groups.empty_groups))
    expected = matching.selectExpr(*named_sql(plan, {f"e_{key.column}": key.node for key in plan.keys}), *ranks).distinct()
    expected = expected.withColumnsRenamed({column: f"e_{column}" for column in ranks})
    no_rows = prepared.where("false").agg(*update_columns(plan)).withColumnsRenamed({name: f"e_{name}" for name in partials})
    equal_keys = " AND ".join(f"{column} <=> e_{column}" for column in keys)
    marked = groups.withColumn("_has_rows", F.expr("true"))
    joined = marked.join(expected, F.expr(equal_keys), "full_outer").crossJoin(F.broadcast(no_rows))
    return joined.selectExpr(*(f"if(_has_rows, {name}, e_{name}) AS {name}" for name in (*keys, *ranks, *partials)))
