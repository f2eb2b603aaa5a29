"""Timestamps written as text, and the clock's now, as ticks."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.errors import DataError
from headrace.model.time import Precision

_INSTANT: Final = re.compile(
    r"(?P<date>\d{4}-\d{1,2}-\d{1,2})"
    r"(?:[T ]+(?P<clock>\d{1,2}:\d{2}(?::\d{2})?)(?:\.(?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<zone>Z|z|[+-]\d{2}:?\d{2}|[+-]\d{2})?"
)
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?", re.IGNORECASE)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def zone(name: str) -> tzinfo:
    """A time zone by IANA name or offset; `DataError` where there is none of that name."""
    if name.upper() in ("UTC", "Z", "GMT"):
        return UTC
    if matched := _OFFSET.fullmatch(name):
        sign, hours, minutes = matched.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(offset if sign == "+" else -offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise DataError(
            f"there is no time zone {name!r}", hint="use an IANA name such as Europe/Berlin, or an offset such as +08:00"
        ) from None


def is_utc(name: str) -> bool:
    """Whether a zone is UTC all year."""
    return name.upper() in ("UTC", "Z", "GMT", "ETC/UTC", "+00:00", "-00:00", "UTC+0")


def instant(text: str, timezone_: str, precision: Precision) -> int | None:
    """Ticks of a timestamp written as text, in `timezone_` where it names no zone; None where it is no timestamp."""
    matched = _INSTANT.fullmatch(text.strip())
    if matched is None:
        return None
    year, month, day = map(int, matched["date"].split("-"))
    hours, minutes, seconds = [*map(int, (matched["clock"] or "0:0").split(":")), 0][:3]
    try:
        where = zone((matched["zone"] or timezone_).upper() if matched["zone"] else timezone_)
        moment = datetime(year, month, day, hours, minutes, seconds, tzinfo=where)
    except ValueError:
        return None
    since = moment - EPOCH
    nanoseconds = (since.days * 86_400 + since.seconds) * 1_000_000_000 + int((matched["fraction"] or "0").ljust(9, "0"))
    return nanoseconds // precision.nanoseconds
