"""TDengine's aggregate functions, as a table of declarations (see `headrace.compute.functions.aggregates`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from headrace.compute.functions.aggregates import (
    ANY,
    MEASURED,
    NUMERIC,
    ORDERED,
    AggregateArguments,
    AggregateFunction,
    AggregateRule,
    PartialRule,
    merged_moments,
    selected_row_partials,
    simple_partial,
)
from headrace.compute.functions.stream_use import StreamUse
from headrace.compute.plan import WEND, WSTART
from headrace.compute.types import spark_type
from headrace.errors import TypeMismatchError
from headrace.model.types import BIGINT, DOUBLE, INTEGER_BITS, UBIGINT, UNSIGNED, DataType, TypeKind


def sum_partial(name: str, value: str, type_: str = "BIGINT") -> PartialRule:
    """Return a sum whose type does not change when it is merged."""
    merged = f"CAST(sum({{{name}}}) AS {type_})" if type_.startswith("DECIMAL") else f"sum({{{name}}})"
    update = f"CAST(sum({value}) AS {type_})" if type_.startswith("DECIMAL") else f"sum({value})"
    return PartialRule(name, update, merged, f"CAST({value} AS {type_})")


def count_partial(name: str = "n") -> PartialRule:
    """Return the number of values that are not NULL."""
    return PartialRule(name, "count({x})", f"sum({{{name}}})", "if({x} IS NULL, 0L, 1L)")


def count(_: AggregateArguments) -> AggregateRule:
    """Return the rule of `count`."""
    return AggregateRule(BIGINT, (count_partial(),), "coalesce({n}, 0L)")


def total(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `sum`, NULL if it exceeds 64 bits. BIGINT is summed as two halves, which cannot overflow."""
    kind = arguments.type.kind
    if kind is TypeKind.DECIMAL:
        result = DataType(TypeKind.DECIMAL, 38, arguments.type.scale)
        return AggregateRule(result, (sum_partial("s", "{x}", spark_type(result).upper()),), "{s}")
    if kind is TypeKind.UBIGINT:
        return AggregateRule(
            UBIGINT, (sum_partial("s", "{x}", "DECIMAL(38,0)"),), f"if({{s}} < {2**64}, CAST({{s}} AS DECIMAL(20,0)), NULL)"
        )
    if kind is TypeKind.BIGINT:
        halves = (sum_partial("h", "shiftright({x}, 32)"), sum_partial("l", "{x} & 4294967295L"))
        return AggregateRule(BIGINT, halves, "try_cast(CAST({h} AS DECIMAL(20,0)) * 4294967296L + {l} AS BIGINT)")
    if kind in INTEGER_BITS:
        result = UBIGINT if kind in UNSIGNED else BIGINT
        return AggregateRule(result, (sum_partial("s", "{x}"),), f"CAST({{s}} AS {spark_type(result)})")
    return AggregateRule(DOUBLE, (sum_partial("s", "CAST({x} AS DOUBLE)", "DOUBLE"),), "{s}")


def average(_: AggregateArguments) -> AggregateRule:
    """Return the rule of `avg`."""
    return AggregateRule(DOUBLE, (sum_partial("s", "CAST({x} AS DOUBLE)", "DOUBLE"), count_partial()), "{s} / nullif({n}, 0L)")


def extreme(function: str) -> Callable[[AggregateArguments], AggregateRule]:
    """Return the rule of `min` or `max`."""
    return lambda arguments: AggregateRule(arguments.type, (simple_partial("m", function, "{x}"),), "{m}")


def spread(_: AggregateArguments) -> AggregateRule:
    """Return the rule of `spread`."""
    return AggregateRule(
        DOUBLE, (simple_partial("h", "max", "{x}"), simple_partial("l", "min", "{x}")), "CAST({h} AS DOUBLE) - CAST({l} AS DOUBLE)"
    )


def at_extreme(function: str, order: str) -> Callable[[AggregateArguments], AggregateRule]:
    """Return the rule for the value at the minimum or maximum of an order, ignoring rows whose order is NULL."""
    return lambda arguments: AggregateRule(arguments.type, selected_row_partials(function, order, "{x}"), "{v}")


def moments(final: str) -> Callable[[AggregateArguments], AggregateRule]:
    """Return a rule computed from count `n`, mean `m` and sum of squared deviations `q`."""
    value = "CAST({x} AS DOUBLE)"
    mean = PartialRule("m", f"coalesce(avg({value}), 0D)", merged_moments("{n}", "{m}", "{q}", "m"), f"coalesce({value}, 0D)")
    squares = PartialRule("q", f"coalesce(var_pop({value}) * count({{x}}), 0D)", merged_moments("{n}", "{m}", "{q}", "q"), "0D")
    return lambda _: AggregateRule(DOUBLE, (count_partial(), mean, squares), final)


POPULATION: Final = "{q} / nullif({n}, 0L)"
SAMPLE: Final = "{q} / nullif(greatest({n} - 1L, 0L), 0L)"


def distinct_estimate(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `hyperloglog`: a sketch of 2^14 registers, with an error of about 0.8 %."""
    # Prefix text because the sketch ignores empty text.
    value = (
        "{x}" if arguments.type.kind in (TypeKind.INT, TypeKind.BIGINT, TypeKind.TIMESTAMP) else "concat('s', CAST({x} AS STRING))"
    )
    sketch = PartialRule("k", f"hll_sketch_agg({value}, 14)", "hll_union_agg({k})")
    return AggregateRule(BIGINT, (sketch,), "coalesce(hll_sketch_estimate({k}), 0L)")


MAX_EXACT_VALUES: Final = 100
"""Up to this many values, the sketch holds all of them and the percentile is exact."""


def quantile_estimate(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `apercentile`: a KLL sketch, with a rank error of about 0.5 %.

    The result is exact for few values: the one at rank p·n, interpolated between two ranks.
    """
    fraction = percent(arguments, 0) / 100
    if len(arguments.constants) > 1 and arguments.string(1).lower() not in ("default", "t-digest"):
        raise TypeMismatchError(f"apercentile takes 'default' or 't-digest', not {arguments.string(1)!r}")
    sketch = PartialRule("k", "kll_sketch_agg_double(CAST({x} AS DOUBLE), 512)", "kll_merge_agg_double({k})")
    low, high = exact_quantile(fraction, 0), exact_quantile(fraction, 1)
    exact = f"{low} + ({high} - {low}) * ({fraction!r}D * {{n}} - floor({fraction!r}D * {{n}}))"
    estimate = f"kll_sketch_get_quantile_double({{k}}, {fraction!r}D)"
    value = f"CASE WHEN {{n}} = 0L THEN NULL WHEN {{n}} <= {MAX_EXACT_VALUES}L THEN {exact} ELSE {estimate} END"
    return AggregateRule(DOUBLE, (count_partial(), sketch), value)


def exact_quantile(fraction: float, offset: int) -> str:
    """Return the value at rank p·n (rounded down, plus `offset`) of n sorted values.

    The ranks for every n are written out because the sketch takes only constant ranks.
    """
    ranks_by_count = [
        (count, min(max(math.floor(fraction * count) + offset, 1), count)) for count in range(1, MAX_EXACT_VALUES + 1)
    ]
    ranks = ", ".join(f"{(rank - 0.5) / count!r}D" for count, rank in ranks_by_count)
    return f"element_at(kll_sketch_get_quantile_double({{k}}, array({ranks})), CAST({{n}} AS INT))"


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
    ends = (simple_partial("h", "max", "{x}"), simple_partial("l", "min", "{x}"))
    if not arguments.interval:
        return AggregateRule(DOUBLE, ends, f"({{h}} - {{l}}) / {float(unit)!r}D")
    neighbors = (simple_partial("a", "max", "{after}.t"), simple_partial("b", "min", "{before}.t"))
    first, last = f"if({{b}} < {WSTART}, {WSTART}, {{l}})", f"if({{a}} > {WEND}, {WEND} + 1L, {{h}})"
    return AggregateRule(DOUBLE, (*ends, *neighbors), f"({last} - {first}) / {float(unit)!r}D")


PRESENT: Final = "if({x} IS NULL, NULL, {o})"
LEAST: Final = "if({x} IS NULL, NULL, struct({x}, {o}))"
GREATEST: Final = "if({x} IS NULL, NULL, struct({x}, -{t}, {o}))"
DEVIATION: Final = moments(f"sqrt({POPULATION})")

TABLE: Final = (
    AggregateFunction(
        "count", ANY, count, "number of rows with `count(*)`, of non-NULL values with `count(x)`; 0 if there are none"
    ),
    AggregateFunction("sum", NUMERIC, total, "sum; NULL if it is out of range for BIGINT"),
    AggregateFunction("avg", NUMERIC, average, "arithmetic mean"),
    AggregateFunction("min", ORDERED, extreme("min"), "minimum; the earliest row if several have it", "min", LEAST),
    AggregateFunction("max", ORDERED, extreme("max"), "maximum; the earliest row if several have it", "max", GREATEST),
    AggregateFunction("spread", MEASURED, spread, "maximum minus minimum; 0 for a single value"),
    AggregateFunction("first", ANY, at_extreme("min", PRESENT), "earliest non-NULL value", "min", PRESENT),
    AggregateFunction("last", ANY, at_extreme("max", PRESENT), "latest non-NULL value", "max", PRESENT),
    AggregateFunction("last_row", ANY, at_extreme("max", "{o}"), "value of the latest row, even if it is NULL", "max", "{o}"),
    AggregateFunction(
        "_group_key", ANY, at_extreme("min", "{o}"), "value of the earliest row, even if it is NULL; for a group key, the key"
    ),
    AggregateFunction("stddev", NUMERIC, DEVIATION, "population standard deviation; 0 for a single value"),
    AggregateFunction("stddev_pop", NUMERIC, DEVIATION, "population standard deviation; 0 for a single value"),
    AggregateFunction("stddev_samp", NUMERIC, moments(f"sqrt({SAMPLE})"), "sample standard deviation; NULL for a single value"),
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
