"""IoTDB's aggregates in DuckDB's SQL, over rows with the instant `_ts`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.model.expressions import Call, ColumnRef, Expression, Literal, transform, walk
from headrace.model.types import BIGINT, BOOL, DOUBLE, DataType
from headrace.verify.trees.scalars import FLOATS, NUMBERS, double
from headrace.verify.values import Value, unsupported

TIME: Final = "_ts"


@dataclass(frozen=True, slots=True)
class TreeAggregate:
    """An aggregate of the values of a group.

    Attributes:
        sql: Over the rows.
        type: The type of the result.
        final: The result from the aggregated column `{a}`.
    """

    sql: str
    type: DataType | None
    final: str = "{a}"


Rule = Callable[[Sequence[Value]], TreeAggregate]


def simple(template: str, type_: DataType) -> Rule:
    """Return the rule of an aggregate with a fixed type, of the value `{x}`."""
    return lambda values: TreeAggregate(template.format(x=values[0].sql, t=TIME), type_)


def numeric(template: str) -> Rule:
    """Return the rule of an aggregate of numbers as DOUBLE."""
    return lambda values: TreeAggregate(template.format(x=double(values[0])), DOUBLE)


def least_or_greatest(function: str) -> Rule:
    """Return the rule of `min` or `max`; NaN only if there is no number."""

    def rule(values: Sequence[Value]) -> TreeAggregate:
        (value,) = values
        if not value.is_kind(*FLOATS):
            return TreeAggregate(f"{function}({value.sql})", value.type)
        sql = f"coalesce({function}({value.sql}) FILTER (WHERE NOT isnan({value.sql})), {function}({value.sql}))"
        return TreeAggregate(sql, value.type)

    return rule


def extreme(values: Sequence[Value]) -> TreeAggregate:
    """Return the rule of the value farthest from 0, the positive one of two."""
    (value,) = values
    if not value.is_kind(*NUMBERS):
        raise unsupported(f"extreme of {value.type}")
    low, high = (least_or_greatest(function)(values).sql for function in ("min", "max"))
    return TreeAggregate(f"struct_pack(l := {low}, h := {high})", value.type, "CASE WHEN {a}.h >= -{a}.l THEN {a}.h ELSE {a}.l END")


def value_at(function: str) -> Rule:
    """Return the rule of the earliest (`arg_min`) or latest (`arg_max`) value."""
    return lambda values: TreeAggregate(
        f"{function}({values[0].sql}, {TIME}) FILTER (WHERE {values[0].sql} IS NOT NULL)", values[0].type
    )


def instant_at(function: str) -> str:
    """Return the template of the earliest (`min`) or latest (`max`) instant with a value."""
    return f"{function}({{t}}) FILTER (WHERE {{x}} IS NOT NULL)"


def value_by(function: str) -> Rule:
    """Return the rule of x in the row with the least or greatest y, the earliest of several."""
    order = "ASC" if function == "min" else "DESC"

    def rule(values: Sequence[Value]) -> TreeAggregate:
        x, y = values
        if y.is_kind(*FLOATS):
            raise unsupported(f"{function}_by a FLOAT or DOUBLE")
        listed = f"list({x.sql} ORDER BY {y.sql} {order}, {TIME}) FILTER (WHERE {y.sql} IS NOT NULL)"
        return TreeAggregate(listed, x.type, "{a}[1]")

    return rule


def mode(values: Sequence[Value]) -> TreeAggregate:
    """Return the rule of the most frequent value, of several the one that came first."""
    (value,) = values
    ordered = f"list({value.sql} ORDER BY {TIME}) FILTER (WHERE {value.sql} IS NOT NULL)"
    counted = "list_transform(list_distinct({a}), lambda v: [len(list_filter({a}, lambda w: w = v)), -list_position({a}, v)])"
    best = f"list_reverse_sort({counted})[1]"
    return TreeAggregate(ordered, value.type, f"{{a}}[-({best}[2])]")


AGGREGATES: Final[dict[str, Rule]] = {
    "count": simple("count({x})", BIGINT),
    "count_time": simple("count({t})", BIGINT),
    "sum": numeric("sum({x})"),
    "avg": numeric("avg({x})"),
    "stddev": numeric("stddev_samp({x})"),
    "stddev_samp": numeric("stddev_samp({x})"),
    "stddev_pop": numeric("stddev_pop({x})"),
    "variance": numeric("var_samp({x})"),
    "var_samp": numeric("var_samp({x})"),
    "var_pop": numeric("var_pop({x})"),
    "min_value": least_or_greatest("min"),
    "max_value": least_or_greatest("max"),
    "extreme": extreme,
    "first_value": value_at("arg_min"),
    "last_value": value_at("arg_max"),
    "min_time": simple(instant_at("min"), BIGINT),
    "max_time": simple(instant_at("max"), BIGINT),
    "time_duration": simple(f"{instant_at('max')} - {instant_at('min')}", BIGINT),
    "max_by": value_by("max"),
    "min_by": value_by("min"),
    "mode": mode,
}

COUNT_IF: Final = "count_if"
COUNTS: Final = frozenset({"count", COUNT_IF})
"""Aggregates that are 0 without values."""

NEED_UNIQUE_INSTANTS: Final = frozenset({"first_value", "last_value", "max_by", "min_by", "mode"})
"""Aggregates whose result is not defined if several series of a group have values at one instant."""


def is_aggregate(function: str) -> bool:
    """Return whether a function aggregates rows."""
    return function in AGGREGATES or function == COUNT_IF


def aggregate_calls(node: Expression) -> list[Call]:
    """Return the calls of aggregates in an expression."""
    return [part for part in walk(node) if isinstance(part, Call) and is_aggregate(part.function)]


def with_length(node: Expression) -> Expression:
    """Replace the second argument of each `count_if`, such as `KEEP >= 2` or `2`, by a text with operator and number."""

    def change(part: Expression) -> Expression | None:
        match part:
            case Call(
                function="count_if",
                arguments=(condition, Call(function=sign, arguments=(ColumnRef(), Literal(value=int(rows)))) as length),
            ):
                spelling = "!=" if sign == "<>" else sign
                keep = next(str(child.name) for child in length.arguments if isinstance(child, ColumnRef))
                return replace(part, arguments=(condition, Literal(f"{sign} {rows}", spelling=f"{keep} {spelling} {rows}")))
            case Call(function="count_if", arguments=(condition, Literal(value=int(rows)) as length)):
                return replace(
                    part, arguments=(condition, replace(length, value=f">= {rows}", spelling=length.spelling or str(rows)))
                )
        return None

    return transform(node, change)


def count_if(node: Call, values: Sequence[Value]) -> TreeAggregate:
    """Return the rule that counts the runs of true rows whose length meets a condition. NULL is passed over, or ends a run."""
    condition, length = values
    if condition.type != BOOL or not isinstance(length.constant, str):
        raise unsupported("count_if of this condition")
    is_skipped = dict(node.attributes).get("ignoreNull", "true").lower() == "true"
    letters = f"string_agg(CASE WHEN {condition.sql} THEN 't' ELSE 'f' END, '' ORDER BY {TIME})"
    sql = f"{letters} FILTER (WHERE {condition.sql} IS NOT NULL)" if is_skipped else letters
    runs = "list_filter(string_split_regex({a}, 'f+'), lambda r: r <> '' AND length(r) " + length.constant + ")"
    return TreeAggregate(sql, BIGINT, f"coalesce(len({runs}), 0)")
