"""TDengine's aggregate functions, as a table of declarations (see `headrace.compute.functions.aggregates`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from headrace.compute.functions.aggregates import (
    AFTER,
    ANY,
    BEFORE,
    MEASURED,
    NUMERIC,
    ORDER,
    ORDERED,
    AggregateArguments,
    AggregateFunction,
    AggregateRule,
    PartialRule,
    StreamUse,
    T,
    X,
    selected_row_partials,
    simple_partial,
)
from headrace.compute.nodes import NULL, Column, Node, Value, bigint, call, case, double, if_, integer, string
from headrace.compute.plan import WEND, WSTART
from headrace.compute.tdengine.decimals import DECIMAL_DIGITS, decimal_arithmetic, decimal_of, result_type
from headrace.compute.terms import Term
from headrace.compute.types import spark_type
from headrace.errors import TypeMismatchError
from headrace.model.types import BIGINT, DOUBLE, INTEGER_BITS, UBIGINT, UNSIGNED, DataType, TypeKind

H, K, L, M, N, Q, S, V = map(Column, ("h", "k", "l", "m", "n", "q", "s", "v"))


COUNT: Final = decimal_of(BIGINT) or BIGINT


def sum_partial(name: str, value: Node, type_: str = "bigint") -> PartialRule:
    update, merged = call("sum", value), call("sum", Column(name))
    if type_.startswith("decimal"):
        update, merged = update.cast(type_), merged.cast(type_)
    return PartialRule(name, update, merged, value.cast(type_))


def count_partial(name: str = "n") -> PartialRule:
    """Return the number of values that are not NULL."""
    return PartialRule(name, call("count", X), call("sum", Column(name)), if_(X.is_null(), bigint(0), bigint(1)))


def count(_: AggregateArguments) -> AggregateRule:
    """Return the rule of `count`."""
    return AggregateRule(BIGINT, (count_partial(),), or_zero(N))


def total(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `sum`, NULL if it exceeds 64 bits. BIGINT is summed as two halves, which cannot overflow."""
    kind = arguments.type.kind
    if kind is TypeKind.DECIMAL:
        result = DataType(TypeKind.DECIMAL, 38, arguments.type.scale)
        return AggregateRule(result, (sum_partial("s", X, spark_type(result)),), S)
    if kind is TypeKind.UBIGINT:
        value = if_(Value(2**64, "decimal(20,0)") > S, S.cast("decimal(20,0)"), NULL)
        return AggregateRule(UBIGINT, (sum_partial("s", X, "decimal(38,0)"),), value)
    if kind is TypeKind.BIGINT:
        halves = (sum_partial("h", call("shiftright", X, integer(32))), sum_partial("l", X & bigint(2**32 - 1)))
        return AggregateRule(BIGINT, halves, call("join_halves", H, L))
    if kind in INTEGER_BITS:
        result = UBIGINT if kind in UNSIGNED else BIGINT
        return AggregateRule(result, (sum_partial("s", X),), S.cast(spark_type(result)))
    return AggregateRule(DOUBLE, (sum_partial("s", X.cast("double"), "double"),), S)


def average(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `avg`: DOUBLE, or DECIMAL for DECIMAL."""
    if arguments.type.kind is TypeKind.DECIMAL:
        total = DataType(TypeKind.DECIMAL, DECIMAL_DIGITS, arguments.type.scale or 0)
        quotient = decimal_arithmetic("/", Term(S, total), Term(N, BIGINT), result_type("/", total, COUNT))
        assert quotient.type is not None
        return AggregateRule(quotient.type, (sum_partial("s", X, spark_type(total)), count_partial()), quotient.node)
    return AggregateRule(DOUBLE, (sum_partial("s", X.cast("double"), "double"), count_partial()), per_value(S))


def extreme(function: str) -> Callable[[AggregateArguments], AggregateRule]:
    return lambda arguments: AggregateRule(arguments.type, (simple_partial("m", function, X),), M)


def spread(_: AggregateArguments) -> AggregateRule:
    return AggregateRule(
        DOUBLE, (simple_partial("h", "max", X), simple_partial("l", "min", X)), H.cast("double") - L.cast("double")
    )


def at_extreme(function: str, order: Node) -> Callable[[AggregateArguments], AggregateRule]:
    """Return the rule for the value at the minimum or maximum of an order, ignoring rows whose order is NULL."""
    return lambda arguments: AggregateRule(arguments.type, selected_row_partials(function, order, X), V)


def moments(final: Node) -> Callable[[AggregateArguments], AggregateRule]:
    """Return a rule computed from count `n`, mean `m` and sum of squared deviations `q`."""
    value = X.cast("double")
    mean = PartialRule("m", call("mean", value), call("merged_mean", N, M, Q), call("coalesce", value, double(0)))
    squares = PartialRule("q", call("squares", value), call("merged_squares", N, M, Q), double(0))
    return lambda _: AggregateRule(DOUBLE, (count_partial(), mean, squares), final)


def or_zero(value: Node) -> Node:
    """Return a count, 0 instead of NULL."""
    return call("coalesce", value, bigint(0))


def per_value(total: Node) -> Node:
    """Return a total divided by the number of values, NULL without values."""
    return total / call("nullif", N, bigint(0))


POPULATION: Final = per_value(Q)
SAMPLE: Final = Q / call("nullif", call("greatest", N - bigint(1), bigint(0)), bigint(0))


def distinct_estimate(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `hyperloglog`: a sketch of 2^14 registers, with an error of about 0.8 %."""
    # Prefix text because the sketch ignores empty text.
    is_integer = arguments.type.kind in (TypeKind.INT, TypeKind.BIGINT, TypeKind.TIMESTAMP)
    value = X if is_integer else call("concat", string("s"), X.cast("string"))
    sketch = PartialRule("k", call("hll_sketch_agg", value, integer(14)), call("hll_union_agg", K))
    return AggregateRule(BIGINT, (sketch,), or_zero(call("hll_sketch_estimate", K)))


MAX_EXACT_VALUES: Final = 100
"""Up to this many values, the sketch holds all of them and the percentile is exact."""


def quantile_estimate(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `apercentile`: a KLL sketch, with a rank error of about 0.5 %.

    The result is exact for few values: the one at rank p·n, interpolated between two ranks.
    """
    fraction = percent(arguments, 0) / 100
    if len(arguments.constants) > 1 and arguments.string(1).lower() not in ("default", "t-digest"):
        raise TypeMismatchError(f"apercentile takes 'default' or 't-digest', not {arguments.string(1)!r}")
    sketch = PartialRule("k", call("kll_sketch_agg_double", X.cast("double"), integer(512)), call("kll_merge_agg_double", K))
    low, high = exact_quantile(fraction, 0), exact_quantile(fraction, 1)
    rank = double(fraction) * N
    exact = low + (high - low) * (rank - call("floor", rank))
    estimate = call("kll_sketch_get_quantile_double", K, double(fraction))
    value = case([(N.equals(bigint(0)), NULL), (bigint(MAX_EXACT_VALUES) >= N, exact)], estimate)
    return AggregateRule(DOUBLE, (count_partial(), sketch), value)


def exact_quantile(fraction: float, offset: int) -> Node:
    """Return the value at rank p·n (rounded down, plus `offset`) of n sorted values.

    The ranks for every n are written out because the sketch takes only constant ranks.
    """
    ranks_by_count = [
        (count, min(max(math.floor(fraction * count) + offset, 1), count)) for count in range(1, MAX_EXACT_VALUES + 1)
    ]
    ranks = call("array", *(double((rank - 0.5) / count) for count, rank in ranks_by_count))
    return call("element_at", call("kll_sketch_get_quantile_double", K, ranks), N.cast("int"))


def percent(arguments: AggregateArguments, index: int) -> float:
    """Return a constant percentage, or raise `TypeMismatchError`."""
    value = arguments.number(index)
    if not 0 <= value <= 100:
        raise TypeMismatchError(f"{arguments.function} takes percentages from 0 to 100, not {value}")
    return value


def elapsed(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `elapsed`: time from the first to the last row, in units (one tick by default).

    An INTERVAL window with rows before and after it counts in full.
    """
    unit = arguments.duration(0) if arguments.constants else 1
    ends = (simple_partial("h", "max", X), simple_partial("l", "min", X))
    if not arguments.interval:
        return AggregateRule(DOUBLE, ends, (H - L) / double(float(unit)))
    neighbors = (simple_partial("a", "max", instant_of(AFTER)), simple_partial("b", "min", instant_of(BEFORE)))
    before, after, start, end = Column("b"), Column("a"), Column(WSTART), Column(WEND)
    first, last = if_(before < start, start, L), if_(after > end, end + bigint(1), H)
    return AggregateRule(DOUBLE, (*ends, *neighbors), (last - first) / double(float(unit)))


def instant_of(point: Node) -> Node:
    """Return the instant of a neighboring point."""
    return call("instant_of", point)


PRESENT: Final = if_(X.is_null(), NULL, ORDER)
LEAST: Final = if_(X.is_null(), NULL, call("struct", X, ORDER))
GREATEST: Final = if_(X.is_null(), NULL, call("struct", X, -T, ORDER))
DEVIATION: Final = moments(call("sqrt", POPULATION))

TABLE: Final = (
    AggregateFunction(
        "count", ANY, count, "number of rows with `count(*)`, of non-NULL values with `count(x)`; 0 if there are none"
    ),
    AggregateFunction("sum", NUMERIC, total, "sum; NULL if it is out of range for BIGINT"),
    AggregateFunction("avg", NUMERIC, average, "arithmetic mean; a DECIMAL for DECIMAL"),
    AggregateFunction("min", ORDERED, extreme("min"), "minimum; the earliest row if several have it", pick="min", order=LEAST),
    AggregateFunction("max", ORDERED, extreme("max"), "maximum; the earliest row if several have it", pick="max", order=GREATEST),
    AggregateFunction("spread", MEASURED, spread, "maximum minus minimum; 0 for a single value"),
    AggregateFunction("first", ANY, at_extreme("min", PRESENT), "earliest non-NULL value", pick="min", order=PRESENT),
    AggregateFunction("last", ANY, at_extreme("max", PRESENT), "latest non-NULL value", pick="max", order=PRESENT),
    AggregateFunction(
        "last_row", ANY, at_extreme("max", ORDER), "value of the latest row, even if it is NULL", pick="max", order=ORDER
    ),
    AggregateFunction(
        "_group_key", ANY, at_extreme("min", ORDER), "value of the earliest row, even if it is NULL; for a group key, the key"
    ),
    AggregateFunction("stddev", NUMERIC, DEVIATION, "population standard deviation; 0 for a single value"),
    AggregateFunction("stddev_pop", NUMERIC, DEVIATION, "population standard deviation; 0 for a single value"),
    AggregateFunction("stddev_samp", NUMERIC, moments(call("sqrt", SAMPLE)), "sample standard deviation; NULL for a single value"),
    AggregateFunction("variance", NUMERIC, moments(POPULATION), "population variance; 0 for a single value"),
    AggregateFunction("var_pop", NUMERIC, moments(POPULATION), "population variance; 0 for a single value"),
    AggregateFunction("var_samp", NUMERIC, moments(SAMPLE), "sample variance; NULL for a single value"),
    AggregateFunction("hyperloglog", ANY, distinct_estimate, "estimated number of distinct values; 0 if there are none"),
    AggregateFunction(
        "apercentile",
        NUMERIC,
        quantile_estimate,
        "estimated y-th percentile; z names an algorithm and has no effect",
        min_arguments=2,
        max_arguments=3,
    ),
    AggregateFunction(
        "elapsed",
        frozenset({TypeKind.TIMESTAMP}),
        elapsed,
        "time from the first to the last row, in units of y (default: one tick); an `INTERVAL` window with rows "
        "before and after it counts in full",
        max_arguments=2,
        streams=StreamUse.FORCED_CLOSE,
    ),
)
