"""Numbers as written."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final, TypeVar

from headrace.model.decimals import to_decimal

MAX_FLOAT_DIGITS: Final = 15
"""A number of at most this many digits is that of the float nearest to it."""
Number = TypeVar("Number", int, float, Decimal, int | float | Decimal)


def finite(text: str) -> float:
    """Return a number, or raise `ValueError` if it is not finite."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def exact(text: str) -> float | Decimal:
    """Return a number with all its digits: a float if it has them, else a Decimal. Raise `ValueError` if no float is near it."""
    value = finite(text)
    if len(text) <= MAX_FLOAT_DIGITS:
        return value
    number = to_decimal(text)
    return value if Decimal(repr(value)) == number else number


def negative(value: Number) -> Number:
    """Return minus a number with all its digits, which the context of decimals would limit."""
    return value.copy_negate() if isinstance(value, Decimal) else -value
