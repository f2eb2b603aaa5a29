"""Time zones of statements."""

from __future__ import annotations

from datetime import tzinfo

from headrace.errors import DataError
from headrace.model import instants


def load_zone(name: str) -> tzinfo:
    """Return a time zone by IANA name or offset, or raise `DataError` if it does not exist."""
    loaded = instants.find_zone(name)
    if loaded is None:
        raise DataError(f"time zone {name!r} does not exist", hint=instants.ZONE_HINT)
    return loaded


def is_utc(name: str) -> bool:
    """Return whether a zone is UTC all year."""
    return name.upper() in ("UTC", "Z", "GMT", "ETC/UTC", "+00:00", "-00:00", "UTC+0")
