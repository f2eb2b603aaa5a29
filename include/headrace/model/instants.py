"""Timestamps written as text, and time zones by name."""

from __future__ import annotations

import functools
import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.model.time import Precision

_INSTANT: Final = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:(?:[Tt]|\s+)(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9})\d*)?)?)?"
    r"\s*([Zz]|[+-]\d{2}(?::?\d{2})?)?\s*"
)
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 1_000_000_000
FIRST_SECOND: Final = (datetime(MINYEAR, 7, 1, tzinfo=UTC) - EPOCH).days * 86_400
LAST_SECOND: Final = (datetime(MAXYEAR, 7, 1, tzinfo=UTC) - EPOCH).days * 86_400
"""The first and the last second that are moved by months."""
ZONE_HINT: Final = "use an IANA name such as Europe/Berlin, or an offset such as +08:00"


@functools.cache
def find_zone(name: str) -> tzinfo | None:
    """Return a time zone by IANA name or offset (`+08:00`); None if it does not exist."""
    if name.upper() in ("UTC", "Z", "GMT"):
        return UTC
    if matched := _OFFSET.fullmatch(name):
        sign, hours, minutes = matched.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if offset >= timedelta(days=1):
            return None
        return timezone(offset if sign == "+" else -offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def nanoseconds(text: str, timezone_: str) -> int | None:
    """Parse a timestamp to nanoseconds since the epoch, in `timezone_` if it names no zone; None if it is not a timestamp.

    Forms: `2024-05-01`, `2024-05-01 12:30`, `2024-05-01T12:30:00.123456789+02:00`, `…Z`. A local time that occurs twice is the
    earlier one.
    """
    matched = _INSTANT.fullmatch(text)
    if matched is None:
        return None
    year, month, day, hour, minute, second, fraction, named = matched.groups()
    zone = find_zone(named or timezone_)
    if zone is None:
        return None
    try:
        moment = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=zone)
        elapsed = moment - EPOCH
    except (ValueError, OverflowError):
        return None
    return (elapsed.days * 86_400 + elapsed.seconds) * _SECOND + int((fraction or "0").ljust(9, "0"))


def parse_instant(text: str, timezone_: str, precision: Precision) -> int | None:
    """Parse a timestamp to ticks, truncating fractions of a tick; None if it is not a timestamp."""
    instant = nanoseconds(text, timezone_)
    return None if instant is None else instant // precision.nanoseconds


def midnight(now: int, timezone_: str) -> int:
    """Return the start of an instant's day in a zone (UTC if it does not exist); both in epoch milliseconds."""
    local = (EPOCH + timedelta(milliseconds=now)).astimezone(find_zone(timezone_) or UTC)
    return round(local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0).timestamp() * 1_000)


def add_months(ticks: int, months: int, timezone_: str, precision: Precision) -> int:
    """Add months to what the clock of a zone shows; a day that the month lacks becomes its last day.

    Instants beyond the years 1 to 9999 count as those of July of these years.
    """
    unit = precision.ticks_per_second
    seconds = min(max(ticks // unit, FIRST_SECOND), LAST_SECOND)
    wall = (EPOCH + timedelta(seconds=seconds)).astimezone(find_zone(timezone_) or UTC)
    year, month = divmod(wall.year * 12 + wall.month - 1 + months, 12)
    if not MINYEAR < year < MAXYEAR:
        return (FIRST_SECOND if year <= MINYEAR else LAST_SECOND) * unit
    day = min(wall.day, monthrange(year, month + 1)[1])
    since = datetime(year, month + 1, day, wall.hour, wall.minute, wall.second, tzinfo=wall.tzinfo) - EPOCH
    return (since.days * 86_400 + since.seconds) * unit + ticks % unit


@dataclass(frozen=True, slots=True)
class PresentInstant:
    """An instant that follows from the present by steps. Each adds ticks, then months or None: midnight."""

    timezone: str
    precision: Precision
    steps: tuple[tuple[int, int | None], ...] = ()

    def at(self, now: int) -> int:
        """Return the instant in ticks; `now` is the present in ticks."""
        unit = self.precision.ticks_per_second
        for ticks, months in self.steps:
            now += ticks
            if months is None:
                now = midnight(now * 1_000 // unit, self.timezone) * unit // 1_000
            else:
                now = add_months(now, months, self.timezone, self.precision)
        return now
