"""Windows of consecutive rows by the value of an expression: `GROUP BY VARIATION`, `CONDITION` and `COUNT`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.columns import flags
from headrace.compute.columnar.lists import COMPARED
from headrace.compute.columnar.runs import Bools, Runs, marks, ranks
from headrace.compute.nodes import Node
from headrace.compute.plan import STATE, TS
from headrace.compute.types import is_text
from headrace.compute.window_plans import Argument
from headrace.compute.windows.kind import Numbered, WindowPlan
from headrace.compute.windows.numbering import THROUGH_CURRENT_ROW, WINDOW_NUMBER, OrderedRows
from headrace.compute.windows.states import number_states
from headrace.model.types import TypeKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class RunWindow(WindowPlan):
    """Consecutive rows that belong together by the value of `control`.

    Attributes:
        kind: `variation` (within `delta` of the first row's value), `condition` (true), or `count` (`size` rows).
        keep: Operator and number of rows that a window must have.
        ignore_null: Rows whose control is NULL are passed over.
    """

    kind: str
    control: Argument
    delta: float = 0.0
    size: int = 0
    keep: tuple[str, int] | None = None
    ignore_null: bool = True
    depends_on_order = True
    leaves_rows_out = True
    counts_rows = True

    def __str__(self) -> str:
        return f"{self.kind.upper()} of {self.control.node}"

    @property
    def row_columns(self) -> dict[str, Node]:
        return {STATE: self.control.node}

    @property
    def has_equal_values(self) -> bool:
        """Whether the values of a window are equal, because there is no distance of two."""
        return self.delta == 0 or is_text(self.control.type) or self.control.type.kind is TypeKind.BOOL

    def number(self, columns: Mapping[str, pa.Array], groups: Runs, apart: Bools | None) -> Numbered:  # noqa: ARG002
        states = columns[STATE]
        index = np.arange(len(states))
        if self.kind == "count":
            number = (index - groups.start_of_row) // self.size
            return sized(Numbered(index, number), groups, "=", self.size)
        if self.kind == "condition":
            is_inside = flags(pc.fill_null(states, False))
            number = np.cumsum(~is_inside)
            inside = Numbered(index[is_inside], number[is_inside])
            return inside if self.keep is None else sized(inside, groups, *self.keep)
        if self.has_equal_values:
            return number_states(ranks(states), groups, None)
        ends = np.append(groups.starts[1:], groups.rows)
        parts = [
            window_numbers(states.slice(start, end - start), self.delta) for start, end in zip(groups.starts, ends, strict=True)
        ]
        return Numbered(index, np.concatenate(parts))

    def number_sql(self, rows: OrderedRows) -> DataFrame:
        if self.kind == "count":
            position = f"CAST(row_number() {rows.over()} - 1 AS BIGINT)"
            numbered = rows.frame.selectExpr("*", f"{position} div {self.size}L AS {WINDOW_NUMBER}")
            return filter_by_size("=", self.size, numbered, rows.keys)
        if self.kind == "condition":
            # Rows whose condition is not true end a run and belong to none.
            marked = rows.frame.selectExpr("*", f"coalesce({STATE}, false) AS _inside")
            ended = f"sum(if(_inside, 0L, 1L)) {rows.over(THROUGH_CURRENT_ROW)} AS {WINDOW_NUMBER}"
            numbered = marked.selectExpr("*", ended).where("_inside").drop("_inside")
            return numbered if self.keep is None else filter_by_size(*self.keep, numbered, rows.keys)
        if self.has_equal_values:
            return rows.number_by_breaks(f"NOT ({STATE} <=> lag({STATE}) {rows.over()}) AND row_number() {rows.over()} > 1")
        return number_by_variation(self.delta, rows)


def filter_by_size(sign: str, size: int, numbered: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the rows of windows whose number of rows is `size`, or less or more by `sign`."""
    sized = numbered.selectExpr("*", f"count(*) OVER (PARTITION BY {', '.join([*keys, WINDOW_NUMBER])}) AS _size")
    return sized.where(f"_size {sign} {size}L").drop("_size")


def number_by_variation(delta: float, rows: OrderedRows) -> DataFrame:
    """Number windows that end where a value is further than `delta` from the first of its window.

    Each window depends on where the one before ends, so the rows of a group pass through one task, as arrays.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = rows.frame.selectExpr("*", f"CAST(0 AS BIGINT) AS {WINDOW_NUMBER}").schema
    arrow = to_arrow_schema(schema)

    def number(group: pa.Table) -> pa.Table:
        ordered = group.sort_by(TS)
        numbers = window_numbers(ordered[STATE].combine_chunks(), delta)
        return ordered.append_column(arrow.field(WINDOW_NUMBER), pa.array(numbers))

    def number_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(batches, schema=arrow.remove(arrow.get_field_index(WINDOW_NUMBER)))
        yield from number(table).to_batches()

    if not rows.keys:
        return rows.frame.coalesce(1).mapInArrow(number_all, schema)
    return rows.frame.groupBy(*rows.keys).applyInArrow(number, schema)


def window_numbers(control: pa.Array, delta: float) -> np.ndarray[Any, Any]:
    """Return the window number of each value. NULL differs from every value; NaN has no distance, so it ends no window."""
    values, present = pc.cast(control, pa.float64()).to_numpy(zero_copy_only=False), np.asarray(control.is_valid())
    numbers, start = np.zeros(len(values), dtype=np.int64), 0
    with np.errstate(invalid="ignore", over="ignore"):  # infinity minus itself, and distances beyond DOUBLE
        while (start := next_start(values, present, delta, start)) < len(values):
            numbers[start] = 1
    return np.cumsum(numbers)


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


def sized(numbered: Numbered, groups: Runs, sign: str, size: int) -> Numbered:
    """Return the windows whose number of rows is `size`, or less or more by `sign`."""
    if not len(numbered.index):
        return numbered
    windows = Runs.of(marks([groups.of_row[numbered.index], numbered.window], len(numbered.index)))
    is_kept = COMPARED[sign](windows.lengths, size)[windows.of_row]
    return Numbered(numbered.index[is_kept], numbered.window[is_kept])
