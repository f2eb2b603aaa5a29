"""Every aggregate function in one table: what it takes, what it gives, and how it is put together from partials.

A partial is a column of a segment. `row` makes it of one row, `update` of many rows, `merge` of the partials of several segments;
the latter two are Spark aggregate expressions, so that a window's value never depends on how its rows were cut into segments.
`final` turns the partials of a finished window into the value. In the templates `{x}`, `{y}`, … are the arguments, `{t}` is the
instant in ticks, `{o}` what orders rows (the instant, and more where instants may tie), and every other name is a partial of the
same function. The planner, the error messages and the function reference read this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.compute.types import BIGINT, DOUBLE, UBIGINT, spark_type
from headrace.model.types import INTEGER_BITS, NUMBERS, STRINGS, UNSIGNED, DataType, Kind

ANY: Final = frozenset(Kind)
NUMERIC: Final = frozenset(NUMBERS)
ORDERED: Final = NUMERIC | frozenset(STRINGS) | {Kind.TIMESTAMP, Kind.BOOL}
MEASURED: Final = NUMERIC | {Kind.TIMESTAMP}
Types = tuple[DataType, ...]


@dataclass(frozen=True, slots=True)
class PartialRule:
    """One partial column: its short name and the templates that make and merge it; without `row`, rows are aggregated first."""

    name: str
    update: str
    merge: str
    row: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """What one function does for arguments of given types."""

    type: DataType
    partials: tuple[PartialRule, ...]
    final: str


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate: kinds accepted per argument, and the rule made from the arguments' types.

    A selection function picks the row whose `order` is the least or greatest (`pick`; rows whose order is NULL never); plain
    columns beside it come from that row. `bounded` tells that partials do not grow with the rows; `streams` that a stream may
    use it.
    """

    name: str
    accepts: tuple[frozenset[Kind], ...]
    rule: Callable[[Types], Rule]
    summary: str
    pick: str | None = None
    order: str | None = None
    bounded: bool = True
    streams: bool = True

    @property
    def selects(self) -> bool:
        return self.pick is not None


def summed(name: str, value: str, type_: str = "BIGINT") -> PartialRule:
    """A sum whose type stays the same however often it is merged."""
    merged = f"CAST(sum({{{name}}}) AS {type_})" if type_.startswith("DECIMAL") else f"sum({{{name}}})"
    update = f"CAST(sum({value}) AS {type_})" if type_.startswith("DECIMAL") else f"sum({value})"
    return PartialRule(name, update, merged, f"CAST({value} AS {type_})")


def counted(name: str = "n") -> PartialRule:
    return PartialRule(name, "count({x})", f"sum({{{name}}})", "if({x} IS NULL, 0L, 1L)")


def kept(name: str, function: str, value: str) -> PartialRule:
    """A partial whose update and merge are the same function, such as min."""
    return PartialRule(name, f"{function}({value})", f"{function}({{{name}}})", value)


def count(_: Types) -> Rule:
    return Rule(BIGINT, (counted(),), "coalesce({n}, 0L)")


def total(types: Types) -> Rule:
    """Integers sum to 64 bits; a sum out of that range is NULL, never wrapped. BIGINT is summed in two halves, which cannot overflow."""
    kind = types[0].kind
    if kind is Kind.DECIMAL:
        result = DataType(Kind.DECIMAL, 38, types[0].scale)
        return Rule(result, (summed("s", "{x}", spark_type(result).upper()),), "{s}")
    if kind is Kind.UBIGINT:
        return Rule(UBIGINT, (summed("s", "{x}", "DECIMAL(38,0)"),), "try_cast({s} AS DECIMAL(20,0))")
    if kind is Kind.BIGINT:
        halves = (summed("h", "shiftright({x}, 32)"), summed("l", "{x} & 4294967295L"))
        return Rule(BIGINT, halves, "try_cast(CAST({h} AS DECIMAL(20,0)) * 4294967296L + {l} AS BIGINT)")
    if kind in INTEGER_BITS:
        result = UBIGINT if kind in UNSIGNED else BIGINT
        return Rule(result, (summed("s", "{x}"),), f"CAST({{s}} AS {spark_type(result)})")
    return Rule(DOUBLE, (summed("s", "CAST({x} AS DOUBLE)", "DOUBLE"),), "{s}")


def average(_: Types) -> Rule:
    return Rule(DOUBLE, (summed("s", "CAST({x} AS DOUBLE)", "DOUBLE"), counted()), "{s} / nullif({n}, 0L)")


def extreme(function: str) -> Callable[[Types], Rule]:
    return lambda types: Rule(types[0], (kept("m", function, "{x}"),), "{m}")


def spread(_: Types) -> Rule:
    return Rule(DOUBLE, (kept("h", "max", "{x}"), kept("l", "min", "{x}")), "CAST({h} AS DOUBLE) - CAST({l} AS DOUBLE)")


def at_extreme(function: str, order: str) -> Callable[[Types], Rule]:
    """The value at the least (`min`) or greatest (`max`) of an order; rows whose order is NULL do not count."""
    return lambda types: Rule(types[0], chosen(function, order, "{x}"), "{v}")


def chosen(function: str, order: str, value: str) -> tuple[PartialRule, PartialRule]:
    """The order of the chosen row, and a value of that row."""
    row = f"if({order} IS NULL, NULL, {value})"
    picked = PartialRule("v", f"{function}_by({value}, {order})", f"{function}_by({{v}}, {{k}})", row)
    return kept("k", function, order), picked


MERGED_MOMENTS: Final = (
    "aggregate(collect_list(named_struct('n', {n}, 'm', {m}, 'q', {q})), "
    "named_struct('n', 0L, 'm', 0D, 'q', 0D), "
    "(a, b) -> CASE WHEN a.n = 0 THEN b WHEN b.n = 0 THEN a ELSE named_struct("
    "'n', a.n + b.n, "
    "'m', a.m + (b.m - a.m) * (b.n / CAST(a.n + b.n AS DOUBLE)), "
    "'q', a.q + b.q + (b.m - a.m) * (b.m - a.m) * (a.n * CAST(b.n AS DOUBLE) / CAST(a.n + b.n AS DOUBLE))) END)"
)
"""Pairwise merge of counts, means and sums of squared deviations: exact to rounding, whatever the mean."""


def moments(final: str) -> Callable[[Types], Rule]:
    value = "CAST({x} AS DOUBLE)"
    mean = PartialRule("m", f"coalesce(avg({value}), 0D)", f"{MERGED_MOMENTS}.m", f"coalesce({value}, 0D)")
    squares = PartialRule("q", f"coalesce(var_pop({value}) * count({{x}}), 0D)", f"{MERGED_MOMENTS}.q", "0D")
    return lambda _: Rule(DOUBLE, (counted(), mean, squares), final)


POPULATION: Final = "{q} / nullif({n}, 0L)"
SAMPLE: Final = "{q} / nullif({n} - 1L, 0L)"


def distinct_estimate(types: Types) -> Rule:
    """A sketch of 2^14 registers (about 0.8 % error); up to some thousand values it is all but exact."""
    kind = types[0].kind
    plain = kind in STRINGS or kind in (Kind.INT, Kind.BIGINT, Kind.TIMESTAMP)
    sketch = f"hll_sketch_agg({'{x}' if plain else 'CAST({x} AS STRING)'}, 14)"
    return Rule(BIGINT, (PartialRule("k", sketch, "hll_union_agg({k})"),), "coalesce(hll_sketch_estimate({k}), 0L)")


PRESENT: Final = "if({x} IS NULL, NULL, {o})"
LEAST: Final = "if({x} IS NULL, NULL, struct({x}, {o}))"
GREATEST: Final = "if({x} IS NULL, NULL, struct({x}, -{t}, {o}))"

TABLE: Final = (
    AggregateFunction("count", (ANY,), count, "rows, or values that are not NULL"),
    AggregateFunction("sum", (NUMERIC,), total, "sum; NULL where it leaves the range of BIGINT"),
    AggregateFunction("avg", (NUMERIC,), average, "arithmetic mean"),
    AggregateFunction("min", (ORDERED,), extreme("min"), "least value", "min", LEAST),
    AggregateFunction("max", (ORDERED,), extreme("max"), "greatest value", "max", GREATEST),
    AggregateFunction("spread", (MEASURED,), spread, "greatest minus least value"),
    AggregateFunction("first", (ANY,), at_extreme("min", PRESENT), "earliest value that is not NULL", "min", PRESENT),
    AggregateFunction("last", (ANY,), at_extreme("max", PRESENT), "latest value that is not NULL", "max", PRESENT),
    AggregateFunction("last_row", (ANY,), at_extreme("max", "{o}"), "value of the latest row, NULL or not", "max", "{o}"),
    AggregateFunction("stddev", (NUMERIC,), moments(f"sqrt({POPULATION})"), "standard deviation of the population"),
    AggregateFunction("stddev_pop", (NUMERIC,), moments(f"sqrt({POPULATION})"), "standard deviation of the population"),
    AggregateFunction("stddev_samp", (NUMERIC,), moments(f"sqrt({SAMPLE})"), "standard deviation of a sample"),
    AggregateFunction("variance", (NUMERIC,), moments(POPULATION), "variance of the population"),
    AggregateFunction("var_pop", (NUMERIC,), moments(POPULATION), "variance of the population"),
    AggregateFunction("var_samp", (NUMERIC,), moments(SAMPLE), "variance of a sample"),
    AggregateFunction("hyperloglog", (ANY,), distinct_estimate, "estimate of the number of distinct values"),
)

AGGREGATES: Final[Mapping[str, AggregateFunction]] = {function.name: function for function in TABLE}
