"""The range of instants that WHERE lets through, read off its conditions on the time line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment
from headrace.compute.plan import Bound
from headrace.compute.terms import NOW, quote, same_instant, ticks
from headrace.compute.types import from_ticks
from headrace.errors import Error
from headrace.model.expressions import Call, ColumnRef, Expression, walk

MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class Condition:
    """WHERE as Spark SQL, and the instants it lets through."""

    sql: str | None
    first: Bound | None
    last: Bound | None


def condition(node: Expression | None, also: list[str], rows: Binder, names: Environment) -> Condition:
    """A WHERE clause and further conditions; bounds on the time line test the stored column, so that files can be skipped."""
    parts = list(also)
    ends: dict[str, list[Bound]] = {">=": [], "<=": []}
    for part in conjuncts(node):
        bounds = placed_bounds(part, rows, names)
        for sign, bound in bounds:
            ends[sign].append(bound)
            parts.append(tested(sign, bound, names))
        if not bounds:
            parts.append(rows.condition(part))
    return Condition(" AND ".join(parts) or None, tightest(ends[">="], 1), tightest(ends["<="], -1))


def conjuncts(node: Expression | None) -> Iterator[Expression]:
    """The parts of a condition that are joined by AND."""
    match node:
        case None:
            return
        case Call(function="and", arguments=arguments):
            for argument in arguments:
                yield from conjuncts(argument)
        case _:
            yield node


def placed_bounds(node: Expression, rows: Binder, names: Environment) -> list[tuple[str, Bound]]:
    """`time_bounds`, its errors carrying where the condition stands."""
    try:
        return time_bounds(node, rows, names)
    except Error as error:
        error.span = error.span or node.span
        raise


def time_bounds(node: Expression, rows: Binder, names: Environment) -> list[tuple[str, Bound]]:
    """A condition on the time line alone, as inclusive bounds (`>=` or `<=`); empty where it is something else."""
    match node:
        case Call(function="between", arguments=(subject, low, high)) if is_time(subject, names):
            least, most = constant_instant(low, rows), constant_instant(high, rows)
            return [(">=", least), ("<=", most)] if least and most else []
        case Call(function=sign, arguments=(left, right)) if sign in MIRRORED:
            if is_time(right, names) and not is_time(left, names):
                left, right, sign = right, left, MIRRORED[sign]
            end = constant_instant(right, rows) if is_time(left, names) else None
            return inclusive(sign, end) if end is not None else []
    return []


def inclusive(sign: str, end: Bound) -> list[tuple[str, Bound]]:
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
    if not isinstance(node, ColumnRef) or names.time is None:
        return False
    return node.name in (names.time.name, *names.language.pseudo_columns.row_time) and node.table in (None, names.time.qualifier)


def constant_instant(node: Expression, rows: Binder) -> Bound | None:
    """A constant as an instant; None where it is no constant."""
    if any(isinstance(part, ColumnRef) for part in walk(node)):
        return None
    term = rows.bind(node)
    if term.constant is None or term.is_null:
        return None
    zone, precision = rows.expression_context.timezone, rows.expression_context.precision
    moment = term if same_instant(term) else rows.language.operators.instant(term, zone, precision)
    value = moment.constant.value if moment.constant else None
    if not isinstance(value, int) or moment.constant is None:
        return None
    return Bound(value, moment.constant.relative)


def tested(sign: str, bound: Bound, names: Environment) -> str:
    assert names.time is not None
    names.use(names.time)
    value = f"({NOW} + {ticks(bound.ticks)})" if bound.relative else ticks(bound.ticks)
    if not names.time.converted:
        return f"{names.time.sql} {sign} {value}"
    return f"{quote(names.time.column)} {sign} {from_ticks(value, names.precision)}"


def tightest(ends: list[Bound], sign: int) -> Bound | None:
    """The tightest of several bounds; a fixed one before one relative to the present, where both are given."""
    fixed = [end for end in ends if not end.relative] or ends
    return max(fixed, key=lambda end: sign * end.ticks, default=None)
