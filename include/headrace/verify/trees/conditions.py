"""Conditions over paths: a path that matches no series is NULL."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.expressions import Call, Cast, ColumnRef, Expression, Literal, transform
from headrace.verify.trees.aggregates import COUNTS, is_aggregate
from headrace.verify.trees.expansion import NOTHING, Resolve, combinations, conjunction


def condition(node: Expression | None, resolvers: Sequence[Resolve]) -> Expression | None:
    """Return a condition on every series that its paths match."""
    return conjunction(conditions(node, resolvers))


def conditions(node: Expression | None, resolvers: Sequence[Resolve]) -> list[Expression]:
    """Return a condition once for each combination of the series that its paths match."""
    if node is None:
        return []
    return list(dict.fromkeys(as_null(part) for resolver in resolvers for part in combinations(node, or_nothing(resolver))))


def having_condition(node: Expression | None, resolve: Resolve) -> Expression | None:
    """Return HAVING on every series that its paths match; what counts the values of a missing one is 0."""
    if node is None:
        return None
    parts = combinations(node, or_nothing(resolve))
    return conjunction(list(dict.fromkeys(as_null(part, nothing_counted=0) for part in parts)))


def or_nothing(resolve: Resolve) -> Resolve:
    """Return a resolver with a name for a path that matches no series."""
    return lambda reference: resolve(reference) or [NOTHING]


def or_any(resolve: Resolve, others: Sequence[Resolve]) -> Resolve:
    """Return a resolver that asks others, in their order, for a path that matches no series."""

    def resolved(reference: ColumnRef) -> Sequence[str]:
        return next((names for names in (resolver(reference) for resolver in (resolve, *others)) if names), [])

    return resolved


def as_null(node: Expression, nothing_counted: int | None = None) -> Expression:
    """Replace what takes the place of missing series, and aggregates of them, by NULL; counts by `nothing_counted`."""

    def change(part: Expression) -> Expression | None:
        match part:
            case ColumnRef(name=name) if name == NOTHING:
                return Literal(None)
            case Call(function=function, arguments=arguments) if is_aggregate(function):
                if any(is_null(as_null(argument)) for argument in arguments):
                    return Literal(nothing_counted if function in COUNTS else None)
        return None

    return transform(node, change)


def excludes_all(node: Expression | None) -> bool:
    """Return whether a condition holds in no row, since it needs missing series: AND if one side does, OR if both do."""
    match node:
        case Call(function="and" | "&", arguments=arguments):
            return any(map(excludes_all, arguments))
        case Call(function="or" | "|", arguments=arguments):
            return all(map(excludes_all, arguments))
    return is_null(node)


def is_null(node: Expression | None) -> bool:
    """Return whether a condition is NULL whatever the rows: AND and OR if both sides are, other operators if one is."""
    match node:
        case Literal(value=value):
            return value is None
        case Call(function="and" | "or" | "&" | "|", arguments=arguments):
            return all(map(is_null, arguments))
        case Call(function="is null" | "is not null"):
            return False
        case Call(arguments=arguments):
            return any(map(is_null, arguments))
        case Cast(operand=operand):
            return is_null(operand)
    return False
