"""Rows beside rows that were written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.verify.compare import near


def alike_rows(expected: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> bool:
    """Whether two lists of rows are equal, in order, numbers to rounding."""
    return len(expected) == len(found) and all(
        len(one) == len(other) and all(alike(left, right) for left, right in zip(one, other, strict=True))
        for one, other in zip(expected, found, strict=True)
    )


def alike(expected: Any, found: Any) -> bool:
    if isinstance(expected, list):
        return len(expected) == len(found) and all(alike(one, other) for one, other in zip(expected, found, strict=True))
    if isinstance(expected, bool) or not isinstance(expected, int | float):
        return bool(expected == found)
    return not isinstance(found, bool) and found is not None and near(expected, found)
