"""Windows of consecutive rows by the value of an expression: `GROUP BY VARIATION`, `CONDITION` and `COUNT`, and STATE windows.

STATE windows of many rows are merged without sorting the rows. A hash aggregation groups rows by time bucket and state. If the
groups of a bucket do not overlap in time, each is a run of consecutive rows, and only these few groups have to be sorted and
merged. Rows are sorted only in buckets where states alternate.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import STATE, TS, WEND, WSTART, Plan
from headrace.compute.types import is_text
from headrace.compute.window_plans import RunWindow
from headrace.compute.windows.numbering import BEFORE_CURRENT_ROW, THROUGH_CURRENT_ROW, WINDOW_NUMBER, number_by_breaks, over
from headrace.compute.windows.segments import add_derived_keys, base_key_columns, merge, point_segments, time_bucket, update_columns
from headrace.model.types import TypeKind
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def number_runs(window: RunWindow, prepared: DataFrame, keys: list[str]) -> DataFrame:
    """Return the rows that belong to windows with the number of their window; `_state` is the value of the control expression."""
    order = [TS]
    rows = prepared.where(f"{STATE} IS NOT NULL") if window.ignore_null else prepared
    match window.kind:
        case "count":
            return number_by_count(window, rows, keys)
        case "condition":
            numbered = number_by_condition(rows, keys)
            return numbered if window.keep is None else filter_by_size(*window.keep, numbered, keys)
        case _:
            if window.delta == 0 or is_text(window.control.type) or window.control.type.kind is TypeKind.BOOL:
                changed = f"NOT ({STATE} <=> lag({STATE}) {over(keys, order)}) AND row_number() {over(keys, order)} > 1"
                return number_by_breaks(rows, keys, order, changed)
            return number_by_variation(window, rows, keys)


def number_by_count(window: RunWindow, rows: DataFrame, keys: list[str]) -> DataFrame:
    """Number windows of `size` rows each, without a last one that is not full."""
    position = f"CAST(row_number() {over(keys, [TS])} - 1 AS BIGINT)"
    numbered = rows.selectExpr("*", f"{position} div {window.size}L AS {WINDOW_NUMBER}")
    return filter_by_size("=", window.size, numbered, keys)


def filter_by_size(sign: str, size: int, numbered: DataFrame, keys: list[str]) -> DataFrame:
    """Return the rows of windows whose number of rows is `size`, or less or more by `sign`."""
    sized = numbered.selectExpr("*", f"count(*) OVER (PARTITION BY {', '.join([*keys, WINDOW_NUMBER])}) AS _size")
    return sized.where(f"_size {sign} {size}L").drop("_size")


def number_by_condition(rows: DataFrame, keys: list[str]) -> DataFrame:
    """Number runs of rows whose condition is true; other rows end a run and belong to none."""
    marked = rows.selectExpr("*", f"coalesce({STATE}, false) AS _inside")
    ended = f"sum(if(_inside, 0L, 1L)) {over(keys, [TS], THROUGH_CURRENT_ROW)}"
    return marked.selectExpr("*", f"{ended} AS {WINDOW_NUMBER}").where("_inside").drop("_inside")


def number_by_variation(window: RunWindow, rows: DataFrame, keys: list[str]) -> DataFrame:
    """Number windows that end where a value is further than `delta` from the first of its window.

    Each window depends on where the one before ends, so the rows of a group pass through one task, as arrays.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = rows.selectExpr("*", f"CAST(0 AS BIGINT) AS {WINDOW_NUMBER}").schema
    arrow = to_arrow_schema(schema)
    delta = window.delta

    def number(group: pa.Table) -> pa.Table:
        ordered = group.sort_by(TS)
        numbers = window_numbers(ordered[STATE].combine_chunks(), delta)
        return ordered.append_column(arrow.field(WINDOW_NUMBER), pa.array(numbers))

    def number_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(batches, schema=arrow.remove(arrow.get_field_index(WINDOW_NUMBER)))
        yield from number(table).to_batches()

    if not keys:
        return rows.coalesce(1).mapInArrow(number_all, schema)
    return rows.groupBy(*keys).applyInArrow(number, schema)


def window_numbers(control: pa.Array, delta: float) -> np.ndarray[Any, Any]:
    """Return the window number of each value. NULL differs from every value; NaN has no distance, so it ends no window."""
    values, present = pc.cast(control, pa.float64()).to_numpy(zero_copy_only=False), np.asarray(control.is_valid())
    numbers = np.zeros(len(values), dtype=np.int64)
    with np.errstate(invalid="ignore", over="ignore"):  # infinity minus itself, and distances beyond DOUBLE
        for start in window_starts(values, present, delta):
            if start:
                numbers[start] = 1
    return np.cumsum(numbers)


def window_starts(values: np.ndarray[Any, Any], present: np.ndarray[Any, Any], delta: float) -> Iterator[int]:
    start, size = 0, len(values)
    while start < size:
        yield start
        start = next_start(values, present, delta, start)


def next_start(values: np.ndarray[Any, Any], present: np.ndarray[Any, Any], delta: float, start: int) -> int:
    """Return where the window that begins at `start` ends."""
    at, block = start + 1, 64
    while at < len(values):
        part = slice(at, at + block)
        leaves = (present[part] != present[start]) | (np.abs(values[part] - values[start]) > delta)
        if leaves.any():
            return at + int(leaves.argmax())
        at, block = at + block, block * 2
    return len(values)


ROWS_PER_BUCKET: Final = 12
"""Approximate rows of a subtable per bucket: many enough to pay off, few enough that states rarely alternate in one."""
MAX_MIXED_BUCKETS: Final = 200_000
"""Maximum number of buckets with alternating states. Beyond it, sorting all rows is faster."""
BUCKET: Final = "_bucket"
MIXED: Final = "_mixed"


def merge_runs(plan: Plan, prepared: DataFrame, spacing: int) -> tuple[DataFrame, DataFrame] | None:
    """Return each run of equal states as a segment, and the data frame cached for it. None if states alternate in too many buckets.

    Starts a Spark job that counts these buckets. Rows have distinct instants in each partition, about `spacing` ticks apart.
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
