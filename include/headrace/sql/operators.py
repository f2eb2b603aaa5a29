"""Operators as tables, which the parser and the renderer of a dialect both read."""

from __future__ import annotations

from typing import NamedTuple

OR, AND, NOT, PREDICATE, BITS, SUM, PRODUCT, SIGN, MEMBER = range(1, 10)
"""How tightly operators bind, loosest first. Predicates (comparisons, LIKE, IN, …) do not chain."""

FUNCTION_POWER = MEMBER + 1
"""What needs no brackets anywhere."""


class Operator(NamedTuple):
    """A function of the model written between its operands, and how tightly it binds."""

    function: str
    power: int
