"""EVENT_WINDOW: rows from one that starts a window to the next one that ends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.columns import flags, ticks
from headrace.compute.columnar.runs import Bools, Runs
from headrace.compute.nodes import Column, Node, both, call
from headrace.compute.plan import IS_END, IS_START, WEND, WSTART
from headrace.compute.plan_clauses import Partial
from headrace.compute.windows.kind import Numbered, WindowPlan, lasts
from headrace.compute.windows.numbering import BEFORE_CURRENT_ROW, THROUGH_CURRENT_ROW, WINDOW_NUMBER, OrderedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class EventWindow(WindowPlan):
    """`EVENT_WINDOW`. The conditions are never NULL. `true_for` is in ticks."""

    start: Node
    end: Node
    true_for: int | None = None
    name = "Event"
    depends_on_order = True
    leaves_rows_out = True
    counts_rows = True
    attributes = tuple(
        Partial(name, call("max", Column(name)), call("max", Column(name)), row=Column(name)) for name in (IS_START, IS_END)
    )

    def __str__(self) -> str:
        return f"EVENT from {self.start} to {self.end}"

    @property
    def row_columns(self) -> dict[str, Node]:
        return {IS_START: self.start, IS_END: self.end}

    @property
    def condition(self) -> Node:
        return both(Column(IS_END), *lasts(self.true_for))

    def number(self, columns: Mapping[str, pa.Array], groups: Runs, apart: Bools | None) -> Numbered:  # noqa: ARG002
        """Number event windows. A segment is in one if there is a START since the last END before it."""
        rows = np.arange(groups.rows)
        is_start, is_end = flags(columns[IS_START]), flags(columns[IS_END])
        before_group = groups.start_of_row - 1
        opened = np.maximum(np.maximum.accumulate(np.where(is_start, rows, -1)), before_group)
        closed = np.concatenate(([-1], np.maximum.accumulate(np.where(is_end, rows, -1))[:-1]))
        closed = np.maximum(closed, before_group)
        index = np.flatnonzero(opened > closed)
        return Numbered(index, closed[index])

    def number_sql(self, rows: OrderedRows) -> DataFrame:
        position = rows.order[0] if rows.unique else f"row_number() {rows.over()}"
        ranked = rows.frame.selectExpr("*", f"{position} AS _rank")
        opened = f"max(if({IS_START}, _rank, NULL)) {rows.over(THROUGH_CURRENT_ROW)}"
        closed = f"max(if({IS_END}, _rank, NULL)) {rows.over(BEFORE_CURRENT_ROW)}"
        numbered = ranked.selectExpr("*", f"{opened} AS _opened", f"{closed} AS {WINDOW_NUMBER}")
        return numbered.where(f"_opened > coalesce({WINDOW_NUMBER}, _opened - 1)").drop("_opened", "_rank")

    def recalculate_from(self, windows: pa.Table, earliest: int, *, has_evicted: bool) -> int | None:  # noqa: ARG002
        """Return the start of the first window that an instant is in, or that is open."""
        start, end, is_open = ticks(windows[WSTART]), ticks(windows[WEND]), ~flags(windows[IS_END])
        return int(start[(start <= earliest) & ((end >= earliest) | is_open)].min(initial=earliest))
