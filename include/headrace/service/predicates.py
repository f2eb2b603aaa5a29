"""The WHERE of a DELETE as conditions on subtables and ranges of time.

It may name only the timestamp, tags and the series key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.errors import NotFoundError, NotSupportedError, TypeMismatchError
from headrace.model.expressions import Call, Cast, ColumnRef, DurationLiteral, Expression, Literal, columns_of, conjuncts
from headrace.model.instants import add_months, midnight, parse_instant
from headrace.model.tables import Database, Table

Range = tuple[int, int]
"""Instants in ticks, both ends inclusive."""

FIRST: Final = -(2**63)
LAST: Final = 2**63 - 1
ALWAYS: Final[tuple[Range, ...]] = ((FIRST, LAST),)
MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


def split_conditions(where: Expression | None, table: Table) -> tuple[list[Expression], list[Expression]]:
    """Split WHERE into conditions on time and conditions on tags and the series key.

    Raises:
        NotSupportedError: A condition names another column, or mixes the timestamp with tags.
        NotFoundError: A column does not exist.
    """
    times: list[Expression] = []
    groups: list[Expression] = []
    for condition in conjuncts(where):
        names = columns_of(condition)
        for reference in names:
            check_column(reference, table)
        is_timestamp = {reference.name == table.timestamp.name for reference in names}
        if is_timestamp == {True, False}:
            raise NotSupportedError(
                "a condition of DELETE cannot mix the timestamp with tags",
                hint="join conditions on them with AND",
                span=condition.span,
            )
        (times if True in is_timestamp else groups).append(condition)
    return times, groups


def check_column(reference: ColumnRef, table: Table) -> None:
    """Raise an error unless DELETE may refer to the column."""
    name = reference.name
    if name in (table.timestamp.name, table.series_key) or table.is_tag(name):
        return
    if table.column(name) is not None:
        raise NotSupportedError(
            f"DELETE chooses rows by {table.timestamp.name}, tags and {table.series_key}, not by {name}",
            hint=f"delete by {table.timestamp.name}, or write the rows again",
            span=reference.span,
        )
    raise NotFoundError(f"{table.name} has no column or tag {name}", hint=f"DESCRIBE {table.name}", span=reference.span)


class TimeRangeCompiler:
    """Compiles conditions on the timestamp to ranges of ticks."""

    def __init__(self, database: Database, now: int) -> None:
        self.database = database
        self.now = now * 1_000_000 // database.precision.nanoseconds
        self.today = midnight(now, database.timezone) * 1_000_000 // database.precision.nanoseconds

    def ranges(self, conditions: Sequence[Expression]) -> tuple[Range, ...]:
        """Return the ranges in which all conditions hold, ascending and disjoint."""
        ranges = ALWAYS
        for condition in conditions:
            ranges = intersect(ranges, self.range(condition))
        return ranges

    def range(self, node: Expression) -> tuple[Range, ...]:
        """Return the ranges in which one condition holds."""
        match node:
            case Call(function="and", arguments=(left, right)):
                return intersect(self.range(left), self.range(right))
            case Call(function="or", arguments=(left, right)):
                return unite(self.range(left), self.range(right))
            case Call(function="not", arguments=(inner,)):
                return complement(self.range(inner))
            case Call(function="between" | "not between" as name, arguments=(ColumnRef(), low, high)):
                inside = ((self.tick(low), self.tick(high)),)
                return inside if name == "between" else complement(inside)
            case Call(function="in" | "not in" as name, arguments=(ColumnRef(), *values)):
                points = unite((), tuple((self.tick(value), self.tick(value)) for value in values))
                return points if name == "in" else complement(points)
            case Call(function=sign, arguments=(ColumnRef(), value)) if sign in MIRRORED:
                return compare_ranges(sign, self.tick(value))
            case Call(function=sign, arguments=(value, ColumnRef())) if sign in MIRRORED:
                return compare_ranges(MIRRORED[sign], self.tick(value))
        raise NotSupportedError(
            "DELETE does not support this condition on the timestamp", hint="compare it with constants", span=node.span
        )

    def tick(self, node: Expression) -> int:
        """Evaluate a constant instant, in ticks."""
        match node:
            case Literal(value=int(value)) if not isinstance(value, bool):
                return value
            case Literal(value=str(text)):
                instant = parse_instant(text, self.database.timezone, self.database.precision)
                if instant is not None:
                    return instant
            case Cast(operand=inner):
                return self.tick(inner)
            case Call(function="now", arguments=()):
                return self.now
            case Call(function="today", arguments=()):
                return self.today
            case Call(function="+" | "-" as sign, arguments=(left, right)):
                return self.shifted(self.tick(left), 1 if sign == "+" else -1, right)
            case Call(function="unary-", arguments=(inner,)):
                return -self.tick(inner)
        raise TypeMismatchError(
            "a timestamp is expected here", hint="'2024-05-01 12:00:00', an epoch number, or now - 1h", span=node.span
        )

    def shifted(self, tick: int, sign: int, node: Expression) -> int:
        """Return an instant moved by a constant duration or number of ticks."""
        match node:
            case DurationLiteral(value=duration) if duration.is_calendar:
                return add_months(tick, sign * duration.months, self.database.timezone, self.database.precision)
            case DurationLiteral(value=duration):
                return tick + sign * duration.ticks(self.database.precision)
        return tick + sign * self.tick(node)


def compare_ranges(sign: str, tick: int) -> tuple[Range, ...]:
    match sign:
        case "<":
            return ((FIRST, tick - 1),)
        case "<=":
            return ((FIRST, tick),)
        case ">":
            return ((tick + 1, LAST),)
        case ">=":
            return ((tick, LAST),)
        case "=":
            return ((tick, tick),)
        case _:
            return complement(((tick, tick),))


def intersect(left: Sequence[Range], right: Sequence[Range]) -> tuple[Range, ...]:
    overlaps = ((max(a, c), min(b, d)) for a, b in left for c, d in right)
    return tuple(sorted((first, last) for first, last in overlaps if first <= last))


def unite(left: Sequence[Range], right: Sequence[Range]) -> tuple[Range, ...]:
    """Unite two sets of ranges, merging those that overlap or touch."""
    merged: list[Range] = []
    for first, last in sorted((*left, *right)):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        elif first <= last:
            merged.append((first, last))
    return tuple(merged)


def complement(ranges: Sequence[Range]) -> tuple[Range, ...]:
    remaining: tuple[Range, ...] = ALWAYS
    for first, last in ranges:
        outside = (*(((FIRST, first - 1),) if first > FIRST else ()), *(((last + 1, LAST),) if last < LAST else ()))
        remaining = intersect(remaining, outside)
    return remaining
