"""Compare two results as multisets of rows, and find the first difference."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

RELATIVE_TOLERANCE: Final = 1e-9
ABSOLUTE_TOLERANCE: Final = 1e-12
TEXT_TOLERANCE: Final = 2e-6
"""Tolerance for numbers in texts, which have six digits."""
NUMBER_PATTERN: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|-?(?:nan|inf(?:inity)?)", re.IGNORECASE)
MAX_COMPARISONS: Final = 2_000
"""Rows of one key that are compared pairwise if sorting does not pair them."""

ResultRow = tuple[Any, ...]


class ComparisonMode(StrEnum):
    """How a column is compared: exactly (floats to rounding), as text that contains numbers, or as lying in `[low, high]`."""

    EXACT = "exact"
    AS_TEXT = "written"
    IN_RANGE = "within"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first difference between two results: positions of columns, and the rows, of which one is None if it is missing.

    The `position` is that of the expected row.
    """

    expected: ResultRow | None
    actual: ResultRow | None
    position: int | None
    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Allowance:
    """Tolerated differences: expected rows, by position, that may be missing, and actual rows that may be extra."""

    missing: Callable[[int], bool] = lambda _: False
    extra: Callable[[ResultRow], bool] = lambda _: False


STRICT: Final = Allowance()


def first_difference(
    expected: Sequence[ResultRow],
    actual: Sequence[ResultRow],
    comparisons: Sequence[ComparisonMode],
    ordered: Sequence[int] = (),
    allowance: Allowance = STRICT,
) -> Mismatch | None:
    """Return the first difference between two results, or None if they are equal.

    Rows are paired regardless of their order; only the columns at the positions `ordered` must come in the same order in both.
    Integers, text and booleans must be equal exactly, other numbers to rounding.
    """
    exact = [
        position
        for position, comparison in enumerate(comparisons)
        if comparison is ComparisonMode.EXACT and _is_exact(expected, actual, position)
    ]
    rows_by_key: dict[ResultRow, list[ResultRow]] = defaultdict(list)
    for row in actual:
        rows_by_key[_key_of(row, exact)].append(row)
    positions_by_key: dict[ResultRow, list[int]] = defaultdict(list)
    for position, row in enumerate(expected):
        positions_by_key[_key_of(row, exact)].append(position)
    all_missing = sorted(
        position
        for key, positions in positions_by_key.items()
        # Of equal rows, those that may be missing are paired last.
        for position in _take_unmatched(sorted(positions, key=allowance.missing), expected, rows_by_key.get(key, []), comparisons)
    )
    all_extra = [row for rows in rows_by_key.values() for row in rows]
    missing = [position for position in all_missing if not allowance.missing(position)]
    extra = [row for row in all_extra if not allowance.extra(row)]
    if missing or extra:
        return _describe_mismatch(missing or all_missing, expected, extra or all_extra, comparisons)
    return None if all_missing or all_extra else _first_misordered(expected, actual, comparisons, ordered)


def _is_exact(expected: Sequence[ResultRow], actual: Sequence[ResultRow], position: int) -> bool:
    values = (row[position] for rows in (expected, actual) for row in rows)
    return not any(isinstance(one, float) or (isinstance(one, Decimal) and one != one.to_integral_value()) for one in values)


def _key_of(row: ResultRow, exact: Sequence[int]) -> ResultRow:
    """Return a row's values in the columns that are compared exactly. Booleans are marked, since True equals 1."""
    return tuple((type(row[position]) is bool, row[position]) for position in exact)


def _take_unmatched(
    positions: Sequence[int], expected: Sequence[ResultRow], rows: list[ResultRow], comparisons: Sequence[ComparisonMode]
) -> list[int]:
    """Return the positions of the expected rows of one key without a partner; remove the partners of others from `rows`."""
    if len(positions) == len(rows):
        left = sorted(positions, key=lambda position: _sort_key(expected[position]))
        right = sorted(rows, key=_sort_key)
        if not any(_differing_columns(expected[position], row, comparisons) for position, row in zip(left, right, strict=True)):
            rows.clear()
            return []
    missing = []
    for tries, position in enumerate(positions):
        candidates = enumerate(rows if tries < MAX_COMPARISONS else [])
        partner = next((at for at, row in candidates if not _differing_columns(expected[position], row, comparisons)), None)
        if partner is None:
            missing.append(position)
        else:
            del rows[partner]
    return missing


def _sort_key(row: ResultRow) -> tuple[tuple[int, Any], ...]:
    return tuple(
        (0, 0) if value is None else (1, float(value)) if isinstance(value, int | float | Decimal) else (2, str(value))
        for value in row
    )


def _differing_columns(expected: ResultRow, actual: ResultRow, comparisons: Sequence[ComparisonMode]) -> tuple[int, ...]:
    triples = zip(expected, actual, comparisons, strict=True)
    return tuple(
        position for position, (left, right, comparison) in enumerate(triples) if not values_equal(left, right, comparison)
    )


def values_equal(expected: Any, actual: Any, comparison: ComparisonMode) -> bool:
    if comparison is ComparisonMode.IN_RANGE and isinstance(expected, list | tuple):
        return _is_within(actual, expected)
    if expected is None or actual is None:
        return expected is actual
    if comparison is ComparisonMode.AS_TEXT:
        return _texts_equal(str(expected), str(actual))
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, int | float | Decimal) and isinstance(actual, int | float | Decimal):
        return numbers_equal(expected, actual)
    return type(expected) is type(actual) and bool(expected == actual)


def numbers_equal(expected: float | Decimal, actual: float | Decimal) -> bool:
    """Return True if integers are equal exactly, or other numbers to rounding."""
    if isinstance(expected, int) and isinstance(actual, int):
        return expected == actual
    left, right = float(expected), float(actual)
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return math.isclose(left, right, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)


def _is_within(actual: Any, limits: Sequence[Any]) -> bool:
    low, high = limits
    if actual is None or low is None or high is None:
        return actual is None and low is None
    tolerance = ABSOLUTE_TOLERANCE + RELATIVE_TOLERANCE * max(abs(float(low)), abs(float(high)))
    return float(low) - tolerance <= float(actual) <= float(high) + tolerance


def _texts_equal(expected: str, actual: str) -> bool:
    """Return True if texts differ at most in the last digits of the numbers in them."""
    if NUMBER_PATTERN.sub("#", expected) != NUMBER_PATTERN.sub("#", actual):
        return False
    pairs = zip(NUMBER_PATTERN.findall(expected), NUMBER_PATTERN.findall(actual), strict=True)
    return all(
        numbers_equal(float(left), float(right)) or math.isclose(float(left), float(right), abs_tol=TEXT_TOLERANCE)
        for left, right in pairs
    )


def _describe_mismatch(
    missing: Sequence[int], expected: Sequence[ResultRow], extra: Sequence[ResultRow], comparisons: Sequence[ComparisonMode]
) -> Mismatch:
    if not missing:
        return Mismatch(None, extra[0], None)
    row = expected[missing[0]]
    if not extra:
        return Mismatch(row, None, missing[0])
    partner = min(extra, key=lambda other: len(_differing_columns(row, other, comparisons)))
    return Mismatch(row, partner, missing[0], _differing_columns(row, partner, comparisons))


def _first_misordered(
    expected: Sequence[ResultRow], actual: Sequence[ResultRow], comparisons: Sequence[ComparisonMode], ordered: Sequence[int]
) -> Mismatch | None:
    for row_number, (left, right) in enumerate(zip(expected, actual, strict=True)):
        columns = tuple(
            position for position in ordered if not values_equal(left[position], right[position], comparisons[position])
        )
        if columns:
            return Mismatch(left, right, row_number, columns)
    return None
