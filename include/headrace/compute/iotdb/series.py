"""IoTDB's functions of a point and its neighbors in time, as window expressions.

The rows are those of all series of a query, so that NULL is no point here: it is passed over, and a result that is NULL is no
point of the result, except for `diff`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.compute.functions.aggregates import AggregateArguments
from headrace.compute.functions.series import SeriesFunction, SeriesRule
from headrace.compute.iotdb.scalars import ANY_KIND
from headrace.compute.iotdb.types import FLOATING, NUMERIC, Attributes, check_inputs, type_error
from headrace.compute.types import spark_type
from headrace.compute.windows.numbering import BEFORE_CURRENT_ROW, THROUGH_CURRENT_ROW
from headrace.model.types import BIGINT, DOUBLE, TypeKind

MAX_INT64: Final = 2**63 - 1
COUNTABLE: Final = (*NUMERIC, TypeKind.BOOL)
COMPARABLE: Final = (*COUNTABLE, TypeKind.VARCHAR, TypeKind.NCHAR, TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.VARBINARY)
PREVIOUS: Final = f"last({{x}}, true) OVER ({{over}} {BEFORE_CURRENT_ROW})"
PREVIOUS_TIME: Final = f"last(if({{x}} IS NULL, NULL, {{t}}), true) OVER ({{over}} {BEFORE_CURRENT_ROW})"


@dataclass(frozen=True, slots=True)
class PointFunction(SeriesFunction):
    """A time-series function of a point and its neighbors; `kinds` lists the types it accepts, in the server's order."""

    kinds: tuple[TypeKind, ...] = NUMERIC

    def check_count(self, count: int) -> None:
        """Raise `TypeMismatchError` unless there is exactly one input."""
        check_inputs(self.name, [None] * count, self.kinds, 1, 1)

    def make_rule(self, arguments: AggregateArguments) -> SeriesRule:
        """Return the rule for these arguments. Raise `TypeMismatchError` if they do not fit."""
        check_inputs(self.name, [arguments.type], self.kinds, 1, 1)
        return self.rule(arguments)


def difference(wrap: str) -> Callable[[AggregateArguments], SeriesRule]:
    """Return the maker of the rule of the difference from the point before, in the input's type; `wrap` is `abs` or empty."""

    def rule(arguments: AggregateArguments) -> SeriesRule:
        change = f"({{x}} - {PREVIOUS})" if arguments.type.kind in FLOATING else f"try_subtract({{x}}, {PREVIOUS})"
        return SeriesRule(arguments.type, f"{wrap}({change})", sparse=True)

    return rule


def time_difference(_: AggregateArguments) -> SeriesRule:
    """Return the rule of the ticks since the point before."""
    return SeriesRule(BIGINT, f"if({{x}} IS NULL, NULL, {{t}} - {PREVIOUS_TIME})", sparse=True)


def derivative(wrap: str) -> Callable[[AggregateArguments], SeriesRule]:
    """Return the maker of the rule of the change per tick since the point before. FLOAT values are subtracted as FLOAT."""

    def rule(arguments: AggregateArguments) -> SeriesRule:
        type_ = "FLOAT" if arguments.type.kind is TypeKind.FLOAT else "DOUBLE"
        change = f"CAST(CAST({{x}} AS {type_}) - CAST({PREVIOUS} AS {type_}) AS DOUBLE)"
        value = f"{wrap}({change} / nullif(CAST({{t}} - {PREVIOUS_TIME} AS DOUBLE), 0D))"
        return SeriesRule(DOUBLE, value, sparse=True)

    return rule


def change_points(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule that selects points that differ from the one before. NaN differs from everything."""
    differs = "{first} IS NULL OR {x} <> {first}" + (" OR isnan({x})" if arguments.type.kind in FLOATING else "")
    return SeriesRule(arguments.type, f"if({{x}} IS NOT NULL AND ({differs}), {{x}}, NULL)", PREVIOUS, sparse=True)


def diff(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of the difference from the row before or, ignoring NULL, from the last value before."""
    if arguments.type.kind not in NUMERIC:
        message = "Input series of Scalar function [DIFF] only supports numeric data types [INT32, INT64, FLOAT, DOUBLE]"
        raise type_error(message, hint="cast it, as in diff(CAST(x AS DOUBLE))")
    ignored = arguments.attribute("ignoreNull", "true").lower() == "true"
    before = PREVIOUS if ignored else "lag({x}) OVER ({over})"
    return SeriesRule(DOUBLE, f"(CAST({{x}} AS DOUBLE) - CAST({before} AS DOUBLE))")


def runs(value: str, min_arguments: int, *, zero: bool) -> Callable[[AggregateArguments], SeriesRule]:
    """Return the maker of the rule of a value at the first point of each run of zeros, or of non-zeros.

    `value` is an aggregate over the run; runs for which it is below `min` or above `max` are left out.
    """

    def rule(arguments: AggregateArguments) -> SeriesRule:
        attributes = Attributes(arguments.attributes)
        low, high = attributes.integer("min", min_arguments), attributes.integer("max", MAX_INT64)
        if high < low:
            raise type_error("max can not be smaller than min.", hint="exchange them")
        if low < min_arguments:
            raise type_error(f"min can not be smaller than {min_arguments}.", hint=f"use {min_arguments} or more, or leave it out")
        is_zero = "NOT {x}" if arguments.type.kind is TypeKind.BOOL else f"{{x}} = CAST(0 AS {spark_type(arguments.type)})"
        member = f"({is_zero})" if zero else f"NOT ({is_zero})"
        instants = f"if({member}, {{t}}, NULL)"
        over = "OVER (PARTITION BY {keys}, {first})"
        run = value.format(instants=instants, over=over)
        first = f"{{t}} = min({instants}) {over}"
        number = f"count(if({member}, NULL, {{x}})) OVER ({{over}} {THROUGH_CURRENT_ROW})"
        value_sql = f"if({member} AND {first} AND {run} BETWEEN {low}L AND {high}L, {run}, NULL)"
        return SeriesRule(BIGINT, value_sql, number, sparse=True)

    return rule


COUNT: Final = "count({instants}) {over}"
DURATION: Final = "(max({instants}) {over} - min({instants}) {over})"


def point_function(
    name: str, rule: Callable[[AggregateArguments], SeriesRule], summary: str, kinds: tuple[TypeKind, ...] = NUMERIC
) -> PointFunction:
    return PointFunction(name, frozenset(kinds), rule, summary, kinds=kinds)


SERIES_TABLE: Final = (
    point_function("change_points", change_points, "points that differ from the one before, and the first", COMPARABLE),
    point_function("difference", difference(""), "difference from the point before, of the same type"),
    point_function("non_negative_difference", difference("abs"), "difference from the point before without its sign"),
    point_function("time_difference", time_difference, "time since the point before", ANY_KIND),
    point_function("derivative", derivative(""), "difference from the point before, by the time since then"),
    point_function("non_negative_derivative", derivative("abs"), "derivative without its sign"),
    point_function("zero_count", runs(COUNT, 1, zero=True), "length of each run of zeros, from `min` to `max` points", COUNTABLE),
    point_function(
        "non_zero_count",
        runs(COUNT, 1, zero=False),
        "length of each run of values other than 0, from `min` to `max` points",
        COUNTABLE,
    ),
    point_function(
        "zero_duration", runs(DURATION, 0, zero=True), "time that each run of zeros takes, from `min` to `max`", COUNTABLE
    ),
    point_function(
        "non_zero_duration",
        runs(DURATION, 0, zero=False),
        "time that each run of values other than 0 takes, from `min` to `max`",
        COUNTABLE,
    ),
    SeriesFunction(
        "diff",
        frozenset(ANY_KIND),
        diff,
        "difference from the last value before, as DOUBLE; with `ignoreNull=false` from the row before",
    ),
)
