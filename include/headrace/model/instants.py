"""Timestamps written as text, and time zones by name."""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
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
    return round(local.replace(hour=0, minute=0, second=0, microsecond=0).timestamp() * 1_000)
