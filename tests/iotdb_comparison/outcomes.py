"""What a server answers to a statement: columns and rows, or a refusal."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from typing import Any, Final

Value = bool | int | float | str | bytes | None

RELATIVE: Final = {"FLOAT": 1e-5, "DOUBLE": 1e-9}
"""Tolerance by type. Sums depend on the order of additions, and FLOAT has seven digits."""
ABSOLUTE: Final = 1e-9
WRITTEN_DOUBLE: Final = re.compile(r"-?\d+\.\d{10,}(E-?\d+)?")
RELATIVE_WRITTEN: Final = 1e-14
"""Tolerance of a DOUBLE with many digits that is cast to TEXT: libraries round the last digit of `exp` and of sums differently."""


@dataclass(frozen=True, slots=True)
class Column:
    """A result column; `type` is INT32, INT64, FLOAT, DOUBLE, BOOLEAN, TEXT, BLOB, DATE or TIMESTAMP."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A result. Instants are epoch milliseconds, dates are integers such as 20240131."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal with its status code (0 if it has none) and message."""

    status: int
    message: str


Outcome = Answer | Refusal


def plain(value: Any) -> Value:
    """Return a value as both servers represent it."""
    match value:
        case dt.datetime():
            return round(value.timestamp() * 1000)
        case dt.date():
            return value.year * 10_000 + value.month * 100 + value.day
        case None | bool() | int() | float() | str() | bytes():
            return value
        case _:
            return bytes(value)


def values_equal(ours: Value, theirs: Value, type_: str) -> bool:
    """Return whether two values of a type are equal up to rounding."""
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return math.isclose(ours, theirs, rel_tol=RELATIVE.get(type_, 0), abs_tol=ABSOLUTE)
    if isinstance(ours, str) and isinstance(theirs, str) and ours != theirs:
        return written_doubles_equal(ours, theirs)
    return type(ours) is type(theirs) and ours == theirs


def written_doubles_equal(ours: str, theirs: str) -> bool:
    """Return whether two texts are DOUBLE values in the same notation, equal up to rounding."""
    mine, other = WRITTEN_DOUBLE.fullmatch(ours), WRITTEN_DOUBLE.fullmatch(theirs)
    if mine is None or other is None or mine[1] != other[1]:
        return False
    return math.isclose(float(ours), float(theirs), rel_tol=RELATIVE_WRITTEN, abs_tol=0)
