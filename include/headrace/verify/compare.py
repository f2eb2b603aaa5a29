"""Two results side by side: equal as multisets of rows, or the first difference."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from headrace.verify.aggregates import Likeness

RELATIVE: Final = 1e-9
ABSOLUTE: Final = 1e-12
WRITTEN: Final = 2e-6
"""How far numbers written with six digits may be apart."""
NUMBERS: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|-?(?:nan|inf(?:inity)?)", re.IGNORECASE)
MAX_COMPARISONS: Final = 2_000
"""Rows of one key that are tried one against another where sorting does not pair them."""

ResultRow = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first difference: the row that is expected, at `place` among those expected, and the one that was found instead; either
    may be None. `columns` are the places in which the two differ.
    """

    expected: ResultRow | None
    found: ResultRow | None
    place: int | None
    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Allowance:
    """What two results may differ in: expected rows, by place, that may be missing, and rows that may be found besides."""

    missing: Callable[[int], bool] = lambda _: False
    besides: Callable[[ResultRow], bool] = lambda _: False


STRICT: Final = Allowance()


def first_difference(
    expected: Sequence[ResultRow],
    found: Sequence[ResultRow],
    likenesses: Sequence[Likeness],
    ordered: Sequence[int] = (),
    leave: Allowance = STRICT,
) -> Mismatch | None:
    """The first difference of two results; None where they are equal.

    Rows are paired whatever their order; only the columns `ordered` must come in the same order in both. Whole numbers, text and
    truth values are equal exactly, other numbers to rounding.
    """
    exact = [place for place, likeness in enumerate(likenesses) if likeness is Likeness.EXACT and is_exact(expected, found, place)]
    buckets: dict[ResultRow, list[ResultRow]] = defaultdict(list)
    for row in found:
        buckets[key_of(row, exact)].append(row)
    wanted: dict[ResultRow, list[int]] = defaultdict(list)
    for place, row in enumerate(expected):
        wanted[key_of(row, exact)].append(place)
    alone = sorted(
        place for key, places in wanted.items() for place in unmatched(places, expected, buckets.get(key, []), likenesses)
    )
    besides = [row for rows in buckets.values() for row in rows]
    missing, extra = [place for place in alone if not leave.missing(place)], [row for row in besides if not leave.besides(row)]
    if missing or extra:
        return described(missing or alone, expected, extra or besides, likenesses)
    return None if alone or besides else misplaced(expected, found, likenesses, ordered)


def is_exact(expected: Sequence[ResultRow], found: Sequence[ResultRow], place: int) -> bool:
    """Whether neither side has numbers with fractions in a column."""
    return not any(isinstance(row[place], float) or is_fraction(row[place]) for rows in (expected, found) for row in rows)


def is_fraction(value: Any) -> bool:
    return isinstance(value, Decimal) and value != value.to_integral_value()


def key_of(row: ResultRow, exact: Sequence[int]) -> ResultRow:
    return tuple((type(row[place]) is bool, row[place]) for place in exact)


def unmatched(
    places: Sequence[int], expected: Sequence[ResultRow], rows: list[ResultRow], likenesses: Sequence[Likeness]
) -> list[int]:
    """The expected rows of one key that have no partner; partners are taken out of `rows`."""
    if len(places) == len(rows):
        left = sorted(places, key=lambda place: sort_key(expected[place]))
        right = sorted(rows, key=sort_key)
        if all(alike(expected[place], row, likenesses) for place, row in zip(left, right, strict=True)):
            rows.clear()
            return []
    return one_by_one(places, expected, rows, likenesses)


def one_by_one(
    places: Sequence[int], expected: Sequence[ResultRow], rows: list[ResultRow], likenesses: Sequence[Likeness]
) -> list[int]:
    missing = []
    for tries, place in enumerate(places):
        partner = None
        if tries < MAX_COMPARISONS:
            partner = next((number for number, row in enumerate(rows) if alike(expected[place], row, likenesses)), None)
        if partner is None:
            missing.append(place)
        else:
            del rows[partner]
    return missing


def sort_key(row: ResultRow) -> tuple[tuple[int, Any], ...]:
    """Something that rows with values of any types can be sorted by."""
    return tuple(
        (0, 0) if value is None else (1, float(value)) if isinstance(value, int | float | Decimal) else (2, str(value))
        for value in row
    )


def alike(expected: ResultRow, found: ResultRow, likenesses: Sequence[Likeness]) -> bool:
    return not differing(expected, found, likenesses)


def differing(expected: ResultRow, found: ResultRow, likenesses: Sequence[Likeness]) -> tuple[int, ...]:
    """The places in which two rows differ."""
    triples = zip(expected, found, likenesses, strict=True)
    return tuple(place for place, (one, other, likeness) in enumerate(triples) if not same(one, other, likeness))


def same(expected: Any, found: Any, likeness: Likeness) -> bool:
    """Whether two values are equal, each in its way."""
    if likeness is Likeness.WITHIN and isinstance(expected, list | tuple):
        return is_within(found, expected)
    if expected is None or found is None:
        return expected is found
    if likeness is Likeness.WRITTEN:
        return written_alike(str(expected), str(found))
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float | Decimal) and isinstance(found, int | float | Decimal):
        return near(expected, found)
    return type(expected) is type(found) and bool(expected == found)


def near(expected: float | Decimal, found: float | Decimal) -> bool:
    """Whole numbers exactly, others to rounding."""
    if isinstance(expected, int) and isinstance(found, int):
        return expected == found
    one, other = float(expected), float(found)
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def is_within(found: Any, limits: Sequence[Any]) -> bool:
    """Whether an estimate lies where it may."""
    low, high = limits
    if found is None or low is None or high is None:
        return found is None and low is None
    slack = ABSOLUTE + RELATIVE * max(abs(float(low)), abs(float(high)))
    return float(low) - slack <= float(found) <= float(high) + slack


def written_alike(expected: str, found: str) -> bool:
    """Texts that differ at most in the last digits of the numbers in them."""
    if NUMBERS.sub("#", expected) != NUMBERS.sub("#", found):
        return False
    pairs = zip(NUMBERS.findall(expected), NUMBERS.findall(found), strict=True)
    return all(near(float(one), float(other)) or math.isclose(float(one), float(other), abs_tol=WRITTEN) for one, other in pairs)


def described(
    missing: Sequence[int], expected: Sequence[ResultRow], extra: Sequence[ResultRow], likenesses: Sequence[Likeness]
) -> Mismatch:
    """The first missing row beside the row that is most like it."""
    if not missing:
        return Mismatch(None, extra[0], None)
    row = expected[missing[0]]
    if not extra:
        return Mismatch(row, None, missing[0])
    partner = min(extra, key=lambda other: len(differing(row, other, likenesses)))
    return Mismatch(row, partner, missing[0], differing(row, partner, likenesses))


def misplaced(
    expected: Sequence[ResultRow], found: Sequence[ResultRow], likenesses: Sequence[Likeness], ordered: Sequence[int]
) -> Mismatch | None:
    """The first row that does not come where ORDER BY puts it."""
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        columns = tuple(place for place in ordered if not same(one[place], other[place], likenesses[place]))
        if columns:
            return Mismatch(one, other, number, columns)
    return None
