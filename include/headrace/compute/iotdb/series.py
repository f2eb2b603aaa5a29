"""IoTDB's functions of a point and its neighbors in time, as window expressions.

The rows are those of all series of a query, so that NULL is no point here: it is passed over, and a result that is NULL is no
point of the result, except for `diff`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.compute.functions.aggregates import AggregateArguments, T, X
from headrace.compute.functions.series import FIRST, SeriesFunction, SeriesRule, over, value_before
from headrace.compute.iotdb.scalars import ANY_KIND
from headrace.compute.iotdb.types import FLOATING, NUMERIC, Attributes, check_inputs, type_error
from headrace.compute.nodes import NULL, Node, Over, bigint, both, call, double, either, if_, integer, negated
from headrace.compute.plan import KEYS
from headrace.compute.types import spark_type
from headrace.compute.windows.numbering import THROUGH_CURRENT_ROW
from headrace.model.types import BIGINT, DOUBLE, TypeKind

MAX_INT64: Final = 2**63 - 1
COUNTABLE: Final = (*NUMERIC, TypeKind.BOOL)
COMPARABLE: Final = (*COUNTABLE, TypeKind.VARCHAR, TypeKind.NCHAR, TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.VARBINARY)
PREVIOUS: Final = value_before(X)
PREVIOUS_TIME: Final = value_before(if_(X.is_null(), NULL, T))


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


def difference(*, absolute: bool) -> Callable[[AggregateArguments], SeriesRule]:
    """Return the maker of the rule of the difference from the point before, in the input's type."""

    def rule(arguments: AggregateArguments) -> SeriesRule:
        change = X - PREVIOUS if arguments.type.kind in FLOATING else call("try_subtract", X, PREVIOUS)
        return SeriesRule(arguments.type, call("abs", change) if absolute else change, sparse=True)

    return rule


def time_difference(_: AggregateArguments) -> SeriesRule:
    """Return the rule of the ticks since the point before."""
    return SeriesRule(BIGINT, if_(X.is_null(), NULL, T - PREVIOUS_TIME), sparse=True)


def derivative(*, absolute: bool) -> Callable[[AggregateArguments], SeriesRule]:
    """Return the maker of the rule of the change per tick since the point before. FLOAT values are subtracted as FLOAT."""

    def rule(arguments: AggregateArguments) -> SeriesRule:
        type_ = "float" if arguments.type.kind is TypeKind.FLOAT else "double"
        change = (X.cast(type_) - PREVIOUS.cast(type_)).cast("double")
        value = change / call("nullif", (T - PREVIOUS_TIME).cast("double"), double(0))
        return SeriesRule(DOUBLE, call("abs", value) if absolute else value, sparse=True)

    return rule


def change_points(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule that selects points that differ from the one before. NaN differs from everything."""
    is_unknown = [call("isnan", X)] if arguments.type.kind in FLOATING else []
    differs = either(FIRST.is_null(), call("<>", X, FIRST), *is_unknown)
    return SeriesRule(arguments.type, if_(both(X.is_not_null(), differs), X, NULL), PREVIOUS, sparse=True)


def diff(arguments: AggregateArguments) -> SeriesRule:
    """Return the rule of the difference from the row before or, ignoring NULL, from the last value before."""
    if arguments.type.kind not in NUMERIC:
        message = "Input series of Scalar function [DIFF] only supports numeric data types [INT32, INT64, FLOAT, DOUBLE]"
        raise type_error(message, hint="cast it, as in diff(CAST(x AS DOUBLE))")
    ignored = arguments.attribute("ignoreNull", "true").lower() == "true"
    before = PREVIOUS if ignored else over("lag", X)
    return SeriesRule(DOUBLE, X.cast("double") - before.cast("double"))


def runs(value: Callable[[Node], Node], min_arguments: int, *, zero: bool) -> Callable[[AggregateArguments], SeriesRule]:
    """Return the maker of the rule of a value at the first point of each run of zeros, or of non-zeros.

    `value` is made of the instants of the run; runs for which it is below `min` or above `max` are left out.
    """

    def rule(arguments: AggregateArguments) -> SeriesRule:
        attributes = Attributes(arguments.attributes)
        low, high = attributes.integer("min", min_arguments), attributes.integer("max", MAX_INT64)
        if high < low:
            raise type_error("max can not be smaller than min.", hint="exchange them")
        if low < min_arguments:
            raise type_error(f"min can not be smaller than {min_arguments}.", hint=f"use {min_arguments} or more, or leave it out")
        is_zero = negated(X) if arguments.type.kind is TypeKind.BOOL else X.equals(integer(0).cast(spark_type(arguments.type)))
        member = is_zero if zero else negated(is_zero)
        instants = if_(member, T, NULL)
        run = value(instants)
        is_wanted = both(member, T.equals(within_run("min", instants)), call("between", run, bigint(low), bigint(high)))
        number = over("count", if_(member, NULL, X), frame=THROUGH_CURRENT_ROW)
        return SeriesRule(BIGINT, if_(is_wanted, run, NULL), number, sparse=True)

    return rule


def within_run(function: str, instants: Node) -> Node:
    """Return an aggregate over the instants of a run, whose number is `FIRST`."""
    return Over(call(function, instants), (KEYS, FIRST))


def count(instants: Node) -> Node:
    return within_run("count", instants)


def duration(instants: Node) -> Node:
    return within_run("max", instants) - within_run("min", instants)


def point_function(
    name: str, rule: Callable[[AggregateArguments], SeriesRule], summary: str, kinds: tuple[TypeKind, ...] = NUMERIC
) -> PointFunction:
    return PointFunction(name, frozenset(kinds), rule, summary, kinds=kinds)


SERIES_TABLE: Final = (
    point_function("change_points", change_points, "points that differ from the one before, and the first", COMPARABLE),
    point_function("difference", difference(absolute=False), "difference from the point before, of the same type"),
    point_function("non_negative_difference", difference(absolute=True), "difference from the point before without its sign"),
    point_function("time_difference", time_difference, "time since the point before", ANY_KIND),
    point_function("derivative", derivative(absolute=False), "difference from the point before, by the time since then"),
    point_function("non_negative_derivative", derivative(absolute=True), "derivative without its sign"),
    point_function("zero_count", runs(count, 1, zero=True), "length of each run of zeros, from `min` to `max` points", COUNTABLE),
    point_function(
        "non_zero_count",
        runs(count, 1, zero=False),
        "length of each run of values other than 0, from `min` to `max` points",
        COUNTABLE,
    ),
    point_function(
        "zero_duration", runs(duration, 0, zero=True), "time that each run of zeros takes, from `min` to `max`", COUNTABLE
    ),
    point_function(
        "non_zero_duration",
        runs(duration, 0, zero=False),
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
