"""IoTDB's aggregate functions in one table, as `headrace.compute.functions.aggregates` declares them.

`min_value`, `max_value`, `extreme`, `max_by` and `min_by` ignore NaN unless there is no other value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from headrace.compute.columnar import lists
from headrace.compute.functions.aggregates import (
    ORDER,
    AggregateArguments,
    AggregateFunction,
    AggregateRule,
    PartialRule,
    StreamUse,
    T,
    X,
    Y,
    list_partial,
    selected_row_partials,
    simple_partial,
)
from headrace.compute.iotdb.types import EVERY, EXECUTION_ERROR, FLOATING, NUMERIC, SEMANTIC_ERROR, type_error, type_list, type_name
from headrace.compute.nodes import FALSE, NULL, TRUE, bigint, call, either, if_, negated, spark_sql, string
from headrace.compute.tdengine.aggregates import (
    POPULATION,
    SAMPLE,
    H,
    L,
    M,
    N,
    S,
    V,
    count_partial,
    moments,
    or_zero,
    per_value,
    sum_partial,
)
from headrace.compute.types import spark_type
from headrace.model.expressions import Call, ColumnRef, Expression, Literal, transform
from headrace.model.types import BIGINT, DOUBLE, TypeKind

NUMBERS: Final = frozenset(NUMERIC)
COMPARED: Final = frozenset((*NUMERIC, TypeKind.NCHAR, TypeKind.DATE, TypeKind.TIMESTAMP))
COUNTED_AS_MODE: Final = frozenset((*NUMERIC, TypeKind.BOOL, TypeKind.VARCHAR))
COUNTING: Final = frozenset(("count", "min_time", "max_time", "time_duration"))
"""Functions that only need to know whether their argument has a value."""
PRESENT: Final = if_(X.is_null(), NULL, ORDER)
INSTANT: Final = if_(X.is_null(), NULL, T)
KEEP_CONDITION: Final = re.compile(r"\s*(?:keep\s*)?(>=|<=|<>|!=|==|=|>|<)\s*(-?\d+)\s*", re.IGNORECASE)

NUMERIC_ONLY: Final = (
    "Aggregate functions [AVG, SUM, EXTREME, STDDEV, STDDEV_POP, STDDEV_SAMP, VARIANCE, VAR_POP, VAR_SAMP] "
    "only support numeric data types [INT32, INT64, FLOAT, DOUBLE]"
)
COMPARED_ONLY: Final = (
    "Aggregate functions [MIN_VALUE, MAX_VALUE] only support data types [INT32, INT64, FLOAT, DOUBLE, STRING, DATE, TIMESTAMP]"
)


@dataclass(frozen=True, slots=True)
class TreeAggregate(AggregateFunction):
    """An aggregate that refuses arguments with the server's messages."""

    message: str = ""
    status: int = SEMANTIC_ERROR

    def check_count(self, count: int) -> None:
        """Raise `TypeMismatchError` for a wrong number of arguments."""
        if not self.min_arguments <= count <= self.max_arguments:
            raise type_error(
                f"Error size of input expressions. expression: {self.name}, actual size: {count}, "
                f"expected size: [{self.min_arguments}].",
                hint=f"give {self.name} {self.min_arguments} argument{'' if self.min_arguments == 1 else 's'}",
            )

    def make_rule(self, arguments: AggregateArguments) -> AggregateRule:
        """Return the rule for these arguments. Raise `TypeMismatchError` for a wrong type of the first."""
        if arguments.type.kind not in self.accepts:
            hint = (
                f"{self.name} takes {type_list(kind for kind in TypeKind if kind in self.accepts)}, not {type_name(arguments.type)}"
            )
            message = self.message or f"Unsupported data type {type_name(arguments.type)} for function {self.name}."
            raise type_error(message, hint, self.status)
        return self.rule(arguments)


def total(_: AggregateArguments) -> AggregateRule:
    """Return the rule of the sum, which is DOUBLE for every type."""
    return AggregateRule(DOUBLE, (sum_partial("s", X.cast("double"), "double"),), S)


def average(_: AggregateArguments) -> AggregateRule:
    """Return the rule of the mean, NULL without values."""
    return AggregateRule(DOUBLE, (sum_partial("s", X.cast("double"), "double"), count_partial()), per_value(S))


def count(_: AggregateArguments) -> AggregateRule:
    """Return the rule of the number of values, 0 without values."""
    return AggregateRule(BIGINT, (count_partial(),), or_zero(N))


def least(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of the least value. Spark orders NaN last, so it wins only if there is no number."""
    return AggregateRule(arguments.type, (simple_partial("m", "min", X),), M)


def greatest_partial(arguments: AggregateArguments) -> PartialRule:
    """Return the partial of the greatest value; for FLOAT and DOUBLE, the least negated value, so that NaN sorts last."""
    return simple_partial("h", "min", -X) if arguments.type.kind in FLOATING else simple_partial("h", "max", X)


def greatest(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of the greatest value. NaN wins only if there is no number."""
    return AggregateRule(arguments.type, (greatest_partial(arguments),), -H if arguments.type.kind in FLOATING else H)


def extreme(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of the value farthest from 0; of two, the positive one. As in Java, the least integer is never farthest."""
    is_floating = arguments.type.kind in FLOATING
    high = -H if is_floating else H
    is_high = call("abs", high.cast("double")) >= call("abs", L.cast("double"))
    if not is_floating:
        is_high = either(L.equals(bigint(arguments.type.integer_range()[0])), is_high)
    return AggregateRule(arguments.type, (greatest_partial(arguments), simple_partial("l", "min", X)), if_(is_high, high, L))


def value_at(function: str) -> Callable[[AggregateArguments], AggregateRule]:
    return lambda arguments: AggregateRule(arguments.type, selected_row_partials(function, PRESENT, X), V)


def ranked_value_at(function: str) -> TreeAggregate:
    """Return the aggregate of the earliest (`min`) or latest (`max`) value; of several at one instant, that of the least rank."""
    order = if_(X.is_null(), NULL, call("struct", T, -Y if function == "max" else Y))

    def rule(arguments: AggregateArguments) -> AggregateRule:
        return AggregateRule(arguments.type, selected_row_partials(function, order, X), V)

    return TreeAggregate("first_value" if function == "min" else "last_value", EVERY, rule, "", 2, 2, columns=2)


def instant_at(function: str) -> Callable[[AggregateArguments], AggregateRule]:
    """Return the maker of the rule of the instant of the earliest or latest value."""
    return lambda _: AggregateRule(BIGINT, (simple_partial("m", function, INSTANT),), M)


def time_duration(_: AggregateArguments) -> AggregateRule:
    """Return the rule of the ticks from the earliest to the latest value."""
    return AggregateRule(BIGINT, (simple_partial("h", "max", INSTANT), simple_partial("l", "min", INSTANT)), H - L)


def value_by(function: str) -> Callable[[AggregateArguments], AggregateRule]:
    """Return the maker of the rule of x in the row with the least or greatest y, the earliest of several. x may be NULL there."""
    tie = -T if function == "max" else T

    def rule(arguments: AggregateArguments) -> AggregateRule:
        key = arguments.types[1]
        if key.kind not in COMPARED:
            hint = f"{arguments.function} compares {type_list(kind for kind in TypeKind if kind in COMPARED)}"
            raise type_error(f"Unsupported dataType: Unsupported data type in MaxBy/MinBy: {type_name(key)}", hint=hint, status=301)
        is_nan = call("isnan", Y)
        numbers = (string("n"), negated(is_nan) if function == "max" else is_nan) if key.kind in FLOATING else ()
        # The fields have names of their own: Spark would take those of the columns.
        order = if_(Y.is_null(), NULL, call("named_struct", *numbers, string("y"), Y, string("t"), tie))
        return AggregateRule(arguments.types[0], selected_row_partials(function, order, X), V)

    return rule


def mode(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of the most frequent value; of several, the first to appear."""
    type_ = spark_type(arguments.type)
    start = f"named_struct('v', CAST(NULL AS {type_}), 'n', 0, 't', 0L, 'bv', CAST(NULL AS {type_}), 'bn', 0, 'bt', 0L)"
    same = "(e.v <=> a.v AND a.n > 0)"
    run = f"named_struct('v', e.v, 'n', if({same}, a.n + 1, 1), 't', if({same}, a.t, e.t), 'bv', a.bv, 'bn', a.bn, 'bt', a.bt)"
    better = "(r.n > r.bn OR (r.n = r.bn AND r.t < r.bt))"
    best = (
        f"named_struct('v', r.v, 'n', r.n, 't', r.t, 'bv', if({better}, r.v, r.bv), "
        f"'bn', if({better}, r.n, r.bn), 'bt', if({better}, r.t, r.bt))"
    )
    step = f"element_at(transform(array({run}), r -> {best}), 1)"
    text = "aggregate(array_sort({}), {}, (a, e) -> {}, a -> a.bv)"
    value = replace(spark_sql(text, L, start, step), inputs=(L,), apply=lists.first_most_frequent)
    rows = list_partial(call("named_struct", string("v"), X, string("t"), T), X.is_not_null())
    return AggregateRule(arguments.type, (rows,), value)


def count_if(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule that counts runs of true rows whose length meets KEEP. NULL is skipped, or ends a run."""
    ignored = arguments.attribute("ignoreNull", "true").lower() == "true"
    ends = f"if(a.n > 0 AND a.n {length_condition(arguments)}, 1L, 0L)"
    step = f"if(e.v, named_struct('n', a.n + 1, 'c', a.c), named_struct('n', 0, 'c', a.c + {ends}))"
    text = "aggregate(array_sort({}), named_struct('n', 0, 'c', 0L), (a, e) -> {}, a -> a.c + {})"
    sign, length = length_condition(arguments).split()
    value = replace(spark_sql(text, L, step, ends), inputs=(L,), apply=lists.run_counts(sign, int(length)))
    row = call("named_struct", string("t"), T, string("v"), call("coalesce", X, FALSE))
    return AggregateRule(BIGINT, (list_partial(row, X.is_not_null() if ignored else TRUE),), or_zero(value))


def normalize_count_if(node: Expression) -> Expression:
    """Make the length in `count_if(x, KEEP >= 2)` a constant, since `KEEP` is not a path. Apply this before resolving paths."""

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Call) or part.function != "count_if" or len(part.arguments) != 2:
            return None
        condition, length = part.arguments
        return replace(part, arguments=(normalize_count_if(condition), constant_length(length)))

    return transform(node, change)


def constant_length(node: Expression) -> Expression:
    """Convert `KEEP >= 2` to a text constant; return anything else unchanged."""
    match node:
        case Call(function=sign, arguments=(ColumnRef(name=name), Literal(value=rows)), span=span) if name.lower() == "keep":
            return Literal(f"KEEP {sign} {rows!s}", span, f"{name} {'!=' if sign == '<>' else sign} {rows!s}")
        case _:
            return node


def length_condition(arguments: AggregateArguments) -> str:
    """Return the condition on the length of a run, such as `>= 3`; a number alone is a minimum."""
    value = arguments.constants[0]
    if isinstance(value, int) and not isinstance(value, bool):
        return f">= {value}"
    match = KEEP_CONDITION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise type_error(f"For input string: {value!r}", hint="write a number of rows, or KEEP >= 2", status=301)
    sign = {"!=": "<>", "==": "="}.get(match[1], match[1])
    return f"{sign} {match[2]}"


def numeric(name: str, rule: Callable[[AggregateArguments], AggregateRule], summary: str) -> TreeAggregate:
    return TreeAggregate(name, NUMBERS, rule, summary, message=NUMERIC_ONLY)


RANKED: Final = {function.name: function for function in (ranked_value_at("min"), ranked_value_at("max"))}
"""Aggregates of the values of several series and the ranks of these series, instead of those of one series."""
DEVIATION: Final = moments(call("sqrt", SAMPLE))
VARIANCE: Final = moments(SAMPLE)
BOOLEANS: Final = frozenset({TypeKind.BOOL})

TABLE: Final = (
    TreeAggregate("count", EVERY, count, "values that are not NULL; 0 if there are none"),
    TreeAggregate("count_time", EVERY, count, "rows, with `count_time(*)`"),
    TreeAggregate(
        "count_if",
        BOOLEANS,
        count_if,
        "runs of rows in which x is true, of at least y rows or as `KEEP >= y` says; `ignoreNull=false` lets NULL end a run",
        2,
        2,
        StreamUse.NONE,
        bounded=False,
        message="Input series of Aggregation function [count_if] only supports data type [BOOLEAN]",
    ),
    numeric("sum", total, "sum, as DOUBLE"),
    numeric("avg", average, "arithmetic mean"),
    numeric("extreme", extreme, "value farthest from 0, the positive one of two"),
    numeric("stddev", DEVIATION, "standard deviation of a sample, NULL of one value"),
    numeric("stddev_samp", DEVIATION, "standard deviation of a sample, NULL of one value"),
    numeric("stddev_pop", moments(call("sqrt", POPULATION)), "standard deviation of the population, 0 of one value"),
    numeric("variance", VARIANCE, "variance of a sample, NULL of one value"),
    numeric("var_samp", VARIANCE, "variance of a sample, NULL of one value"),
    numeric("var_pop", moments(POPULATION), "variance of the population, 0 of one value"),
    TreeAggregate("min_value", COMPARED, least, "least value", message=COMPARED_ONLY),
    TreeAggregate("max_value", COMPARED, greatest, "greatest value", message=COMPARED_ONLY),
    TreeAggregate("first_value", EVERY, value_at("min"), "earliest value"),
    TreeAggregate("last_value", EVERY, value_at("max"), "latest value"),
    TreeAggregate("min_time", EVERY, instant_at("min"), "timestamp of the earliest value"),
    TreeAggregate("max_time", EVERY, instant_at("max"), "timestamp of the latest value"),
    TreeAggregate("time_duration", EVERY, time_duration, "time from the earliest to the latest value"),
    TreeAggregate(
        "mode",
        COUNTED_AS_MODE,
        mode,
        "most frequent value, of several the one that came first",
        bounded=False,
        streams=StreamUse.NONE,
        status=EXECUTION_ERROR,
    ),
    TreeAggregate("max_by", EVERY, value_by("max"), "x where y is greatest, the earliest of several", 2, 2, columns=2),
    TreeAggregate("min_by", EVERY, value_by("min"), "x where y is least, the earliest of several", 2, 2, columns=2),
)
