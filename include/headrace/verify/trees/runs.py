"""Windows of consecutive rows: GROUP BY SESSION, VARIATION, CONDITION and COUNT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.model.time import Precision
from headrace.model.tree_queries import GroupByCondition, GroupByCount, GroupBySession, GroupByVariation, RowGrouping
from headrace.model.types import BOOL
from headrace.verify.trees.scalars import NUMBERS, double
from headrace.verify.trees.spans import ticks_of
from headrace.verify.values import Value, unsupported

if TYPE_CHECKING:
    import duckdb

EDGES: Final = ("_time", "_end", "_first", "_last")
"""The columns of a row's window: the time that its result shows, its end, and its first and last instant."""


@dataclass(slots=True)
class RowWindows:
    """Assigns rows to windows.

    Attributes:
        step: Computes a relation and returns its name.
        by_device: Whether windows are of the rows of one device.
        control: The expression that VARIATION, CONDITION and COUNT look at.
    """

    connection: duckdb.DuckDBPyConnection
    step: Callable[[str, str], str]
    precision: Precision
    by_device: bool
    control: Value | None

    @property
    def over(self) -> str:
        """The window clause of the rows that can be in one window, in the order of time."""
        return f"OVER ({'PARTITION BY _device ' if self.by_device else ''}ORDER BY _ts)"

    def assigned(self, grouping: RowGrouping, rows: str) -> str:
        """Return the rows that belong to a window, with the columns of `EDGES`."""
        match grouping:
            case GroupBySession(gap=gap):
                ticks = ticks_of(gap, self.precision)
                numbered = self.numbered(rows, f"_ts - lag(_ts) {self.over} > {ticks}")
            case GroupByVariation():
                numbered = self.variations(grouping, self.controlled(rows, ignore_null=grouping.ignore_null))
            case GroupByCondition():
                numbered = self.conditions(grouping, self.controlled(rows, ignore_null=grouping.ignore_null))
            case GroupByCount(count=size):
                position = f"(row_number() {self.over} - 1) // {size}"
                counted = f"SELECT *, {position} AS _window FROM {self.controlled(rows, ignore_null=grouping.ignore_null)}"
                # The last rows make no window if they are too few.
                numbered = self.sized(self.step("counted", counted), f"= {size}")
        window = f"OVER (PARTITION BY {', '.join(self.keys)})"
        first, last = (f"{function}(_ts) {window}" for function in ("min", "max"))
        edges = f"{first} AS _time, {last} AS _end, {first} AS _first, {last} AS _last"
        return self.step("assigned", f"SELECT *, {edges} FROM {numbered}")

    @property
    def keys(self) -> list[str]:
        """The columns that tell windows apart."""
        return [*(["_device"] if self.by_device else []), "_window"]

    def controlled(self, rows: str, *, ignore_null: bool) -> str:
        """Return rows with `_control`; those without it are left out if it ignores NULL."""
        assert self.control is not None
        controlled = f"SELECT *, {self.control.sql} AS _control FROM {rows}"
        return self.step("controlled", f"SELECT * FROM ({controlled}){' WHERE _control IS NOT NULL' if ignore_null else ''}")

    def numbered(self, rows: str, begins: str) -> str:
        """Return rows with the number of their window, from the condition that a row begins one."""
        marked = f"SELECT *, CASE WHEN {begins} THEN 1 ELSE 0 END AS _begins FROM {rows}"
        return self.step("numbered", f"SELECT *, sum(_begins) {self.over} AS _window FROM ({marked})")

    def sized(self, numbered: str, size: str) -> str:
        """Return the rows of windows with a number of rows, such as `>= 2`."""
        return self.step("sized", f"SELECT * FROM {numbered} QUALIFY count(*) OVER (PARTITION BY {', '.join(self.keys)}) {size}")

    def conditions(self, grouping: GroupByCondition, rows: str) -> str:
        """Return the rows of runs in which the condition is true."""
        assert self.control is not None
        if self.control.type != BOOL:
            raise unsupported(f"GROUP BY CONDITION of {self.control.type}")
        ended = f"sum(CASE WHEN _control THEN 0 ELSE 1 END) {self.over}"
        numbered = self.step("numbered", f"SELECT * FROM (SELECT *, {ended} AS _window FROM {rows}) WHERE _control")
        return numbered if grouping.keep is None else self.sized(numbered, f"{grouping.keep[0]} {grouping.keep[1]}")

    def variations(self, grouping: GroupByVariation, rows: str) -> str:
        """Return rows with the number of their window, which ends where the control leaves the first value of the window."""
        assert self.control is not None
        if not grouping.delta or not self.control.is_kind(*NUMBERS):
            return self.numbered(rows, f"_control IS DISTINCT FROM lag(_control) {self.over} AND row_number() {self.over} > 1")
        device = "_device" if self.by_device else "''"
        number = double(Value("_control", self.control.type))
        ordered = self.connection.execute(f"SELECT {device}, _ts, {number} FROM {rows} ORDER BY 1, 2").fetchall()
        numbers = pa.array(variation_windows([(row[0], row[2]) for row in ordered], grouping.delta), pa.int64())
        devices = pa.array([row[0] for row in ordered], pa.string())
        times = pa.array([row[1] for row in ordered], pa.int64())
        self.connection.register("values_in", pa.table({"_of": devices, "_at": times, "_window": numbers}))
        joined = f"SELECT r.*, v._window FROM {rows} r JOIN values_in v ON r._ts = v._at AND {device} = v._of"
        relation = self.step("numbered", joined)
        self.connection.unregister("values_in")
        return relation


def variation_windows(rows: Sequence[tuple[str, float | None]], delta: float) -> list[int]:
    """Return the window numbers of the values of devices, in the order of device and time."""
    numbers: list[int] = []
    start: tuple[str, float | None] | None = None
    for device, value in rows:
        if start is None or device != start[0] or not is_near(start[1], value, delta):
            start = device, value
            numbers.append(numbers[-1] + 1 if numbers else 0)
        else:
            numbers.append(numbers[-1])
    return numbers


def is_near(first: float | None, value: float | None, delta: float) -> bool:
    """Return whether a value belongs to the window of a first one. NULL has windows of its own; the distance of NaN is unknown."""
    if first is None or value is None:
        return first is value
    return not abs(value - first) > delta
