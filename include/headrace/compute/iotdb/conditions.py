"""Conditions over paths. A path that matches no series is NULL in them; the resolvers given to these functions return that."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from headrace.compute.iotdb.aggregates import COUNTING, normalize_count_if
from headrace.compute.iotdb.expansion import TIME, Alternatives, expand
from headrace.compute.iotdb.types import type_error
from headrace.compute.language import Language
from headrace.model.expressions import Call, Cast, ColumnRef, Expression, Literal, conjuncts, transform, walk

COUNTS: Final = frozenset(("count", "count_if"))
"""Aggregates that are 0 without values."""
ORDERS: Final[Mapping[str, Callable[[bool, bool], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def expand_where(node: Expression | None, alternatives: Alternatives, *, by_device: bool = False) -> list[Expression]:
    """Expand WHERE to the conditions that all have to be true. Raise `TypeMismatchError` if it is only paths of no series.

    Rows by device are refused only if it is a single path, as the server takes a conjunction of several for a BOOLEAN there.
    """
    parts = [] if node is None else expand(node, alternatives)
    if any(is_only_null(part, by_device=by_device) for part in parts):
        raise type_error(
            "The output type of the expression in WHERE clause should be BOOLEAN, actual data type: null.",
            hint="compare series that exist",
        )
    return [transform(part, order_booleans) for part in parts]


def is_only_null(node: Expression, *, by_device: bool) -> bool:
    """Return whether a condition consists of paths of no series, of one for rows by device, beside those on time."""
    rest = [part for part in conjuncts(node) if ColumnRef(TIME) not in walk(part)]
    return (len(rest) == 1 if by_device else bool(rest)) and all(isinstance(part, Literal) and part.value is None for part in rest)


def order_booleans(node: Expression) -> Expression | None:
    """Write an order of BOOLEAN, such as `s > false`, as equalities. It is possible in WHERE, between series and constants."""
    match node:
        case Call(
            function="between" | "not between" as function, arguments=(subject, Literal(value=bool(low)), Literal(value=bool(high)))
        ):
            accepted = {value for value in (False, True) if (low <= value <= high) == (function == "between")}
            return one_of(subject, accepted, node)
        case Call(function=sign, arguments=(ColumnRef() as subject, Literal(value=bool(bound)))) if sign in ORDERS:
            return one_of(subject, {value for value in (False, True) if ORDERS[sign](value, bound)}, node)
        case Call(function=sign, arguments=(Literal(value=bool(bound)), ColumnRef() as subject)) if sign in ORDERS:
            return one_of(subject, {value for value in (False, True) if ORDERS[sign](bound, value)}, node)
    return None


def one_of(subject: Expression, values: set[bool], node: Call) -> Expression:
    """Return the condition that a BOOLEAN has one of some values; NULL stays NULL."""
    yes, no = (replace(node, function="=", arguments=(subject, Literal(value)), attributes=()) for value in (True, False))
    if len(values) == 1:
        return yes if True in values else no
    return replace(node, function="or" if values else "and", arguments=(yes, no), attributes=())


def expand_having(
    node: Expression | None, alternatives: Alternatives, language: Language, *, typed: bool = False
) -> list[Expression]:
    """Expand HAVING to the conditions that all have to be true. An aggregate of no series is NULL, or 0 if it counts.

    Args:
        node: The condition.
        alternatives: Resolves paths.
        language: Decides which functions aggregate.
        typed: Whether the rows are by device, so that an aggregate of no series has no type, and a count of none is NULL.

    Raises:
        TypeMismatchError: `typed` is set, and an aggregate of no series has a type that depends on the series.
    """

    def change(part: Expression) -> Expression | None:
        if isinstance(part, Call) and language.aggregate(part.function) and any(map(is_null, part.arguments)):
            return Literal(0 if part.function in COUNTS and not typed else None)
        return None

    parts = [] if node is None else expand(normalize_count_if(node), alternatives)
    for part in parts if typed else ():
        check_having_types(part, language)
    return [transform(part, change) for part in parts]


def check_having_types(node: Expression, language: Language) -> None:
    """Raise `TypeMismatchError` if HAVING has an aggregate of no series whose type is that of its first argument."""
    for part in walk(node):
        if not isinstance(part, Call) or part.function in COUNTING or not language.aggregate(part.function):
            continue
        if any(map(is_null, part.arguments[:1])):
            raise type_error(
                f"Invalid input expression data type. expression: {part.function}, actual data type: UNKNOWN.",
                hint="aggregate a measurement that one of the devices has",
            )


def empty_if_null(where: Expression | None, having: Expression | None) -> Expression | None:
    """Return HAVING; false if WHERE is never true, as the result has no rows then, not even that of no values."""
    return Literal(False) if where is not None and is_never_true(where) else having


def is_never_true(node: Expression) -> bool:
    """Return whether a condition is not true in any row, because it needs paths of no series.

    A path alone does not count in a conjunction: the server has a row of no values for `s1 > 0 AND missing`.
    """
    match node:
        case Call(function="and", arguments=arguments):
            return any(is_never_true(part) for part in arguments if not isinstance(part, Literal))
        case Call(function="or", arguments=arguments):
            return all(map(is_never_true, arguments))
    return is_null(node)


def is_null(node: Expression) -> bool:
    """Return whether a condition is NULL whatever the rows, because of paths of no series."""
    match node:
        case Literal(value=value):
            return value is None
        case Call(function="and" | "or", arguments=arguments):
            return all(map(is_null, arguments))
        case Call(function="is null" | "is not null"):
            return False
        case Call(arguments=arguments):
            return any(map(is_null, arguments))
        case Cast(operand=operand):
            return is_null(operand)
    return False
