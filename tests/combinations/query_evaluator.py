"""What an execution of a continuous query writes, in plain Python that reads one row after the other."""

from __future__ import annotations

import calendar
import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final
from zoneinfo import ZoneInfo

Device = str
Values = Mapping[str, Any]
"""The values of a device at a time, by measurement."""
Stored = Mapping[Device, Mapping[int, Values]]
Row = dict[tuple[Device, str], Any]
Result = list[tuple[int, list[Any]]]
"""Times, and the values of the columns."""
Points = Sequence[tuple[int, Any]]
"""Times and values."""
MINUTE: Final = 60_000
DAY: Final = 1440 * MINUTE
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Length:
    """Calendar months, and milliseconds after them."""

    ms: int = 0
    months: int = 0

    def after(self, instant: int, zone: str, times: int = 1) -> int:
        """Return the instant some lengths later: a day that the month lacks is its last one."""
        if not self.months:
            return instant + times * self.ms
        wall = (EPOCH + dt.timedelta(milliseconds=instant)).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        year, month = divmod(wall.year * 12 + wall.month - 1 + times * self.months, 12)
        day = min(wall.day, calendar.monthrange(year, month + 1)[1])
        moved = wall.replace(year=year, month=month + 1, day=day).replace(tzinfo=ZoneInfo(zone))
        return round((moved - EPOCH).total_seconds() * 1000) + times * self.ms


@dataclass(frozen=True)
class Query:
    """A query over the range of an execution.

    Attributes:
        columns: For each, the aggregate, and the series that it reads.
        window: `rows`, `total`, `timed`, `session`, `count` or `variation`.
        passes: The condition, over the values of all series of a row.
        reads: The series of which a row has to have one.
        fill: The mode, and what it needs: the greatest age, or the constant of each column.
        control: What `count` and `variation` take of a row. They skip rows in which it is NULL.
    """

    columns: Sequence[tuple[str, Sequence[tuple[Device, str]]]]
    window: str
    interval: Length
    step: Length
    zone: str
    passes: Callable[[Row], bool]
    reads: Sequence[tuple[Device, str]]
    having: Callable[[Sequence[Row]], bool] | None = None
    fill: str = "none"
    age: Length | None = None
    constants: Sequence[Any] = ()
    control: Callable[[Row], Any] = lambda _: None

    def evaluate(self, stored: Stored, start: int, end: int) -> Result:
        """Return the rows of `[start, end)`."""
        rows = [(time, row) for time, row in joined(stored, self.reads) if start <= time < end and self.passes(row)]
        if self.window == "rows":
            result = [(time, [row.get(series[0]) for _, series in self.columns]) for time, row in rows]
        else:
            windows = [(time, part) for time, part in self.windows(rows, start, end)]
            if self.having is not None:
                windows = [(time, part) for time, part in windows if self.having([row for _, row in part])]
            result = [(time, [aggregate(name, series, part) for name, series in self.columns]) for time, part in windows]
        return [(time, list(values)) for time, values in zip([at for at, _ in result], self.filled(result), strict=True)]

    def windows(self, rows: Sequence[tuple[int, Row]], start: int, end: int) -> Iterator[tuple[int, list[tuple[int, Row]]]]:
        match self.window:
            case "total":
                yield 0, list(rows)
            case "timed":
                number = 0
                while (first := self.step.after(start, self.zone, number)) < end:
                    last = min(self.length_after(start, first, number), end)
                    yield first, [(time, row) for time, row in rows if first <= time < last]
                    number += 1
            case _:
                controlled = rows if self.window == "session" else [row for row in rows if self.control(row[1]) is not None]
                for group in self.groups(controlled):
                    yield group[0][0], group

    def length_after(self, start: int, first: int, number: int) -> int:
        """Return the end of a window: months are counted from the start of the range."""
        if self.step.months and self.interval.months:
            return Length(self.interval.ms, self.interval.months + number * self.step.months).after(start, self.zone)
        return self.interval.after(first, self.zone)

    def groups(self, rows: Sequence[tuple[int, Row]]) -> Iterator[list[tuple[int, Row]]]:
        """Yield groups of consecutive rows: by a gap, a distance from the first, or their number."""
        group: list[tuple[int, Row]] = []
        for time, row in rows:
            if group and self.begins(group, time, row):
                yield group
                group = []
            group.append((time, row))
        if group and (self.window != "count" or len(group) == 3):
            yield group

    def begins(self, group: Sequence[tuple[int, Row]], time: int, row: Row) -> bool:
        if self.window == "session":
            return time - group[-1][0] > self.interval.ms
        if self.window == "variation":
            return bool(abs(self.control(row) - self.control(group[0][1])) > 3)
        return len(group) == 3

    def filled(self, result: Result) -> Iterator[list[Any]]:
        """Yield the values of the rows, empty ones filled."""
        for place, (time, values) in enumerate(result):
            yield [
                self.fill_of(result, place, time, column) if value is None and self.fill != "none" else value
                for column, value in enumerate(values)
            ]

    def fill_of(self, result: Result, place: int, time: int, column: int) -> Any:
        if self.fill == "value":
            return self.constants[column]
        before = next(((at, row[column]) for at, row in reversed(result[:place]) if row[column] is not None), None)
        after = next(((at, row[column]) for at, row in result[place:] if row[column] is not None), None)
        if self.fill == "linear":
            return None if before is None or after is None else between(before, after, time)
        if before is None:
            return None
        # With ALIGN BY DEVICE, the value before may be one of another device at a later time.
        earlier, later = sorted((before[0], time))
        if self.age is not None and self.age.after(earlier, self.zone) < later:
            return None
        return before[1]


def between(before: tuple[int, Any], after: tuple[int, Any], time: int) -> Any:
    """Return the value on the line between two points; whole numbers are truncated."""
    if isinstance(before[1], str | bool):
        return None
    value = before[1] + Fraction(after[1] - before[1]) * Fraction(time - before[0], after[0] - before[0])
    return math.trunc(value) if isinstance(before[1], int) else float(value)


def joined(stored: Stored, reads: Sequence[tuple[Device, str]]) -> list[tuple[int, Row]]:
    """Return the rows of several devices by time, those that have a value of the series that are read."""
    rows: dict[int, Row] = {}
    for device in dict.fromkeys(device for device, _ in reads):
        for time, values in stored.get(device, {}).items():
            for name, value in values.items():
                if value is not None and (device, name) in reads:
                    rows.setdefault(time, {})[device, name] = value
    return sorted(rows.items())


def aggregate(name: str, series: Sequence[tuple[Device, str]], rows: Sequence[tuple[int, Row]]) -> Any:
    """Return an aggregate over the values of series: 0 for `count` of none, else None."""
    points = [(time, row[one]) for time, row in rows for one in series if one in row]
    if name == "count":
        return len(points)
    return AGGREGATES[name](points) if points else None


def mean(points: Points) -> Fraction:
    return Fraction(sum(Fraction(value) for _, value in points)) / len(points)


def deviation(points: Points) -> float | None:
    """Return the standard deviation of a sample; None for one value."""
    if len(points) == 1:
        return None
    return math.sqrt(sum((Fraction(value) - mean(points)) ** 2 for _, value in points) / (len(points) - 1))


AGGREGATES: Final[Mapping[str, Callable[[Points], Any]]] = {
    "sum": lambda points: float(sum(value for _, value in points)),
    "avg": lambda points: float(mean(points)),
    "min_value": lambda points: min(value for _, value in points),
    "max_value": lambda points: max(value for _, value in points),
    "first_value": lambda points: min(points, key=lambda point: point[0])[1],
    "last_value": lambda points: max(points, key=lambda point: point[0])[1],
    "extreme": lambda points: max((value for _, value in points), key=lambda value: (abs(value), value)),
    "max_time": lambda points: max(time for time, _ in points),
    "stddev": deviation,
}
