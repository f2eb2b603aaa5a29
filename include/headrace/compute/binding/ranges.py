"""The range of instants that WHERE lets through, derived from its conditions on the time column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment
from headrace.compute.nodes import NOW, Column, Node, bigint, both, call
from headrace.compute.terms import is_instant
from headrace.compute.types import from_ticks
from headrace.compute.window_plans import Bound
from headrace.errors import Error
from headrace.model.expressions import Call, ColumnRef, Expression, conjuncts, walk

MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class WhereCondition:
    """WHERE, and the first and last instant it lets through."""

    node: Node | None
    first: Bound | None
    last: Bound | None


def where_condition(node: Expression | None, conditions: Sequence[Node], row_binder: Binder, names: Environment) -> WhereCondition:
    """Bind a WHERE clause together with further conditions.

    Bounds on the time column test the stored column, so that files can be pruned.
    """
    parts = list(conditions)
    ends: dict[str, list[Bound]] = {">=": [], "<=": []}
    for part in conjuncts(node):
        bounds = located_bounds(part, row_binder, names)
        for sign, bound in bounds:
            ends[sign].append(bound)
            parts.append(bound_condition(sign, bound, names))
        if not bounds:
            parts.append(row_binder.condition(part))
    return WhereCondition(both(*parts) if parts else None, tightest(ends[">="], 1), tightest(ends["<="], -1))


def located_bounds(node: Expression, row_binder: Binder, names: Environment) -> list[tuple[str, Bound]]:
    """Call `time_bounds`, adding the position of the condition to its errors."""
    try:
        return time_bounds(node, row_binder, names)
    except Error as error:
        error.span = error.span or node.span
        raise


def time_bounds(node: Expression, row_binder: Binder, names: Environment) -> list[tuple[str, Bound]]:
    """Return a condition on the time column alone as inclusive bounds (`>=` or `<=`). Empty for any other condition."""
    match node:
        case Call(function="between", arguments=(subject, low, high)) if is_time(subject, names):
            low_bound, high_bound = constant_instant(low, row_binder), constant_instant(high, row_binder)
            return [(">=", low_bound), ("<=", high_bound)] if low_bound and high_bound else []
        case Call(function=sign, arguments=(left, right)) if sign in MIRRORED:
            if is_time(right, names) and not is_time(left, names):
                left, right, sign = right, left, MIRRORED[sign]
            end = constant_instant(right, row_binder) if is_time(left, names) else None
            return inclusive_bounds(sign, end) if end is not None else []
    return []


def inclusive_bounds(sign: str, end: Bound) -> list[tuple[str, Bound]]:
    """Return a comparison with an instant as inclusive bounds."""
    match sign:
        case "=":
            return [(">=", end), ("<=", end)]
        case "<":
            return [("<=", replace(end, ticks=end.ticks - 1))]
        case ">":
            return [(">=", replace(end, ticks=end.ticks + 1))]
        case _:
            return [(sign, end)]


def is_time(node: Expression, names: Environment) -> bool:
    """Return whether an expression is the time column."""
    if not isinstance(node, ColumnRef) or names.time is None:
        return False
    return node.name in (names.time.name, *names.language.pseudo_columns.row_time) and node.table in (None, names.time.qualifier)


def constant_instant(node: Expression, row_binder: Binder) -> Bound | None:
    """Bind a constant expression as an instant. None if it is not constant."""
    if any(isinstance(part, ColumnRef) for part in walk(node)):
        return None
    term = row_binder.bind(node)
    if term.constant is None or term.is_null:
        return None
    zone, precision = row_binder.expression_context.timezone, row_binder.expression_context.precision
    instant = term if is_instant(term) else row_binder.language.operators.instant(term, zone, precision)
    value = instant.constant.value if instant.constant else None
    if not isinstance(value, int) or instant.constant is None:
        return None
    return Bound(value, instant.constant.relative)


def bound_condition(sign: str, bound: Bound, names: Environment) -> Node:
    assert names.time is not None
    names.use(names.time)
    value = NOW + bigint(bound.ticks) if bound.relative else bigint(bound.ticks)
    if not names.time.is_converted:
        return call(sign, names.time.node, value)
    return call(sign, Column(names.time.column), from_ticks(value, names.precision))


def tightest(ends: list[Bound], sign: int) -> Bound | None:
    """Return the tightest bound, preferring fixed bounds over those relative to the present."""
    fixed = [end for end in ends if not end.relative] or ends
    return max(fixed, key=lambda end: sign * end.ticks, default=None)
