"""TDengine's aggregate functions in one table, as `headrace.compute.functions.aggregates` declares them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from headrace.compute.functions.aggregates import (
    ANY,
    MEASURED,
    NUMERIC,
    ORDERED,
    AggregateFunction,
    Given,
    PartialRule,
    Rule,
    chosen,
    kept,
)
from headrace.compute.functions.stream_use import StreamUse
from headrace.compute.plan import WEND, WSTART
from headrace.compute.types import spark_type
from headrace.errors import TypeMismatchError
from headrace.model.types import BIGINT, DOUBLE, INTEGER_BITS, UBIGINT, UNSIGNED, DataType, TypeKind


def summed(name: str, value: str, type_: str = "BIGINT") -> PartialRule:
    """A sum whose type stays the same however often it is merged."""
    merged = f"CAST(sum({{{name}}}) AS {type_})" if type_.startswith("DECIMAL") else f"sum({{{name}}})"
    update = f"CAST(sum({value}) AS {type_})" if type_.startswith("DECIMAL") else f"sum({value})"
    return PartialRule(name, update, merged, f"CAST({value} AS {type_})")


def counted(name: str = "n") -> PartialRule:
    return PartialRule(name, "count({x})", f"sum({{{name}}})", "if({x} IS NULL, 0L, 1L)")


def count(_: Given) -> Rule:
    return Rule(BIGINT, (counted(),), "coalesce({n}, 0L)")


def total(given: Given) -> Rule:
    """Integers sum to 64 bits; out of that range the sum is NULL. BIGINT is summed in two halves, which cannot overflow."""
    kind = given.type.kind
    if kind is TypeKind.DECIMAL:
        result = DataType(TypeKind.DECIMAL, 38, given.type.scale)
        return Rule(result, (summed("s", "{x}", spark_type(result).upper()),), "{s}")
    if kind is TypeKind.UBIGINT:
        return Rule(UBIGINT, (summed("s", "{x}", "DECIMAL(38,0)"),), f"if({{s}} < {2**64}, CAST({{s}} AS DECIMAL(20,0)), NULL)")
    if kind is TypeKind.BIGINT:
        halves = (summed("h", "shiftright({x}, 32)"), summed("l", "{x} & 4294967295L"))
        return Rule(BIGINT, halves, "try_cast(CAST({h} AS DECIMAL(20,0)) * 4294967296L + {l} AS BIGINT)")
    if kind in INTEGER_BITS:
        result = UBIGINT if kind in UNSIGNED else BIGINT
        return Rule(result, (summed("s", "{x}"),), f"CAST({{s}} AS {spark_type(result)})")
    return Rule(DOUBLE, (summed("s", "CAST({x} AS DOUBLE)", "DOUBLE"),), "{s}")


def average(_: Given) -> Rule:
    return Rule(DOUBLE, (summed("s", "CAST({x} AS DOUBLE)", "DOUBLE"), counted()), "{s} / nullif({n}, 0L)")


def extreme(function: str) -> Callable[[Given], Rule]:
    return lambda given: Rule(given.type, (kept("m", function, "{x}"),), "{m}")


def spread(_: Given) -> Rule:
    return Rule(DOUBLE, (kept("h", "max", "{x}"), kept("l", "min", "{x}")), "CAST({h} AS DOUBLE) - CAST({l} AS DOUBLE)")


def at_extreme(function: str, order: str) -> Callable[[Given], Rule]:
    """The value at the least (`min`) or greatest (`max`) of an order; rows whose order is NULL do not count."""
    return lambda given: Rule(given.type, chosen(function, order, "{x}"), "{v}")


MERGED_MOMENTS: Final = (
    "aggregate(collect_list(named_struct('n', {n}, 'm', {m}, 'q', {q})), "
    "named_struct('n', 0L, 'm', 0D, 'q', 0D), "
    "(a, b) -> CASE WHEN a.n = 0 THEN b WHEN b.n = 0 THEN a ELSE named_struct("
    "'n', a.n + b.n, "
    "'m', a.m + (b.m - a.m) * (b.n / CAST(a.n + b.n AS DOUBLE)), "
    "'q', a.q + b.q + (b.m - a.m) * (b.m - a.m) * (a.n * CAST(b.n AS DOUBLE) / CAST(a.n + b.n AS DOUBLE))) END)"
)
"""Pairwise merge of counts, means and sums of squared deviations: exact to rounding, whatever the mean."""


def moments(final: str) -> Callable[[Given], Rule]:
    value = "CAST({x} AS DOUBLE)"
    mean = PartialRule("m", f"coalesce(avg({value}), 0D)", f"{MERGED_MOMENTS}.m", f"coalesce({value}, 0D)")
    squares = PartialRule("q", f"coalesce(var_pop({value}) * count({{x}}), 0D)", f"{MERGED_MOMENTS}.q", "0D")
    return lambda _: Rule(DOUBLE, (counted(), mean, squares), final)


POPULATION: Final = "{q} / nullif({n}, 0L)"
SAMPLE: Final = "{q} / nullif(greatest({n} - 1L, 0L), 0L)"


def distinct_estimate(given: Given) -> Rule:
    """A sketch of 2^14 registers (about 0.8 % error); up to some thousand values it is all but exact."""
    # Text is prefixed because the sketch leaves out empty text.
    value = "{x}" if given.type.kind in (TypeKind.INT, TypeKind.BIGINT, TypeKind.TIMESTAMP) else "concat('s', CAST({x} AS STRING))"
    sketch = PartialRule("k", f"hll_sketch_agg({value}, 14)", "hll_union_agg({k})")
    return Rule(BIGINT, (sketch,), "coalesce(hll_sketch_estimate({k}), 0L)")


FEW: Final = 100
"""Up to so many values the sketch holds them all, and the percentile is exact."""


def quantile_estimate(given: Given) -> Rule:
    """A sketch (KLL, about 0.5 % error in rank). Of few values it is exact: the one at place p·n, between two places their line."""
    share = percent(given, 0) / 100
    if len(given.constants) > 1 and given.words(1).lower() not in ("default", "t-digest"):
        raise TypeMismatchError(f"apercentile knows 'default' and 't-digest', not {given.words(1)!r}")
    sketch = PartialRule("k", "kll_sketch_agg_double(CAST({x} AS DOUBLE), 512)", "kll_merge_agg_double({k})")
    low, high = few_values(share, 0), few_values(share, 1)
    exact = f"{low} + ({high} - {low}) * ({share!r}D * {{n}} - floor({share!r}D * {{n}}))"
    estimate = f"kll_sketch_get_quantile_double({{k}}, {share!r}D)"
    value = f"CASE WHEN {{n}} = 0L THEN NULL WHEN {{n}} <= {FEW}L THEN {exact} ELSE {estimate} END"
    return Rule(DOUBLE, (counted(), sketch), value)


def few_values(share: float, beside: int) -> str:
    """The value at the place p·n (rounded down, plus `beside`) of n sorted values; the sketch takes ranks only as constants."""
    places = [(count, min(max(math.floor(share * count) + beside, 1), count)) for count in range(1, FEW + 1)]
    ranks = ", ".join(f"{(place - 0.5) / count!r}D" for count, place in places)
    return f"element_at(kll_sketch_get_quantile_double({{k}}, array({ranks})), CAST({{n}} AS INT))"


def percent(given: Given, place: int) -> float:
    value = given.number(place)
    if not 0 <= value <= 100:
        raise TypeMismatchError(f"{given.function} takes percentages from 0 to 100, not {value}")
    return value


def elapsed(given: Given) -> Rule:
    """From the first to the last row, in units (of one tick by default). An INTERVAL window that rows surround is covered whole."""
    unit = given.duration(0) if given.constants else 1
    ends = (kept("h", "max", "{x}"), kept("l", "min", "{x}"))
    if not given.interval:
        return Rule(DOUBLE, ends, f"({{h}} - {{l}}) / {float(unit)!r}D")
    beside = (kept("a", "max", "{after}.t"), kept("b", "min", "{before}.t"))
    first, last = f"if({{b}} < {WSTART}, {WSTART}, {{l}})", f"if({{a}} > {WEND}, {WEND} + 1L, {{h}})"
    return Rule(DOUBLE, (*ends, *beside), f"({last} - {first}) / {float(unit)!r}D")


PRESENT: Final = "if({x} IS NULL, NULL, {o})"
LEAST: Final = "if({x} IS NULL, NULL, struct({x}, {o}))"
GREATEST: Final = "if({x} IS NULL, NULL, struct({x}, -{t}, {o}))"
DEVIATION: Final = moments(f"sqrt({POPULATION})")

TABLE: Final = (
    AggregateFunction(
        "count", ANY, count, "rows with `count(*)`, values that are not NULL with `count(x)`; 0 where there are none"
    ),
    AggregateFunction("sum", NUMERIC, total, "sum; NULL where it leaves the range of BIGINT"),
    AggregateFunction("avg", NUMERIC, average, "arithmetic mean"),
    AggregateFunction("min", ORDERED, extreme("min"), "least value; of equal ones the earliest row is picked", "min", LEAST),
    AggregateFunction("max", ORDERED, extreme("max"), "greatest value; of equal ones the earliest row is picked", "max", GREATEST),
    AggregateFunction("spread", MEASURED, spread, "greatest minus least value, 0 of one"),
    AggregateFunction("first", ANY, at_extreme("min", PRESENT), "earliest value that is not NULL", "min", PRESENT),
    AggregateFunction("last", ANY, at_extreme("max", PRESENT), "latest value that is not NULL", "max", PRESENT),
    AggregateFunction("last_row", ANY, at_extreme("max", "{o}"), "value of the latest row, which may be NULL", "max", "{o}"),
    AggregateFunction("_group_key", ANY, at_extreme("min", "{o}"), "value of the earliest row, NULL or not; of a key the key"),
    AggregateFunction("stddev", NUMERIC, DEVIATION, "standard deviation of the population, 0 of one value"),
    AggregateFunction("stddev_pop", NUMERIC, DEVIATION, "standard deviation of the population, 0 of one value"),
    AggregateFunction("stddev_samp", NUMERIC, moments(f"sqrt({SAMPLE})"), "standard deviation of a sample, NULL of one value"),
    AggregateFunction("variance", NUMERIC, moments(POPULATION), "variance of the population, 0 of one value"),
    AggregateFunction("var_pop", NUMERIC, moments(POPULATION), "variance of the population, 0 of one value"),
    AggregateFunction("var_samp", NUMERIC, moments(SAMPLE), "variance of a sample, NULL of one value"),
    AggregateFunction("hyperloglog", ANY, distinct_estimate, "estimate of the number of distinct values; 0 where there are none"),
    AggregateFunction(
        "apercentile",
        NUMERIC,
        quantile_estimate,
        "estimate of the y-th percentile; z, the algorithm, changes nothing",
        least=2,
        most=3,
    ),
    AggregateFunction(
        "elapsed",
        frozenset({TypeKind.TIMESTAMP}),
        elapsed,
        "time from the first to the last row in units of y (a tick); an `INTERVAL` window that rows surround counts whole",
        most=2,
        streams=StreamUse.FORCED_CLOSE,
    ),
)
