"""Constructors and type objects that PEP 249 requires."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from typing import Final

Date: Final = date
Time: Final = time
Timestamp: Final = datetime
Binary: Final = bytes


def DateFromTicks(ticks: float) -> date:
    """Return the UTC date of a number of seconds since 1970."""
    return datetime.fromtimestamp(ticks, UTC).date()


def TimeFromTicks(ticks: float) -> time:
    """Return the UTC time of day of a number of seconds since 1970."""
    return datetime.fromtimestamp(ticks, UTC).timetz()


def TimestampFromTicks(ticks: float) -> datetime:
    """Return the instant of a number of seconds since 1970."""
    return datetime.fromtimestamp(ticks, UTC)


class TypeObject:
    """Equal to every type in `Cursor.description` (an Arrow type name) that its pattern matches."""

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, str) and self._pattern.match(other) is not None)

    def __hash__(self) -> int:
        return id(self)


STRING: Final = TypeObject(r"(large_)?string")
BINARY: Final = TypeObject(r"(large_)?binary")
NUMBER: Final = TypeObject(r"u?int|float|double|halffloat|decimal")
DATETIME: Final = TypeObject(r"timestamp|date")
ROWID: Final = TypeObject(r"(?!)")
