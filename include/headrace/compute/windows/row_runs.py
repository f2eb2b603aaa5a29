"""Windows of consecutive rows by the value of an expression: `GROUP BY VARIATION`, `CONDITION` and `COUNT`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import STATE, TS
from headrace.compute.types import is_text
from headrace.compute.window_plans import Argument, RunWindow
from headrace.compute.windows.numbering import THROUGH_CURRENT_ROW, WINDOW_NUMBER, number_by_breaks, over
from headrace.model.types import TypeKind

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
            return apply_keep(window, number_by_condition(rows, keys), keys)
        case _:
            if window.delta == 0 or not has_distance(window.control):
                changed = f"NOT ({STATE} <=> lag({STATE}) {over(keys, order)}) AND row_number() {over(keys, order)} > 1"
                return number_by_breaks(rows, keys, order, changed)
            return number_by_variation(window, rows, keys)


def has_distance(control: Argument) -> bool:
    return not is_text(control.type) and control.type.kind is not TypeKind.BOOL


def number_by_count(window: RunWindow, rows: DataFrame, keys: list[str]) -> DataFrame:
    """Number windows of `size` rows each, without a last one that is not full."""
    position = f"CAST(row_number() {over(keys, [TS])} - 1 AS BIGINT)"
    numbered = rows.selectExpr("*", f"{position} div {window.size}L AS {WINDOW_NUMBER}")
    return filter_by_size("=", window.size, numbered, keys)


def filter_by_size(sign: str, size: int, numbered: DataFrame, keys: list[str]) -> DataFrame:
    """Return the rows of windows whose number of rows is `size`, or less or more by `sign`."""
    sized = numbered.selectExpr("*", f"count(*) OVER (PARTITION BY {', '.join([*keys, WINDOW_NUMBER])}) AS _size")
    return sized.where(f"_size {sign} {size}L").drop("_size")


def apply_keep(window: RunWindow, numbered: DataFrame, keys: list[str]) -> DataFrame:
    return numbered if window.keep is None else filter_by_size(*window.keep, numbered, keys)


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
    with np.errstate(invalid="ignore"):  # infinity minus itself
        for start in window_starts(values, present, delta):
            if start:
                numbers[start] = 1
    return np.cumsum(numbers)


def window_starts(values: np.ndarray[Any, Any], present: np.ndarray[Any, Any], delta: float) -> Iterator[int]:
    """Yield where each window starts, looking ahead in blocks that double while a window continues."""
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
