"""IoTDB's aggregates in DuckDB's SQL, over rows with the instant `_ts`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.model.expressions import Call, ColumnRef, Expression, Literal, transform, walk
from headrace.model.types import BIGINT, BOOL, DOUBLE, DataType
from headrace.verify.expressions import Arguments, Compiler
from headrace.verify.iotdb.conversions import NUMBERS, double
from headrace.verify.steps import TS
from headrace.verify.values import FLOATS, Value, unsupported


@dataclass(frozen=True, slots=True)
class _Aggregate:
    """An aggregate: its SQL over the rows of a group, its type, and the result from the aggregated column `{a}`."""

    sql: str
    type: DataType | None
    final: str = "{a}"


Rule = Callable[[Arguments], _Aggregate]


def compile_aggregate(compiler: Compiler, call: Call) -> _Aggregate:
    values = tuple(compiler.value(part) for part in call.arguments)
    if any(value.type is None for value in values):
        raise unsupported(f"{call.function} of NULL")
    return AGGREGATES[call.function](Arguments(compiler, call, values))


def _simple(template: str, type_: DataType) -> Rule:
    return lambda use: _Aggregate(template.format(x=use.values[0].sql, t=TS), type_)


def _numeric(template: str) -> Rule:
    return lambda use: _Aggregate(template.format(double(use.values[0])), DOUBLE)


def _least_or_greatest(function: str, value: Value) -> str:
    """Return `min` or `max`; NaN only if there is no number."""
    sql = f"{function}({value.sql})"
    return f"coalesce({sql} FILTER (WHERE NOT isnan({value.sql})), {sql})" if value.is_kind(*FLOATS) else sql


def _end_of_range(function: str) -> Rule:
    return lambda use: _Aggregate(_least_or_greatest(function, use.values[0]), use.values[0].type)


def _extreme(use: Arguments) -> _Aggregate:
    """Return the value farthest from 0, the positive one of two."""
    (value,) = use.values
    if not value.is_kind(*NUMBERS):
        raise unsupported(f"extreme of {value.type}")
    low, high = (_least_or_greatest(function, value) for function in ("min", "max"))
    if value.type is not None and value.type.is_integer:
        # The least integer has no opposite in its type, and is never chosen.
        least, _ = value.type.integer_range()
        choice = f"CASE WHEN {{a}}.l = {least} OR {{a}}.h >= -CAST({{a}}.l AS HUGEINT) THEN {{a}}.h ELSE {{a}}.l END"
        return _Aggregate(f"struct_pack(l := {low}, h := {high})", value.type, choice)
    return _Aggregate(f"struct_pack(l := {low}, h := {high})", value.type, "CASE WHEN {a}.h >= -{a}.l THEN {a}.h ELSE {a}.l END")


def _value_at(function: str) -> Rule:
    template = f"{function}({{x}}, {{t}}) FILTER (WHERE {{x}} IS NOT NULL)"
    return lambda use: _Aggregate(template.format(x=use.values[0].sql, t=TS), use.values[0].type)


def _value_by(order: str) -> Rule:
    """Return the rule of x in the row with the least or greatest y, the earliest of several."""

    def rule(use: Arguments) -> _Aggregate:
        x, y = use.values
        if y.is_kind(*FLOATS):
            raise unsupported(f"{use.call.function} a FLOAT or DOUBLE")
        listed = f"list({x.sql} ORDER BY {y.sql} {order}, {TS}) FILTER (WHERE {y.sql} IS NOT NULL)"
        return _Aggregate(listed, x.type, "{a}[1]")

    return rule


def _mode(use: Arguments) -> _Aggregate:
    """Return the most frequent value, of several the one that came first."""
    (value,) = use.values
    ordered = f"list({value.sql} ORDER BY {TS}) FILTER (WHERE {value.sql} IS NOT NULL)"
    counted = "list_transform(list_distinct({a}), lambda v: [len(list_filter({a}, lambda w: w = v)), -list_position({a}, v)])"
    return _Aggregate(ordered, value.type, f"{{a}}[-(list_reverse_sort({counted})[1][2])]")


def _count_if(use: Arguments) -> _Aggregate:
    """Count the runs of true rows whose length meets a condition. NULL is passed over, or ends a run."""
    condition, length = use.values
    if condition.type != BOOL or not isinstance(length.constant, str):
        raise unsupported("count_if of this condition")
    is_skipped = use.attributes.get("ignoreNull", "true").lower() == "true"
    letters = f"string_agg(CASE WHEN {condition.sql} THEN 't' ELSE 'f' END, '' ORDER BY {TS})"
    sql = f"{letters} FILTER (WHERE {condition.sql} IS NOT NULL)" if is_skipped else letters
    runs = "list_filter(string_split_regex({a}, 'f+'), lambda r: r <> '' AND length(r) " + length.constant + ")"
    return _Aggregate(sql, BIGINT, f"coalesce(len({runs}), 0)")


_MIN_TIME, _MAX_TIME = (f"{function}({{t}}) FILTER (WHERE {{x}} IS NOT NULL)" for function in ("min", "max"))
AGGREGATES: Final[dict[str, Rule]] = {
    **{name: _numeric(f"{name}({{}})") for name in ("sum", "avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop")},
    "stddev": _numeric("stddev_samp({})"),
    "variance": _numeric("var_samp({})"),
    "count": _simple("count({x})", BIGINT),
    "count_time": _simple("count({t})", BIGINT),
    "count_if": _count_if,
    "min_value": _end_of_range("min"),
    "max_value": _end_of_range("max"),
    "extreme": _extreme,
    "first_value": _value_at("arg_min"),
    "last_value": _value_at("arg_max"),
    "min_time": _simple(_MIN_TIME, BIGINT),
    "max_time": _simple(_MAX_TIME, BIGINT),
    "time_duration": _simple(f"{_MAX_TIME} - {_MIN_TIME}", BIGINT),
    "max_by": _value_by("DESC"),
    "min_by": _value_by("ASC"),
    "mode": _mode,
}
COUNTS: Final = frozenset({"count", "count_if"})
"""Aggregates that are 0 without values."""
NEED_UNIQUE_INSTANTS: Final = frozenset({"first_value", "last_value", "max_by", "min_by", "mode"})
"""Aggregates whose result is not defined if several series of a group have values at one instant."""


def aggregate_calls(*nodes: Expression) -> list[Call]:
    """Return the calls of aggregates in expressions."""
    return [part for node in nodes for part in walk(node) if isinstance(part, Call) and part.function in AGGREGATES]


def aggregated_values(nodes: Sequence[Expression]) -> list[Expression]:
    arguments = [part for call in aggregate_calls(*nodes) for part in call.arguments]
    return [part for part in arguments if not isinstance(part, Literal)]


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
                written = replace(length, value=f">= {rows}", spelling=length.spelling or str(rows))
                return replace(part, arguments=(condition, written))
        return None

    return transform(node, change)
