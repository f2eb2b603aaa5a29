"""Wall clocks and calendars in DuckDB: instants as ticks to what a clock in a zone shows, and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from headrace.model.instants import find_zone
from headrace.model.time import Precision
from headrace.verify.values import floored, quoted

Change = Callable[[str], str]

MACROS: Final = (
    "CREATE OR REPLACE MACRO wall_us(t, z) AS epoch_us(timezone(z, make_timestamptz(t)))",
    # Of a wall clock that shows a time twice, the first; of one that leaves it out, as much later as is left out.
    "CREATE OR REPLACE MACRO instant_of(w, early, late, z) AS CASE WHEN wall_us(early, z) = w OR wall_us(late, z) <> w "
    "THEN early ELSE late END",
    "CREATE OR REPLACE MACRO instant_us(w, z) AS instant_of(w, "
    "w - (wall_us(w - 86400000000, z) - (w - 86400000000)), w - (wall_us(w + 86400000000, z) - (w + 86400000000)), z)",
    "CREATE OR REPLACE MACRO months_us(w) AS (year(make_timestamp(w)) - 1970) * 12 + month(make_timestamp(w)) - 1",
    "CREATE OR REPLACE MACRO later_us(w, n) AS epoch_us(make_timestamp(w) + to_months(CAST(n AS INTEGER)))",
)


def fixed_offset(name: str) -> int | None:
    """Microseconds from UTC of a zone that is always the same distance from it, None of others."""
    if name.upper() in ("UTC", "Z", "GMT", "ETC/UTC"):
        return 0
    if not name.removeprefix("UTC").removeprefix("GMT").startswith(("+", "-")):
        return None
    found = find_zone(name)
    offset = found.utcoffset(datetime(2000, 1, 1, tzinfo=UTC)) if found is not None else None
    return None if offset is None else round(offset.total_seconds() * 1_000_000)


class Clock:
    """The wall clock of one zone, in ticks counted as if it were UTC."""

    def __init__(self, name: str, precision: Precision) -> None:
        self.name = name
        self.precision = precision
        self.offset = fixed_offset(name)

    def wall(self, ticks: str) -> str:
        """What the clock shows at an instant."""
        if self.offset is not None:
            return self._shifted(ticks, self.offset)
        return self._by_micros(ticks, lambda us: f"wall_us({us}, {quoted(self.name)})")

    def instant(self, wall: str) -> str:
        """When the clock shows something."""
        if self.offset is not None:
            return self._shifted(wall, -self.offset)
        return self._by_micros(wall, lambda us: f"instant_us({us}, {quoted(self.name)})")

    def months(self, wall: str) -> str:
        """Whole months since January 1970."""
        return f"months_us({self.micros(wall)})"

    def month_start(self, months: str) -> str:
        """The clock at the start of a month, counted since January 1970."""
        return self.ticks(f"later_us(CAST(0 AS BIGINT), {months})")

    def later(self, wall: str, months: str) -> str:
        """The clock so many months later; days are cut to the length of the month."""
        return self._by_micros(wall, lambda us: f"later_us({us}, {months})")

    def timestamp(self, wall: str) -> str:
        """DuckDB's TIMESTAMP of what the clock shows."""
        return f"make_timestamp({self.micros(wall)})"

    def micros(self, ticks: str) -> str:
        """Ticks as microseconds, rounded down."""
        match self.precision:
            case Precision.MILLISECOND:
                return f"(({ticks}) * 1000)"
            case Precision.MICROSECOND:
                return f"({ticks})"
            case _:
                return f"((({ticks}) - {floored(ticks, 1000)}) // 1000)"

    def ticks(self, micros: str) -> str:
        """Whole microseconds as ticks."""
        match self.precision:
            case Precision.MILLISECOND:
                return f"((({micros}) - {floored(micros, 1000)}) // 1000)"
            case Precision.MICROSECOND:
                return f"({micros})"
            case _:
                return f"(({micros}) * 1000)"

    def _shifted(self, ticks: str, micros: int) -> str:
        moved = micros * 1000 // self.precision.nanoseconds
        return f"(({ticks}) + {moved})" if moved else f"({ticks})"

    def _by_micros(self, ticks: str, change: Change) -> str:
        found = self.ticks(change(self.micros(ticks)))
        return f"({found} + {floored(ticks, 1000)})" if self.precision is Precision.NANOSECOND else found


def floor_to(wall: str, step: int, offset: int = 0) -> str:
    """The greatest `offset + k * step` that is not above."""
    return f"(({wall}) - {floored(f'({wall}) - {offset}', step)})"
