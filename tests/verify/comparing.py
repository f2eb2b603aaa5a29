"""Compare rows with expected ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.verify.compare import numbers_equal


def rows_equal(expected: Sequence[Sequence[Any]], actual: Sequence[Sequence[Any]]) -> bool:
    """Return True if two lists of rows are equal, in order, numbers to rounding."""
    return len(expected) == len(actual) and all(
        len(expected_row) == len(other) and all(values_equal(left, right) for left, right in zip(expected_row, other, strict=True))
        for expected_row, other in zip(expected, actual, strict=True)
    )


def values_equal(expected: Any, actual: Any) -> bool:
    if isinstance(expected, list):
        return len(expected) == len(actual) and all(values_equal(item, other) for item, other in zip(expected, actual, strict=True))
    if isinstance(expected, bool) or not isinstance(expected, int | float):
        return bool(expected == actual)
    return not isinstance(actual, bool) and actual is not None and numbers_equal(expected, actual)
