"""Operators as tables that the parser and the renderer of a dialect share."""

from __future__ import annotations

from typing import NamedTuple

OR, AND, NOT, PREDICATE, BITS, SUM, PRODUCT, SIGN, MEMBER = range(1, 10)
"""Precedences of operators, loosest first. Predicates (comparisons, LIKE, IN, …) do not chain."""

FUNCTION_POWER = MEMBER + 1
"""Precedence of what never needs parentheses."""


class Operator(NamedTuple):
    """The model function of a binary operator, and its precedence."""

    function: str
    power: int
