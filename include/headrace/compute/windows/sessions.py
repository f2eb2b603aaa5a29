"""SESSION: rows of a group that are at most a gap apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.columns import ticks
from headrace.compute.columnar.runs import Bools, Int64s, Runs, marks, running_maximum
from headrace.compute.plan import WEND, WSTART, Plan
from headrace.compute.windows.kind import Numbered, WindowPlan
from headrace.compute.windows.numbering import BEFORE_CURRENT_ROW, OrderedRows
from headrace.compute.windows.segments import group_rows, merge, point_segments, time_bucket

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUCKET: Final = "_bucket"


@dataclass(frozen=True, slots=True)
class SessionWindow(WindowPlan):
    """`SESSION`. `gap` is in ticks."""

    gap: int
    name = "Session"

    def __str__(self) -> str:
        return f"SESSION, gap of {self.gap} ticks"

    @property
    def reach(self) -> int:
        return self.gap

    def number(self, columns: Mapping[str, pa.Array], groups: Runs, apart: Bools | None) -> Numbered:  # noqa: ARG002
        """Number sessions: a segment further than the gap from all earlier ones of its group starts one."""
        numbers = self._numbers(ticks(columns[WSTART]), ticks(columns[WEND]), groups)
        return Numbered(np.arange(len(numbers)), numbers)

    def number_sql(self, rows: OrderedRows) -> DataFrame:
        last_end = f"max({WEND}) {rows.over(BEFORE_CURRENT_ROW)}"
        return rows.number_by_breaks(f"{WSTART} > {last_end} + {self.gap}L")

    def to_segments(self, plan: Plan, prepared: DataFrame, *, by_row: bool) -> DataFrame:
        if by_row:
            return point_segments(plan, prepared)
        return group_rows(plan, prepared, {BUCKET: time_bucket(self.gap)}, span=True).drop(BUCKET)

    def aggregate(self, plan: Plan, prepared: DataFrame) -> DataFrame:
        return merge(plan, self.to_segments(plan, prepared, by_row=False))

    def scopes(self, group: Int64s, start: Int64s, end: Int64s, expired: Bools) -> Int64s:
        """Number sessions and rows that are linked by gaps. An expired row is linked to nothing."""
        linked = np.flatnonzero(~expired)
        linked = linked[np.lexsort((start[linked], group[linked]))]
        groups = Runs.of(marks([group[linked]], len(linked)))
        scope = np.full(len(start), -1)
        scope[linked] = self._numbers(start[linked], end[linked], groups) - 1
        scope[expired] = int(scope.max(initial=-1)) + 1 + np.arange(int(expired.sum()))
        return scope

    def _numbers(self, start: Int64s, end: Int64s, groups: Runs) -> Int64s:
        breaks = np.zeros(len(start), np.bool_)
        breaks[groups.starts] = True
        breaks[1:] |= start[1:] > running_maximum(end, groups)[:-1] + self.gap
        return np.cumsum(breaks)
