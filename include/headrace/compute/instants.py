"""Time zones of statements, and durations in ticks."""

from __future__ import annotations

from datetime import tzinfo

from headrace.errors import DataError, LimitError
from headrace.model import instants
from headrace.model.time import UNIT_NAMES, Duration, Precision


def load_zone(name: str) -> tzinfo:
    """Return a time zone by IANA name or offset, or raise `DataError` if it does not exist."""
    loaded = instants.find_zone(name)
    if loaded is None:
        raise DataError(f"time zone {name!r} does not exist", hint=instants.ZONE_HINT)
    return loaded


def is_utc(name: str) -> bool:
    """Return whether a zone is UTC all year."""
    return name.upper() in ("UTC", "Z", "GMT", "ETC/UTC", "+00:00", "-00:00", "UTC+0")


def fixed_ticks(duration: Duration, what: str, precision: Precision) -> int:
    """Return a duration in ticks. Raise `LimitError` if it is in months or years, negative, or no multiple of the tick."""
    if duration.is_calendar:
        raise LimitError(
            f"{what} may not be in months or years, as {duration} is", hint="use weeks, days or shorter units", span=duration.span
        )
    if duration.count < 0:
        raise LimitError(f"{what} {duration} is negative", span=duration.span)
    check_ticks(what, duration, precision)
    return duration.ticks(precision)


def check_ticks(what: str, duration: Duration, precision: Precision) -> None:
    """Raise `LimitError` if a duration is not a multiple of the tick, which would truncate it."""
    if not duration.is_calendar and duration.nanoseconds % precision.nanoseconds:
        unit = UNIT_NAMES[tick_unit(precision)]
        raise LimitError(f"{what} {duration} is not a multiple of one {unit}, the tick of the database", span=duration.span)


def tick_unit(precision: Precision) -> str:
    """Return the duration unit of one tick, such as `a` for milliseconds."""
    return {"ms": "a", "us": "u", "ns": "b"}[precision.value]
