"""STATE windows of many rows, without sorting the rows.

A hash aggregation groups rows by time bucket and state. If the groups of a bucket do not overlap in time, each is a run of
consecutive rows, and only these few groups have to be sorted and merged. Rows are sorted only in buckets where states alternate.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from headrace.compute.plan import STATE, TS, WEND, WSTART, Plan
from headrace.compute.windows.numbering import BEFORE_CURRENT_ROW, over
from headrace.compute.windows.segments import add_derived_keys, base_key_columns, merge, point_segments, time_bucket, update_columns
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_BUCKET: Final = 12
"""Approximate rows of a subtable per bucket: many enough to pay off, few enough that states rarely alternate in one."""
MAX_MIXED_BUCKETS: Final = 200_000
"""Maximum number of buckets with alternating states. Beyond it, sorting all rows is faster."""
BUCKET: Final = "_bucket"
MIXED: Final = "_mixed"


def merge_runs(plan: Plan, prepared: DataFrame, spacing: int) -> tuple[DataFrame, DataFrame] | None:
    """Return each run of equal states as a segment, and the data frame cached for it. None if states alternate in too many buckets.

    Starts a Spark job that counts these buckets.

    Args:
        plan: A query with a state window.
        prepared: Prepared rows, with distinct instants in each partition.
        spacing: Approximate ticks between rows of a partition.
    """
    keys = base_key_columns(plan)
    bucketed = prepared.withColumn(BUCKET, F.expr(time_bucket(spacing * ROWS_PER_BUCKET)))
    ends = F.min(TS).alias(WSTART), F.max(TS).alias(WEND)
    groups = bucketed.groupBy(*keys, BUCKET, STATE).agg(*ends, *update_columns(plan))
    last_end = f"max({WEND}) {over(keys, [WSTART, WEND], BEFORE_CURRENT_ROW)}"
    marked = groups.selectExpr("*", f"coalesce({WSTART} <= {last_end}, false) AS {MIXED}").persist()
    mixed = marked.where(MIXED).select(*keys, BUCKET).distinct()
    with ExitStack() as cleanup:
        cleanup.callback(marked.unpersist)
        count = mixed.count()
        if count > MAX_MIXED_BUCKETS:
            return None
        cleanup.pop_all()
    unmixed = marked if count == 0 else filter_by_keys(marked, mixed, [*keys, BUCKET], "left_anti")
    segments = add_derived_keys(plan, unmixed.drop(BUCKET, MIXED))
    if count:
        segments = segments.unionByName(point_segments(plan, filter_by_keys(bucketed, mixed, [*keys, BUCKET], "left_semi")))
    return merge(plan, segments), marked


def filter_by_keys(rows: DataFrame, mixed: DataFrame, keys: list[str], kind: str) -> DataFrame:
    """Keep the rows with keys in `mixed` (`left_semi`) or the others (`left_anti`). NULL keys are equal."""
    keys_frame = F.broadcast(mixed.toDF(*(f"_m_{key}" for key in keys)))
    return rows.join(keys_frame, F.expr(" AND ".join(f"{key} <=> _m_{key}" for key in keys)), kind)
