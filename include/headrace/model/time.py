"""Precisions and durations: every instant is a whole number of ticks of its database's precision."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headrace.model.spans import Span

TickRanges = tuple[tuple[int, int], ...]
"""Ranges of ticks, both ends inclusive."""

NANOSECONDS: Final = {
    "b": 1,
    "u": 1_000,
    "a": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
}
MONTHS: Final = {"n": 1, "y": 12}
MONTHS_BEFORE_1970: Final = 840
"""Windows of several months are counted from January 1900, this many months before January 1970, as TDengine counts them."""
UNIT_NAMES: Final = {
    "b": "nanosecond",
    "u": "microsecond",
    "a": "millisecond",
    "s": "second",
    "m": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
    "n": "month",
    "y": "year",
}


class Precision(StrEnum):
    """The tick of a database's timestamps."""

    MILLISECOND = "ms"
    MICROSECOND = "us"
    NANOSECOND = "ns"

    @property
    def ticks_per_second(self) -> int:
        """Number of ticks in a second."""
        return {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[self.value]

    @property
    def nanoseconds(self) -> int:
        """Length of one tick in nanoseconds."""
        return 1_000_000_000 // self.ticks_per_second


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time as the user wrote it: a count of one unit (`b u a s m h d w`, calendar `n y`)."""

    count: int
    unit: str
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.count}{self.unit}"

    @property
    def is_calendar(self) -> bool:
        """Whether its length depends on its start in the calendar."""
        return self.unit in MONTHS

    @property
    def months(self) -> int:
        """Length in months, 0 for a fixed duration."""
        return self.count * MONTHS.get(self.unit, 0)

    @property
    def nanoseconds(self) -> int:
        """Length in nanoseconds. Raises `ValueError` for months and years."""
        if self.is_calendar:
            raise ValueError(f"{self} has no fixed length, since months and years differ")
        return self.count * NANOSECONDS[self.unit]

    def ticks(self, precision: Precision) -> int:
        """Return the length in ticks of a precision, rounded down. Raise `ValueError` for months and years."""
        return self.nanoseconds // precision.nanoseconds

    def fixed_ticks(self, precision: Precision) -> int:
        """Return the length in ticks, 0 for months and years."""
        return 0 if self.is_calendar else self.ticks(precision)

    def min_ticks(self, precision: Precision) -> int:
        """Return the least length in ticks wherever it starts: a month has at least 28 days, without changes of the clock."""
        return self._as_days(28).ticks(precision)

    def max_ticks(self, precision: Precision) -> int:
        """Return the greatest length in ticks wherever it starts: a month has at most 31 days, without changes of the clock."""
        return self._as_days(31).ticks(precision)

    def _as_days(self, days_of_month: int) -> Duration:
        return Duration(self.months * days_of_month, "d") if self.is_calendar else self


def first_live_tick(now_ms: int, ttl_ms: int, precision: Precision) -> int:
    """Return the first instant that a time to live covers now, in ticks; the least one that there is if it would be earlier."""
    return max((now_ms - ttl_ms) * precision.ticks_per_second // 1000, -(2**63) + 2)
