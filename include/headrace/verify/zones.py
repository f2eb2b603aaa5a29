"""Wall clocks and calendars in DuckDB: convert instants in ticks to what a zone's clock shows, and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from headrace.model.instants import find_zone
from headrace.model.time import Precision
from headrace.verify.values import floored_mod, quoted

Change = Callable[[str], str]

MACROS: Final = (
    "CREATE OR REPLACE MACRO wall_us(t, z) AS epoch_us(timezone(z, make_timestamptz(t)))",
    # A time that the clock shows twice is the first; a time that it skips moves later by what is skipped.
    "CREATE OR REPLACE MACRO instant_of(w, early, late, z) AS CASE WHEN wall_us(early, z) = w OR wall_us(late, z) <> w "
    "THEN early ELSE late END",
    "CREATE OR REPLACE MACRO instant_us(w, z) AS instant_of(w, "
    "w - (wall_us(w - 86400000000, z) - (w - 86400000000)), w - (wall_us(w + 86400000000, z) - (w + 86400000000)), z)",
    "CREATE OR REPLACE MACRO months_us(w) AS (year(make_timestamp(w)) - 1970) * 12 + month(make_timestamp(w)) - 1",
    "CREATE OR REPLACE MACRO later_us(w, n) AS epoch_us(make_timestamp(w) + to_months(CAST(n AS INTEGER)))",
)


def fixed_offset(name: str) -> int | None:
    """Return a zone's constant offset from UTC in microseconds, or None if it varies."""
    if name.upper() in ("UTC", "Z", "GMT", "ETC/UTC"):
        return 0
    if not name.removeprefix("UTC").removeprefix("GMT").startswith(("+", "-")):
        return None
    zone = find_zone(name)
    offset = zone.utcoffset(datetime(2000, 1, 1, tzinfo=UTC)) if zone is not None else None
    return None if offset is None else round(offset.total_seconds() * 1_000_000)


class Clock:
    """The wall clock of a zone, in ticks counted as if it were UTC."""

    def __init__(self, name: str, precision: Precision) -> None:
        self.name = name
        self.precision = precision
        self.offset = fixed_offset(name)

    def wall(self, ticks: str) -> str:
        """Return what the clock shows at an instant."""
        if self.offset is not None:
            return self._shift(ticks, self.offset)
        return self._by_micros(ticks, lambda us: f"wall_us({us}, {quoted(self.name)})")

    def instant(self, wall: str) -> str:
        """Return the instant at which the clock shows `wall`."""
        if self.offset is not None:
            return self._shift(wall, -self.offset)
        return self._by_micros(wall, lambda us: f"instant_us({us}, {quoted(self.name)})")

    def months(self, wall: str) -> str:
        """Return the whole months since January 1970."""
        return f"months_us({self.micros(wall)})"

    def month_start(self, months: str) -> str:
        """Return the clock at the start of a month, counted from January 1970."""
        return self.ticks(f"later_us(CAST(0 AS BIGINT), {months})")

    def later(self, wall: str, months: str) -> str:
        """Return the clock `months` later; a day past the end of the month becomes its last."""
        return self._by_micros(wall, lambda us: f"later_us({us}, {months})")

    def timestamp(self, wall: str) -> str:
        """Return what the clock shows as a DuckDB TIMESTAMP."""
        return f"make_timestamp({self.micros(wall)})"

    def micros(self, ticks: str) -> str:
        """Convert ticks to microseconds, rounding down."""
        return _converted(ticks, self.precision.nanoseconds, 1000)

    def ticks(self, micros: str) -> str:
        """Convert whole microseconds to ticks, rounding down."""
        return _converted(micros, 1000, self.precision.nanoseconds)

    def _shift(self, ticks: str, micros: int) -> str:
        offset = micros * 1000 // self.precision.nanoseconds
        return f"(({ticks}) + {offset})" if offset else f"({ticks})"

    def _by_micros(self, ticks: str, change: Change) -> str:
        changed = self.ticks(change(self.micros(ticks)))
        return f"({changed} + {floored_mod(ticks, 1000)})" if self.precision is Precision.NANOSECOND else changed


def _converted(count: str, unit: int, target: int) -> str:
    """Convert a number of units of some nanoseconds to another unit, rounding down."""
    if unit >= target:
        return f"(({count}) * {unit // target})" if unit > target else f"({count})"
    return f"((({count}) - {floored_mod(count, target // unit)}) // {target // unit})"
