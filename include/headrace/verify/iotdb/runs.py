"""Windows of consecutive rows: GROUP BY SESSION, VARIATION, CONDITION and COUNT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.model.time import Precision
from headrace.model.tree_queries import GroupByCondition, GroupByCount, GroupBySession, GroupByVariation, RowGrouping
from headrace.model.types import BOOL
from headrace.verify.iotdb.conversions import NUMBERS, double
from headrace.verify.iotdb.spans import fixed_ticks
from headrace.verify.steps import END, START, TS, WINDOW, Partition, Steps
from headrace.verify.values import Value, unsupported


@dataclass(slots=True)
class RowWindows:
    """Assigns rows to windows by `control`, the expression that VARIATION, CONDITION and COUNT look at."""

    steps: Steps
    precision: Precision
    partition: Partition
    control: Value | None

    def assigned(self, grouping: RowGrouping, rows: str) -> str:
        """Return the rows that belong to a window, with the columns of `spans.EDGES`."""
        match grouping:
            case GroupBySession(gap=gap):
                numbered = self.partition.sessions(rows, fixed_ticks(gap, self.precision))
            case GroupByVariation():
                numbered = self._variations(grouping, self._controlled(rows, ignore_null=grouping.ignore_null))
            case GroupByCondition():
                numbered = self._conditions(grouping, self._controlled(rows, ignore_null=grouping.ignore_null))
            case GroupByCount(count=size):
                counted = self.partition.counted(self._controlled(rows, ignore_null=grouping.ignore_null), size, size)
                # The last rows make no window if they are too few.
                numbered = self._sized(counted, f"= {size}")
        over = self.partition.together(WINDOW)
        first, last = (f"{function}({TS}) {over}" for function in ("min", "max"))
        edges = f"{first} AS _time, {last} AS _end, {first} AS {START}, {last} AS {END}"
        return self.steps.step("assigned", f"SELECT *, {edges} FROM ({numbered})")

    def _controlled(self, rows: str, *, ignore_null: bool) -> str:
        """Return rows with `_control`; those without it are left out if it ignores NULL."""
        assert self.control is not None
        controlled = f"SELECT *, {self.control.sql} AS _control FROM {rows}"
        where = " WHERE _control IS NOT NULL" if ignore_null else ""
        return self.steps.step("controlled", f"SELECT * FROM ({controlled}){where}")

    def _sized(self, numbered: str, size: str) -> str:
        return f"SELECT * FROM ({numbered}) QUALIFY count(*) {self.partition.together(WINDOW)} {size}"

    def _conditions(self, grouping: GroupByCondition, rows: str) -> str:
        assert self.control is not None
        if self.control.type != BOOL:
            raise unsupported(f"GROUP BY CONDITION of {self.control.type}")
        ended = f"sum(CASE WHEN _control THEN 0 ELSE 1 END) {self.partition.over()}"
        numbered = f"SELECT * FROM (SELECT *, {ended} AS {WINDOW} FROM {rows}) WHERE _control"
        return numbered if grouping.keep is None else self._sized(numbered, f"{grouping.keep[0]} {grouping.keep[1]}")

    def _variations(self, grouping: GroupByVariation, rows: str) -> str:
        """Return rows with the number of their window, which ends where the control leaves the first value of the window."""
        assert self.control is not None
        if not grouping.delta or not self.control.is_kind(*NUMBERS):
            return self.partition.changes(rows, "_control")
        device = "_device" if self.partition.keys else "''"
        number = double(Value("_control", self.control.type))
        ordered = self.steps.connection.execute(f"SELECT {device}, {TS}, {number} FROM {rows} ORDER BY 1, 2").fetchall()
        numbers = _variation_windows([(row[0], row[2]) for row in ordered], grouping.delta)
        windows = pa.table(
            {
                "_of": pa.array([row[0] for row in ordered], pa.string()),
                "_at": pa.array([row[1] for row in ordered], pa.int64()),
                WINDOW: pa.array(numbers, pa.int64()),
            }
        )
        joined = f"SELECT r.*, v.{WINDOW} FROM {rows} r JOIN values_in v ON r.{TS} = v._at AND {device} = v._of"
        return f"SELECT * FROM {self.steps.load('numbered', joined, values_in=windows)}"


def _variation_windows(rows: Sequence[tuple[str, float | None]], delta: float) -> list[int]:
    numbers: list[int] = []
    start: tuple[str, float | None] | None = None
    for device, value in rows:
        if start is None or device != start[0] or not _is_near(start[1], value, delta):
            start = device, value
            numbers.append(numbers[-1] + 1 if numbers else 0)
        else:
            numbers.append(numbers[-1])
    return numbers


def _is_near(first: float | None, value: float | None, delta: float) -> bool:
    """Return whether a value belongs to the window of a first one. NULL has windows of its own; the distance of NaN is unknown."""
    if first is None or value is None:
        return first is value
    return not abs(value - first) > delta
