"""Every aggregate function in one table: what it takes, what it gives, and how it is put together from partials.

A partial is a column of a segment. `update` makes it from prepared rows, `merge` from the partials of several segments; both are
Spark aggregate expressions, so that a window's value never depends on how its rows were cut into segments. `final` turns the
partials of a finished window into the value. In the templates `{x}`, `{y}`, … are the arguments, `{t}` is the instant in ticks,
`{o}` what orders rows (the instant, and more where instants may tie), and every other name is a partial of the same function.

The planner, the error messages and the function reference read this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.compute.types import BIGINT, DOUBLE, spark_type
from headrace.model.types import INTEGER_BITS, NUMBERS, STRINGS, UNSIGNED, DataType, Kind

ANY: Final = frozenset(Kind)
NUMERIC: Final = frozenset(NUMBERS)
ORDERED: Final = NUMERIC | frozenset(STRINGS) | {Kind.TIMESTAMP, Kind.BOOL}
MEASURED: Final = NUMERIC | {Kind.TIMESTAMP}


@dataclass(frozen=True, slots=True)
class PartialRule:
    """One partial column: its short name and the templates that make and merge it."""

    name: str
    update: str
    merge: str


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
    columns beside it come from that row. `bounded` tells that partials do not grow with the rows. `streams` tells whether a stream may use it.
    """

    name: str
    accepts: tuple[frozenset[Kind], ...]
    rule: Callable[[tuple[DataType, ...]], Rule]
    summary: str
    pick: str | None = None
    order: str | None = None
    bounded: bool = True
    streams: bool = True

    @property
    def selects(self) -> bool:
        return self.pick is not None


def counted(name: str, update: str) -> PartialRule:
    return PartialRule(name, update, f"sum({{{name}}})")


def kept(name: str, function: str, argument: str) -> PartialRule:
    """A partial whose update and merge are the same function, such as min."""
    return PartialRule(name, f"{function}({argument})", f"{function}({{{name}}})")


def count(_: tuple[DataType, ...]) -> Rule:
    return Rule(BIGINT, (counted("n", "count({x})"),), "coalesce({n}, 0L)")


def total(types: tuple[DataType, ...]) -> Rule:
    """Integers sum to 64 bits. A sum out of that range is NULL, not wrapped: BIGINT is summed in two halves that cannot overflow."""
    kind = types[0].kind
    if kind is Kind.DECIMAL:
        result = DataType(Kind.DECIMAL, 38, types[0].scale)
        return Rule(result, (counted("s", f"sum(CAST({{x}} AS {spark_type(result)}))"),), "{s}")
    if kind is Kind.UBIGINT:
        return Rule(DataType(kind), (counted("s", "sum({x})"),), "try_cast({s} AS DECIMAL(20,0))")
    if kind is Kind.BIGINT:
        halves = (counted("h", "sum(shiftright({x}, 32))"), counted("l", "sum({x} & 4294967295L)"))
        return Rule(BIGINT, halves, "try_cast(CAST({h} AS DECIMAL(20,0)) * 4294967296L + {l} AS BIGINT)")
    if kind in INTEGER_BITS:
        result = DataType(Kind.UBIGINT) if kind in UNSIGNED else BIGINT
        return Rule(result, (counted("s", "sum({x})"),), f"CAST({{s}} AS {spark_type(result)})")
    return Rule(DOUBLE, (counted("s", "sum(CAST({x} AS DOUBLE))"),), "{s}")


def average(_: tuple[DataType, ...]) -> Rule:
    return Rule(DOUBLE, (counted("s", "sum(CAST({x} AS DOUBLE))"), counted("n", "count({x})")), "{s} / nullif({n}, 0L)")


def least(types: tuple[DataType, ...]) -> Rule:
    return Rule(types[0], (kept("m", "min", "{x}"),), "{m}")


def greatest(types: tuple[DataType, ...]) -> Rule:
    return Rule(types[0], (kept("m", "max", "{x}"),), "{m}")


def spread(types: tuple[DataType, ...]) -> Rule:
    return Rule(DOUBLE, (kept("h", "max", "{x}"), kept("l", "min", "{x}")), "CAST({h} AS DOUBLE) - CAST({l} AS DOUBLE)")


def at_extreme(function: str, order: str) -> Callable[[tuple[DataType, ...]], Rule]:
    """The value at the least (`min`) or greatest (`max`) of an order; rows whose order is NULL do not count."""

    def rule(types: tuple[DataType, ...]) -> Rule:
        value = PartialRule("v", f"{function}_by({{x}}, {order})", f"{function}_by({{v}}, {{k}})")
        return Rule(types[0], (kept("k", function, order), value), "{v}")

    return rule


MERGED_MOMENTS: Final = (
    "aggregate(collect_list(named_struct('n', {n}, 'm', {m}, 'q', {q})), "
    "named_struct('n', 0L, 'm', 0D, 'q', 0D), "
    "(a, b) -> CASE WHEN a.n = 0 THEN b WHEN b.n = 0 THEN a ELSE named_struct("
    "'n', a.n + b.n, "
    "'m', a.m + (b.m - a.m) * (b.n / CAST(a.n + b.n AS DOUBLE)), "
    "'q', a.q + b.q + (b.m - a.m) * (b.m - a.m) * (a.n * CAST(b.n AS DOUBLE) / CAST(a.n + b.n AS DOUBLE))) END)"
)
"""Pairwise merge of counts, means and sums of squared deviations: exact to rounding, whatever the mean."""


def moments(final: str) -> Callable[[tuple[DataType, ...]], Rule]:
    def rule(_: tuple[DataType, ...]) -> Rule:
        n = counted("n", "count({x})")
        mean = PartialRule("m", "coalesce(avg(CAST({x} AS DOUBLE)), 0D)", f"{MERGED_MOMENTS}.m")
        squares = PartialRule("q", "coalesce(var_pop(CAST({x} AS DOUBLE)) * count({x}), 0D)", f"{MERGED_MOMENTS}.q")
        return Rule(DOUBLE, (n, mean, squares), final)

    return rule


POPULATION: Final = "{q} / nullif({n}, 0L)"
SAMPLE: Final = "{q} / nullif({n} - 1L, 0L)"


def distinct_estimate(types: tuple[DataType, ...]) -> Rule:
    """A sketch of 2^14 registers (about 0.8 % error); up to some thousand values it is all but exact."""
    kind = types[0].kind
    plain = kind in STRINGS or kind in (Kind.INT, Kind.BIGINT, Kind.TIMESTAMP)
    value = "{x}" if plain else "CAST({x} AS STRING)"
    sketch = PartialRule("k", f"hll_sketch_agg({value}, 14)", "hll_union_agg({k})")
    return Rule(BIGINT, (sketch,), "coalesce(hll_sketch_estimate({k}), 0L)")


PRESENT: Final = "if({x} IS NULL, NULL, {o})"
LEAST: Final = "if({x} IS NULL, NULL, struct({x}, {o}))"
GREATEST: Final = "if({x} IS NULL, NULL, struct({x}, -{t}, {o}))"

TABLE: Final = (
    AggregateFunction("count", (ANY,), count, "rows, or values that are not NULL"),
    AggregateFunction("sum", (NUMERIC,), total, "sum; NULL where it leaves the range of BIGINT"),
    AggregateFunction("avg", (NUMERIC,), average, "arithmetic mean"),
    AggregateFunction("min", (ORDERED,), least, "least value", "min", LEAST),
    AggregateFunction("max", (ORDERED,), greatest, "greatest value", "max", GREATEST),
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
