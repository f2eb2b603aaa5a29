"""The windows that a query over `readings` has, worked out in plain Python from stored rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.streams.house import START
from tests.streams.scenarios import Action, unique

Stamped = tuple[int, int | None, str | None]
"""Instant, `a`, `b`."""
Made = tuple[int, int, list[Stamped]]
"""A window: its start, its last instant, its rows."""
Windows = Callable[[list[Stamped]], list[Made]]

COLUMNS = "_wstart ws, last(ts) newest, count(*) n, count(a) numbers, sum(a) total, min(a) low, max(b) top"


@dataclass(frozen=True)
class Shape:
    """A query: which rows, in which groups, in which windows."""

    clause: str
    windows: Windows
    partition: str = "tbname"
    least: int | None = None

    @property
    def query(self) -> str:
        where = f" where a >= {self.least}" if self.least is not None else ""
        partition = f" partition by {self.partition}" if self.partition else ""
        return f"select {COLUMNS} from readings{where}{partition} {self.clause}"

    def passes(self, a: int | None) -> bool:
        return self.least is None or (a is not None and a >= self.least)


def interval(length: int, sliding: int | None = None) -> Windows:
    step = sliding or length

    def windows(rows: list[Stamped]) -> list[Made]:
        found = defaultdict[int, list[Stamped]](list)
        for row in rows:
            start = row[0] - (row[0] + START) % step
            while start + length > row[0]:
                found[start].append(row)
                start -= step
        return [(start, start + length - 1, inside) for start, inside in found.items()]

    return windows


def session(gap: int) -> Windows:
    return neighbors(lambda before, row: row[0] - before[0] <= gap)


def state(column: int, lasting: int = 0) -> Windows:
    runs = neighbors(lambda before, row: row[column] == before[column])

    def windows(rows: list[Stamped]) -> list[Made]:
        return [one for one in runs([row for row in rows if row[column] is not None]) if one[1] - one[0] >= lasting]

    return windows


def neighbors(belongs: Callable[[Stamped, Stamped], bool]) -> Windows:
    """Windows of rows each of which belongs to the one before."""

    def windows(rows: list[Stamped]) -> list[Made]:
        found: list[list[Stamped]] = []
        for row in rows:
            if found and belongs(found[-1][-1], row):
                found[-1].append(row)
            else:
                found.append([row])
        return [ends(inside) for inside in found]

    return windows


def event(starts: Callable[[Stamped], bool], stops: Callable[[Stamped], bool], lasting: int = 0) -> Windows:
    def windows(rows: list[Stamped]) -> list[Made]:
        found: list[Made] = []
        inside: list[Stamped] = []
        for row in rows:
            if inside or starts(row):
                inside.append(row)
                if stops(row):
                    found.append(ends(inside))
                    inside = []
        return [one for one in found if one[1] - one[0] >= lasting]

    return windows


def count(size: int, sliding: int | None = None) -> Windows:
    def windows(rows: list[Stamped]) -> list[Made]:
        return [ends(rows[first : first + size]) for first in range(0, len(rows), sliding or size)]

    return windows


def ends(rows: list[Stamped]) -> Made:
    return rows[0][0], rows[-1][0], rows


@dataclass
class Stored:
    """The rows of `readings`, write by write, and for each query how far event time has come."""

    tags: Mapping[str, tuple[int, int]]
    rows: dict[tuple[str, int], tuple[int | None, str | None]] = field(default_factory=dict)
    newest: dict[Shape, int] = field(default_factory=dict)

    def apply(self, action: Action, shapes: Sequence[Shape]) -> None:
        verb, what = action
        if verb == "delete":
            subtable, first, length = what
            self.rows = {key: row for key, row in self.rows.items() if key[0] != subtable or not first <= key[1] <= first + length}
            return
        written = unique(what)
        self.rows |= written
        for shape in shapes:
            # A row whose state is NULL is in no window and moves no time on; every other one that WHERE keeps does.
            times = [ts for (_, ts), (a, b) in written.items() if shape.passes(a) and moves_time(shape, (ts, a, b))]
            self.newest[shape] = max([*times, self.newest.get(shape, -(2**62))])

    def windows(self, shape: Shape) -> list[Made]:
        groups = defaultdict[Any, list[Stamped]](list)
        for (subtable, ts), (a, b) in sorted(self.rows.items(), key=lambda item: item[0][1]):
            if shape.passes(a):
                groups[self.group(shape, subtable)].append((ts, a, b))
        return [one for rows in groups.values() for one in shape.windows(rows)]

    def group(self, shape: Shape, subtable: str) -> Any:
        g, lane = self.tags[subtable]
        return {"": None, "tbname": subtable, "g": g, "lane": lane}[shape.partition]

    def results(self, shape: Shape, watermark: int | None = None) -> list[tuple[Any, ...]]:
        """The rows of the query; with `watermark` those of windows that are closed."""
        before = None if watermark is None else self.newest.get(shape, -(2**62)) - watermark
        return sorted((value(one) for one in self.windows(shape) if before is None or one[1] < before), key=repr)


def moves_time(shape: Shape, row: Stamped) -> bool:
    if shape.clause.startswith("state_window"):
        return row[1 if shape.clause.startswith("state_window(a)") else 2] is not None
    return True


def value(window: Made) -> tuple[Any, ...]:
    start, _, rows = window
    numbers = [a for _, a, _ in rows if a is not None]
    texts = [b for _, _, b in rows if b is not None]
    total, low = (sum(numbers), min(numbers)) if numbers else (None, None)
    return start, rows[-1][0], len(rows), len(numbers), total, low, max(texts) if texts else None
