"""Conversion of one value to the type of its series, as INSERT of the IoTDB language does it."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from typing import Final

from headrace.model.types import TypeKind

FLOAT_OVERFLOW: Final = 3.4028235677973366e38
"""The least number that no FLOAT is near to."""


def to_bool(value: object) -> bool:
    """Read a BOOLEAN: true, false, 0 or 1."""
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in ("true", "1"):
        return True
    if text in ("false", "0"):
        return False
    raise ValueError(value)


def to_integer(bits: int) -> Callable[[object], int]:
    """Return the reader of a signed integer with this many bits."""

    def read(value: object) -> int:
        if isinstance(value, bool | float | bytes):
            raise ValueError(value)
        number = int(str(value))
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise OverflowError(value)
        return number

    return read


def to_float(value: object) -> float:
    if isinstance(value, bool | bytes):
        raise ValueError(value)
    text = str(value)
    number = float(text)
    if math.isinf(number) and "inf" not in text.lower():
        raise OverflowError(value)
    return number


def to_single(value: object) -> float:
    """Read a FLOAT; a finite number beyond its range is none."""
    number = to_float(value)
    if FLOAT_OVERFLOW <= abs(number) < math.inf:
        raise OverflowError(value)
    return number


def to_text(value: object) -> str:
    """Read a TEXT or STRING."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return str(value)


def to_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    raise ValueError(value)


def to_date(value: object) -> date:
    """Read a DATE, written as text or as a number such as 20240501."""
    text = str(value)
    return date.fromisoformat(text) if "-" in text else date.fromisoformat(f"{text[:4]}-{text[4:6]}-{text[6:]}")


CONVERTERS: Final[dict[TypeKind, Callable[[object], object]]] = {
    TypeKind.BOOL: to_bool,
    TypeKind.INT: to_integer(32),
    TypeKind.BIGINT: to_integer(64),
    TypeKind.FLOAT: to_single,
    TypeKind.DOUBLE: to_float,
    TypeKind.VARCHAR: to_text,
    TypeKind.NCHAR: to_text,
    TypeKind.VARBINARY: to_bytes,
    TypeKind.DATE: to_date,
    TypeKind.TIMESTAMP: to_integer(64),
}
