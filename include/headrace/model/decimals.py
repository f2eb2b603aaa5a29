"""Texts of decimal numbers."""

from __future__ import annotations

from decimal import Decimal


def to_decimal(text: str) -> Decimal:
    """Return a number with all its digits, but 0 for one next to 0, and an infinity for one beyond all types.

    The digits of an exponent cost nothing to write, but a `Decimal` may fail for them, and arithmetic may take minutes.
    """
    near = float(text)
    return Decimal(text) if near and abs(near) != float("inf") else Decimal(near)
