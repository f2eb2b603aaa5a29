"""Precisions and durations: every instant is a whole number of ticks of its database's precision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

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

    def __str__(self) -> str:
        return f"{self.count}{self.unit}"

    @property
    def is_calendar(self) -> bool:
        """Whether its length depends on its start in the calendar."""
        return self.unit in MONTHS

    @property
    def months(self) -> int:
        """Length in months; only of calendar durations."""
        return self.count * MONTHS[self.unit]

    @property
    def nanoseconds(self) -> int:
        """Length in nanoseconds; only of fixed durations."""
        return self.count * NANOSECONDS[self.unit]

    def ticks(self, precision: Precision) -> int:
        """Return the length in ticks of a precision, rounded down; only of fixed durations."""
        return self.nanoseconds // precision.nanoseconds
