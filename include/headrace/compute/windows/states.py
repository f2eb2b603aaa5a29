"""STATE_WINDOW: runs of rows with equal states.

Windows of many rows are merged without sorting the rows. A hash aggregation groups rows by time bucket and state. If the groups of
a bucket do not overlap in time, each is a run of consecutive rows, and only these few groups have to be sorted and merged. Rows are
sorted only in buckets where states alternate.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.columns import ticks
from headrace.compute.columnar.runs import Array, Bools, Runs, codes, marks
from headrace.compute.nodes import TRUE, Column, Node, both, call
from headrace.compute.plan import STATE, TS, WEND, WSTART, Plan
from headrace.compute.plan_clauses import Partial
from headrace.compute.window_plans import Argument
from headrace.compute.windows.kind import Numbered, WindowPlan, lasts
from headrace.compute.windows.numbering import BEFORE_CURRENT_ROW, OrderedRows, over
from headrace.compute.windows.segments import add_derived_keys, base_key_columns, merge, point_segments, time_bucket, update_columns
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class StateWindow(WindowPlan):
    """`STATE_WINDOW`: runs of rows with equal `_state`. `true_for` is in ticks."""

    state: Argument
    true_for: int | None = None
    name = "State"
    depends_on_order = True
    attributes = (Partial(STATE, call("first", Column(STATE)), call("first", Column(STATE)), row=Column(STATE)),)

    def __str__(self) -> str:
        return f"STATE of {self.state.node}"

    @property
    def ignore_null(self) -> bool:
        return True

    @property
    def row_columns(self) -> dict[str, Node]:
        return {STATE: self.state.node}

    @property
    def condition(self) -> Node:
        return both(*lasts(self.true_for)) if self.true_for else TRUE

    def number(self, columns: Mapping[str, pa.Array], groups: Runs, apart: Bools | None) -> Numbered:
        return number_states(codes(columns[STATE]), groups, apart)

    def number_sql(self, rows: OrderedRows) -> DataFrame:
        are_apart = f" OR ({rows.apart} AND lag({rows.apart}) {rows.over()})" if rows.apart else ""
        return rows.number_by_breaks(f"{STATE} <> lag({STATE}) {rows.over()}{are_apart}")

    def recalculate_from(self, windows: pa.Table, earliest: int, *, has_evicted: bool) -> int | None:
        """Return the start of the run before, which may join the run after."""
        start = ticks(windows[WSTART])
        earlier = start[start < earliest]
        return int(earlier.max()) if len(earlier) else None if has_evicted else earliest


def number_states(states: Array, groups: Runs, apart: Bools | None) -> Numbered:
    """Number runs of equal states. Two neighbors that are both `apart` are never of one run."""
    breaks = marks([states], len(states))
    breaks[groups.starts] = True
    if apart is not None:
        breaks[1:] |= apart[1:] & apart[:-1]
    return Numbered(np.arange(len(states)), np.cumsum(breaks))


ROWS_PER_BUCKET: Final = 12
"""Approximate rows of a subtable per bucket: many enough to pay off, few enough that states rarely alternate in one."""
MAX_MIXED_BUCKETS: Final = 200_000
"""Maximum number of buckets with alternating states. Beyond it, sorting all rows is faster."""
BUCKET: Final = "_bucket"
MIXED: Final = "_mixed"


def merge_runs(plan: Plan, prepared: DataFrame, spacing: int) -> tuple[DataFrame, DataFrame] | None:
    """Return each run of equal states as a segment, and the data frame cached for it.

    None for other windows, if instants repeat in a partition, and if states alternate in too many buckets. Starts a Spark job that
    counts these. The rows of a partition are about `spacing` ticks apart.
    """
    if not isinstance(plan.window, StateWindow) or not plan.groups.unique:
        return None
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
