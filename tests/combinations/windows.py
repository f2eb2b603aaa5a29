"""Windows of rows and of the calendar, as the documentation defines them, in plain Python."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

Key = tuple[str, int]
"""Subtable, and event time in microseconds since 1970."""
Row = Mapping[str, Any]
Group = Any
SECOND: Final = 1_000_000
EPOCH: Final = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Image:
    """A version of a row that counts in a group."""

    key: Key
    row: Row


Windows = Callable[[Sequence[Image]], list[list[Image]]]
"""Divides the rows of a group, in order of time, into windows."""


# Windows of consecutive rows


def runs(belongs: Callable[[Image, Image], bool]) -> Windows:
    """Return windows of rows of which each belongs with the row before."""

    def windows(images: Sequence[Image]) -> list[list[Image]]:
        found: list[list[Image]] = []
        for image in images:
            if found and belongs(found[-1][-1], image):
                found[-1].append(image)
            else:
                found.append([image])
        return found

    return windows


def session(gap: int) -> Windows:
    return runs(lambda before, image: image.key[1] - before.key[1] <= gap)


def state(name: str) -> Windows:
    """Return windows of equal states; rows whose state is NULL are in none."""
    equal = runs(lambda before, image: image.row[name] == before.row[name])
    return lambda images: equal([image for image in images if image.row[name] is not None])


def event(starts: Callable[[Row], bool], stops: Callable[[Row], bool]) -> Windows:
    """Return windows from a row that starts one to the first that stops it; without that row there is none."""

    def windows(images: Sequence[Image]) -> list[list[Image]]:
        found: list[list[Image]] = []
        inside: list[Image] = []
        for image in images:
            if inside or starts(image.row):
                inside.append(image)
                if stops(image.row):
                    found.append(inside)
                    inside = []
        return found

    return windows


def count(size: int) -> Windows:
    return lambda images: [list(images[first : first + size]) for first in range(0, len(images), size)]


# Windows of the calendar


@dataclass(frozen=True)
class Grid:
    """Windows of INTERVAL, in a time zone if they follow the calendar. Length and step are seconds or months, offsets seconds."""

    length: int
    step: int
    offset: int = 0
    has_months: bool = False
    steps_in_months: bool = False
    zone: str | None = None

    def local_start(self, number: int) -> dt.datetime:
        steps = month(number * self.step) if self.steps_in_months else EPOCH + dt.timedelta(seconds=number * self.step)
        return steps + dt.timedelta(seconds=self.offset)

    def start(self, number: int) -> int:
        """Return the start of a window by its number."""
        return self.instant(self.local_start(number))

    def end(self, number: int) -> int:
        if self.steps_in_months:
            return self.instant(month(number * self.step + self.length) + dt.timedelta(seconds=self.offset))
        start = self.local_start(number)
        return self.instant(months_later(start, self.length) if self.has_months else start + dt.timedelta(seconds=self.length))

    def instant(self, local: dt.datetime) -> int:
        """Return an instant of the zone's clock. A skipped time is later by the gap; of a repeated one, the first counts."""
        zone = ZoneInfo(self.zone or "UTC")
        return microseconds(local.replace(tzinfo=zone, fold=0))

    def numbers(self, ts: int) -> list[int]:
        """Return the numbers of the windows that an instant lies in."""
        local = dt.datetime.fromtimestamp(ts // SECOND, ZoneInfo(self.zone or "UTC")).replace(tzinfo=None)
        if self.steps_in_months:
            near, behind = ((local.year - 1970) * 12 + local.month - 1) // self.step, 2
        else:
            near = int(((local - EPOCH).total_seconds() - self.offset) // self.step)
            behind = self.length * (31 * 86_400 if self.has_months else 1) // self.step + 2
        return [number for number in range(near - behind, near + 3) if self.start(number) <= ts < self.end(number)]

    def between(self, first: int, last: int) -> list[int]:
        """Return the starts of the windows between those that start at two instants."""
        low, high = max(self.numbers(first)), max(self.numbers(last))
        starts = [self.start(number) for number in range(low - 1, high + 1)]
        return [start for start in starts if first < start < last]


def month(number: int) -> dt.datetime:
    """Return the first instant of a month, counted from January 1970."""
    return dt.datetime(1970 + number // 12, number % 12 + 1, 1)


def months_later(local: dt.datetime, months: int) -> dt.datetime:
    """Return the same day and time some months later, or the last day of a shorter month."""
    first = month((local.year - 1970) * 12 + local.month - 1 + months)
    last = (month((local.year - 1970) * 12 + local.month + months) - first).days
    return first.replace(day=min(local.day, last)) + (local - local.replace(hour=0, minute=0, second=0, microsecond=0))


def microseconds(instant: dt.datetime) -> int:
    return (instant.astimezone(dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
