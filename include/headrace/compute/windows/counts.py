"""COUNT_WINDOW: a fixed number of consecutive rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.columns import flags, ticks
from headrace.compute.columnar.runs import Bools, Int64s, Runs
from headrace.compute.nodes import NULL, Column, bigint, call
from headrace.compute.plan import FIRST_ROW, ROW_COUNT, WEND, WSTART
from headrace.compute.plan_clauses import Partial
from headrace.compute.windows.kind import Numbered, WindowPlan
from headrace.compute.windows.numbering import THROUGH_CURRENT_ROW, WINDOW_NUMBER, OrderedRows, window_number, window_numbers
from headrace.model.windows import copies
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class CountWindow(WindowPlan):
    """`COUNT_WINDOW` of `count` rows; a new window starts every `sliding` rows."""

    count: int
    sliding: int
    name = "Count"
    depends_on_order = True
    counts_rows = True
    attributes = (
        Partial(FIRST_ROW, call("min", Column(FIRST_ROW)), call("min", Column(FIRST_ROW)), row=NULL.cast("bigint")),
        Partial(ROW_COUNT, call("sum", Column(ROW_COUNT)), call("sum", Column(ROW_COUNT)), row=bigint(1)),
    )

    def __str__(self) -> str:
        return f"COUNT of {self.count} rows, a new one every {self.sliding}"

    def number(self, columns: Mapping[str, pa.Array], groups: Runs, apart: Bools | None) -> Numbered:  # noqa: ARG002
        """Number windows of a fixed number of rows. New rows, without a first row, continue the count of carried windows."""
        first, count = ticks(pc.fill_null(columns[FIRST_ROW], 0)), ticks(columns[ROW_COUNT])
        is_row = flags(columns[FIRST_ROW].is_null())
        carried = np.maximum.reduceat(np.where(is_row, 0, first + count), groups.starts)
        new_rows = np.cumsum(np.where(is_row, count, 0))
        before_group = (new_rows - np.where(is_row, count, 0))[groups.starts]
        position = carried[groups.of_row] + new_rows - before_group[groups.of_row] - count
        position = np.where(is_row, position, first)
        latest = position // self.sliding
        if self.sliding == self.count:
            return self._numbered(np.arange(len(first)), latest)
        earliest = np.where(position >= self.count, (position - self.count) // self.sliding + 1, 0)
        earliest = np.where(is_row, earliest, latest)
        index, offset = copies(latest - earliest + 1)
        # A row is in several windows, so that those of a group have to be brought together.
        group, number = groups.of_row[index], earliest[index] + offset
        order = np.lexsort((number, group))
        return self._numbered(index[order], number[order])

    def _numbered(self, index: Int64s, number: Int64s) -> Numbered:
        return Numbered(index, number, {FIRST_ROW: pa.array(number * self.sliding)})

    def number_sql(self, rows: OrderedRows) -> DataFrame:
        """Number windows of a fixed number of rows by Spark. New rows continue the count of carried segments."""
        if FIRST_ROW in rows.frame.columns:
            numbered = self._number_segments(rows)
        else:
            position = f"CAST(row_number() {rows.over()} - 1 AS BIGINT)"
            counted = rows.frame.selectExpr("*", f"{position} AS {FIRST_ROW}", f"1L AS {ROW_COUNT}")
            numbered = counted.selectExpr("*", f"{window_number(FIRST_ROW, self.count, self.sliding)} AS {WINDOW_NUMBER}")
        return numbered.withColumn(FIRST_ROW, F.expr(f"{WINDOW_NUMBER} * {self.sliding}L"))

    def _number_segments(self, rows: OrderedRows) -> DataFrame:
        partition = f"PARTITION BY {', '.join(rows.keys)}" if rows.keys else ""
        carried_rows = f"coalesce(max({FIRST_ROW} + {ROW_COUNT}) OVER ({partition}), 0L)"
        position = f"sum(if({FIRST_ROW} IS NULL, {ROW_COUNT}, 0L)) {rows.over(THROUGH_CURRENT_ROW)} - {ROW_COUNT}"
        others = [column for column in rows.frame.columns if column != FIRST_ROW]
        counted = rows.frame.selectExpr(
            *others, f"{FIRST_ROW} AS _carried", f"coalesce({FIRST_ROW}, {carried_rows} + {position}) AS {FIRST_ROW}"
        )
        carried = f"array({FIRST_ROW} div {self.sliding}L)"
        all_windows = f"if(_carried IS NULL, {window_numbers(FIRST_ROW, self.count, self.sliding)}, {carried})"
        return counted.selectExpr("*", f"explode({all_windows}) AS {WINDOW_NUMBER}").drop("_carried")

    def recalculate_from(self, windows: pa.Table, earliest: int, *, has_evicted: bool) -> int | None:  # noqa: ARG002
        """Return the start of the first window that ends at an instant or later, or is not full."""
        is_open = ticks(windows[ROW_COUNT]) < self.count
        return int(ticks(windows[WSTART])[(ticks(windows[WEND]) >= earliest) | is_open].min(initial=earliest))
