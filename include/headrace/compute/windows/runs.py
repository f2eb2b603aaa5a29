"""STATE windows of many rows, without sorting the rows.

A hash aggregation brings the rows of one stretch of time and one state together. Where the pieces of a stretch do not overlap in
time, each is a run of neighbouring rows, and what is left is to join neighbouring pieces of equal state: a few rows where there
were many. Only of stretches in which states take turns do the rows themselves have to be looked at.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from headrace.compute.plan import STATE, TS, WEND, WSTART, Plan
from headrace.compute.windows.numbering import BEFORE, over
from headrace.compute.windows.segments import bucket, merge, points, telling_columns, updates, with_following
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_BUCKET: Final = 12
"""About so many rows of a subtable lie in a stretch: enough to be worth it, few enough that states seldom take turns in it."""
MAX_MIXED_BUCKETS: Final = 200_000
"""Stretches whose rows are looked at; with more of them the rows are sorted at once."""
BUCKET: Final = "_stretch"
MIXED: Final = "_mixed"


def merge_runs(plan: Plan, prepared: DataFrame, spacing: int) -> tuple[DataFrame, DataFrame] | None:
    """Each run of equal states as a segment, and the frame that is cached for it; None where states take turns too often.

    Prepared rows must have instants of their own within a partition. `spacing` is about how many ticks lie between two rows of
    one. Counts the stretches to look at, so Spark works before this returns.
    """
    keys = telling_columns(plan)
    placed = prepared.withColumn(BUCKET, F.expr(bucket(spacing * ROWS_PER_BUCKET)))
    ends = F.min(TS).alias(WSTART), F.max(TS).alias(WEND)
    pieces = placed.groupBy(*keys, BUCKET, STATE).agg(*ends, *updates(plan))
    reached = f"max({WEND}) {over(keys, [WSTART, WEND], BEFORE)}"
    marked = pieces.selectExpr("*", f"coalesce({WSTART} <= {reached}, false) AS {MIXED}").persist()
    mixed = marked.where(MIXED).select(*keys, BUCKET).distinct()
    with ExitStack() as undo:
        undo.callback(marked.unpersist)
        count = mixed.count()
        if count > MAX_MIXED_BUCKETS:
            return None
        undo.pop_all()
    clear = marked if count == 0 else filter_by_keys(marked, mixed, [*keys, BUCKET], "left_anti")
    found = with_following(plan, clear.drop(BUCKET, MIXED))
    if count:
        found = found.unionByName(points(plan, filter_by_keys(placed, mixed, [*keys, BUCKET], "left_semi")))
    return merge(plan, found), marked


def filter_by_keys(found: DataFrame, mixed: DataFrame, keys: list[str], kind: str) -> DataFrame:
    """The rows that lie in mixed stretches, or in others; NULL is a key like any other."""
    few = F.broadcast(mixed.toDF(*(f"_m_{key}" for key in keys)))
    return found.join(few, F.expr(" AND ".join(f"{key} <=> _m_{key}" for key in keys)), kind)
