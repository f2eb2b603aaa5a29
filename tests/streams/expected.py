"""The windows of a query over `readings`, computed in plain Python from stored rows."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.streams.environment import START
from tests.streams.scenarios import Action, last_by_key

Stamped = tuple[int, int | None, str | None]
"""Event time, `a`, `b`."""
WindowRows = tuple[int, int, list[Stamped]]
"""A window: its start, its last instant, its rows."""
Point = tuple[int, int]
"""Event time, `a`."""
Windows = Callable[[list[Stamped]], list[WindowRows]]

USER_COLUMN = "squares(a) squares"
MIDDLE_COLUMN = "percentile(a, 50) middle"
USER_COLUMNS = (USER_COLUMN, "rises(a) rises")
"""Calls of the users' aggregates that `user_code.py` registers."""
LIST_COLUMNS = (MIDDLE_COLUMN, "increase(a) growth", "rate(a) mean_rate", "irate(a) last_rate", "mode(b) usual")
"""Calls of aggregates that keep the rows of windows."""
COLUMNS = "_wstart ws, last(ts) newest, count(*) n, count(a) numbers, sum(a) total, min(a) low, max(b) top"


@dataclass(frozen=True)
class Shape:
    """A query: a filter, groups and windows.

    `min_a` is the lower limit of `a` in WHERE, `more` are further columns of the select list.
    """

    clause: str
    windows: Windows
    partition: str = "tbname"
    min_a: int | None = None
    more: tuple[str, ...] = ()

    @property
    def query(self) -> str:
        where = f" where a >= {self.min_a}" if self.min_a is not None else ""
        partition = f" partition by {self.partition}" if self.partition else ""
        return f"select {', '.join([COLUMNS, *self.more_columns])} from readings{where}{partition} {self.clause}"

    @property
    def more_columns(self) -> list[str]:
        """The further columns: those that depend on the order of rows only if no two rows have the same time."""
        return [column for column in self.more if self.partition == "tbname" or column not in OF_POINTS]

    @property
    def width(self) -> int:
        """The number of columns."""
        return 7 + len(self.more_columns)

    def passes(self, a: int | None) -> bool:
        return self.min_a is None or (a is not None and a >= self.min_a)


def interval(length: int, sliding: int | None = None) -> Windows:
    step = sliding or length

    def windows(rows: list[Stamped]) -> list[WindowRows]:
        found = defaultdict[int, list[Stamped]](list)
        for row in rows:
            start = row[0] - (row[0] + START) % step
            while start + length > row[0]:
                found[start].append(row)
                start -= step
        return [(start, start + length - 1, inside) for start, inside in found.items()]

    return windows


def session(gap: int) -> Windows:
    return adjacent_rows(lambda before, row: row[0] - before[0] <= gap)


def state(column: int, min_length: int = 0) -> Windows:
    runs = adjacent_rows(lambda before, row: row[column] == before[column])

    def windows(rows: list[Stamped]) -> list[WindowRows]:
        return [one for one in runs([row for row in rows if row[column] is not None]) if one[1] - one[0] >= min_length]

    return windows


def adjacent_rows(belongs: Callable[[Stamped, Stamped], bool]) -> Windows:
    """Return the windows of rows of which each belongs with the row before."""

    def windows(rows: list[Stamped]) -> list[WindowRows]:
        windows_rows: list[list[Stamped]] = []
        for row in rows:
            if windows_rows and belongs(windows_rows[-1][-1], row):
                windows_rows[-1].append(row)
            else:
                windows_rows.append([row])
        return [make_window(inside) for inside in windows_rows]

    return windows


def event(starts: Callable[[Stamped], bool], stops: Callable[[Stamped], bool], min_length: int = 0) -> Windows:
    def windows(rows: list[Stamped]) -> list[WindowRows]:
        found: list[WindowRows] = []
        inside: list[Stamped] = []
        for row in rows:
            if inside or starts(row):
                inside.append(row)
                if stops(row):
                    found.append(make_window(inside))
                    inside = []
        return [one for one in found if one[1] - one[0] >= min_length]

    return windows


def count(size: int, sliding: int | None = None) -> Windows:
    def windows(rows: list[Stamped]) -> list[WindowRows]:
        return [make_window(rows[first : first + size]) for first in range(0, len(rows), sliding or size)]

    return windows


def make_window(rows: list[Stamped]) -> WindowRows:
    return rows[0][0], rows[-1][0], rows


@dataclass
class SourceModel:
    """The rows of `readings` after each write, and the largest event time for each query."""

    tags: Mapping[str, tuple[int, int]]
    rows: dict[tuple[str, int], tuple[int | None, str | None]] = field(default_factory=dict)
    max_time_by_shape: dict[Shape, int] = field(default_factory=dict)

    def apply(self, action: Action, shapes: Sequence[Shape]) -> None:
        verb, what = action
        if verb == "delete":
            subtable, first, length = what
            self.rows = {key: row for key, row in self.rows.items() if key[0] != subtable or not first <= key[1] <= first + length}
            return
        written = last_by_key(what)
        self.rows |= written
        for shape in shapes:
            # Rows that pass WHERE advance event time, except rows whose state is NULL, which are in no window.
            times = [ts for (_, ts), (a, b) in written.items() if shape.passes(a) and advances_watermark(shape, (ts, a, b))]
            self.max_time_by_shape[shape] = max([*times, self.max_time_by_shape.get(shape, -(2**62))])

    def windows(self, shape: Shape) -> list[WindowRows]:
        groups = defaultdict[Any, list[Stamped]](list)
        for (subtable, ts), (a, b) in sorted(self.rows.items(), key=lambda item: item[0][1]):
            if shape.passes(a):
                groups[self.group(shape, subtable)].append((ts, a, b))
        return [window for rows in groups.values() for window in shape.windows(rows)]

    def group(self, shape: Shape, subtable: str) -> Any:
        g, lane = self.tags[subtable]
        return {"": None, "tbname": subtable, "g": g, "lane": lane}[shape.partition]

    def results(self, shape: Shape, watermark: int | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of the query; with `watermark` those of closed windows."""
        before = None if watermark is None else self.max_time_by_shape.get(shape, -(2**62)) - watermark
        return sorted(
            (output_row(window, shape) for window in self.windows(shape) if before is None or window[1] < before), key=repr
        )


def advances_watermark(shape: Shape, row: Stamped) -> bool:
    if shape.clause.startswith("state_window"):
        return row[1 if shape.clause.startswith("state_window(a)") else 2] is not None
    return True


def output_row(window: WindowRows, shape: Shape) -> tuple[Any, ...]:
    start, _, rows = window
    numbers = [a for _, a, _ in rows if a is not None]
    texts = [b for _, _, b in rows if b is not None]
    total, low = (sum(numbers), min(numbers)) if numbers else (None, None)
    row = start, rows[-1][0], len(rows), len(numbers), total, low, max(texts) if texts else None
    return (*row, *(more_value(column, rows) for column in shape.more_columns))


def more_value(column: str, rows: Sequence[Stamped]) -> Any:
    if column in OF_POINTS:
        return OF_POINTS[column]([(ts, a) for ts, a, _ in rows if a is not None])
    return OF_VALUES[column]([a for _, a, _ in rows]) if column in OF_VALUES else usual([b for _, _, b in rows if b is not None])


def squares(values: Sequence[int | None]) -> float:
    """Return the sum of squares, and a thousandth for each NULL."""
    return sum(value * value for value in values if value is not None) + values.count(None) / 1000


def middle(values: Sequence[int | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(statistics.median(numbers)) if numbers else None


def usual(texts: Sequence[str]) -> str | None:
    return min(statistics.multimode(texts), default=None)


def rises(points: Sequence[Point]) -> int:
    """Return how often a number is greater than the one before."""
    return sum(after > before for (_, before), (_, after) in pairwise(points))


def growth(points: Sequence[Point]) -> float | None:
    """Return the sum of increases; what follows a greater number counts as a whole."""
    return float(sum(b - a if b >= a else b for (_, a), (_, b) in pairwise(points))) if points else None


def mean_rate(points: Sequence[Point]) -> float | None:
    increase = growth(points)
    return increase / ((points[-1][0] - points[0][0]) / 1000) if increase is not None and len(points) > 1 else None


OF_VALUES: Mapping[str, Callable[[Sequence[int | None]], Any]] = {USER_COLUMN: squares, MIDDLE_COLUMN: middle}
"""What further columns are, by the values of `a`, in any order."""
OF_POINTS: Mapping[str, Callable[[Sequence[Point]], Any]] = {
    USER_COLUMNS[1]: rises,
    "increase(a) growth": growth,
    "rate(a) mean_rate": mean_rate,
    "irate(a) last_rate": lambda points: mean_rate(points[-2:]),
}
"""What they are by the points of `a` in order of time."""
