"""Comparison of results with recorded ones."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

TOLERANCE = 1e-5


def results_match(actual: list[list[Any]], expected: list[list[Any]], tolerance: float = TOLERANCE) -> bool:
    """Return whether two results are equal up to rounding."""
    if len(actual) != len(expected):
        return False
    return all(
        len(ours) == len(theirs) and all(values_match(*pair, tolerance) for pair in zip(ours, theirs, strict=True))
        for ours, theirs in zip(actual, expected, strict=True)
    )


def values_match(ours: Any, theirs: Any, tolerance: float) -> bool:
    """Return whether two values are equal up to rounding."""
    if isinstance(ours, float | int) and isinstance(theirs, float | int):
        return math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=1e-6) or (math.isnan(ours) and math.isnan(theirs))
    return bool(ours == theirs)


def comparable(value: Any) -> Any:
    """Convert instants to epoch milliseconds, days to numbers such as 20240131, decimals to numbers, and binary to text."""
    match value:
        case dt.datetime():
            return round(value.timestamp() * 1000)
        case dt.date():
            return value.year * 10_000 + value.month * 100 + value.day
        case bytes():
            return value.decode(errors="backslashreplace")
        case None | str() | int() | float():
            return value
        case _:
            return float(value)
