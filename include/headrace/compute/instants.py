"""Time zones of statements."""

from __future__ import annotations

from datetime import tzinfo

from headrace.errors import DataError
from headrace.model import instants


def zone(name: str) -> tzinfo:
    """A time zone by IANA name or offset; `DataError` where there is none of that name."""
    found = instants.find_zone(name)
    if found is None:
        raise DataError(f"time zone {name!r} does not exist", hint=instants.ZONE_HINT)
    return found


def is_utc(name: str) -> bool:
    """Whether a zone is UTC all year."""
    return name.upper() in ("UTC", "Z", "GMT", "ETC/UTC", "+00:00", "-00:00", "UTC+0")
