"""TDengine's aggregates whose partial is the list of values: exact order statistics, and functions of the order of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from headrace.compute.columnar import lists
from headrace.compute.functions.aggregates import (
    AFTER,
    BEFORE,
    NUMERIC,
    ORDERED,
    AggregateArguments,
    AggregateFunction,
    AggregateRule,
    PartialRule,
    StreamUse,
    T,
    X,
    list_partial,
)
from headrace.compute.nodes import TRUE, Column, Node, PythonCall, call, double, if_, integer, spark_sql, string
from headrace.compute.plan import WEND, WSTART
from headrace.compute.tdengine.aggregates import percent
from headrace.compute.types import spark_type
from headrace.errors import LimitError, TypeMismatchError
from headrace.model.types import DOUBLE, FLOATS, VARCHAR
from headrace.storage.spark.python_calls import define

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BINS: Final = 1000
MAX_DECIMAL_LENGTH: Final = 25


def collapse_directly(values: PartialRule, aggregate: Node) -> PartialRule:
    """Let a Spark aggregate compute the value at once if all rows are available, instead of collecting a list."""
    return replace(values, direct=call("present_list", aggregate))


VALUE: Final = X.cast("double")
POINT: Final = (string("t"), T, string("v"), VALUE)
VALUES: Final = list_partial(VALUE, X.is_not_null())
SURROUNDED: Final = list_partial(call("named_struct", *POINT, string("b"), BEFORE, string("a"), AFTER), X.is_not_null())
POINTS: Final = list_partial(call("named_struct", *POINT), X.is_not_null())


def over_sorted_list(body: str, apply: Callable[..., pa.Array], *others: str) -> Node:
    """Return an expression over the sorted list `s`, NULL if the list is empty.

    `apply` gives the same for an array of lists, and arrays of other columns in the expression.
    """
    text = "element_at(transform(array(array_sort({})), s -> if(size(s) = 0, NULL, {})), 1)"
    return replace(spark_sql(text, Column("l"), body), inputs=(Column("l"), *map(Column, others)), apply=apply)


def text_of_numbers(write: Callable[[list[float]], str], numbers: Node) -> Node:
    """Return a list of numbers as text. Python writes numbers as C does; Spark rounds their shortest texts instead."""
    name, apply = f"headrace_{write.__name__}", partial(write_lists, write)
    define(name, apply, "string")
    return PythonCall(name, (numbers,), "string", apply)


def write_lists(write: Callable[[list[float]], str], lists: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.array([None if numbers is None else write(numbers) for numbers in lists.to_pylist()], pa.string())


def percentile(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `percentile`: exact, interpolated between ranks. Several percentages give one text."""
    fractions = [percent(arguments, index) / 100 for index in range(len(arguments.constants))]
    if len(fractions) == 1:
        return AggregateRule(DOUBLE, (VALUES,), over_sorted_list(interpolate(fractions[0]), lists.quantiles(fractions)))
    quantiles = over_sorted_list(f"array({', '.join(map(interpolate, fractions))})", lists.quantiles(fractions))
    return AggregateRule(VARCHAR, (VALUES,), text_of_numbers(percentile_text, quantiles))


def interpolate(fraction: float) -> str:
    """Return the value of the sorted list `s` at a fraction of its ranks."""
    rank = f"({fraction!r}D * (size(s) - 1))"
    low, high = f"s[CAST(floor({rank}) AS INT)]", f"s[CAST(ceil({rank}) AS INT)]"
    return f"({low} + ({high} - {low}) * ({rank} - floor({rank})))"


def percentile_text(quantiles: list[float]) -> str:
    return f"[{', '.join(f'{quantile:.6f}' for quantile in quantiles)}]"


def mode(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `mode`: the most frequent value, the least of several."""
    type_ = spark_type(arguments.type)
    start = f"named_struct('v', CAST(NULL AS {type_}), 'n', 0, 'b', CAST(NULL AS {type_}), 'm', 0)"
    count = "if(e <=> a.v, a.n + 1, 1)"
    step = f"named_struct('v', e, 'n', {count}, 'b', if({count} > a.m, e, a.b), 'm', greatest({count}, a.m))"
    most_frequent = f"aggregate(s, {start}, (a, e) -> {step}, a -> a.b)"
    value = if_(X.equals(integer(0)), integer(0).cast(type_), X) if arguments.type.kind in FLOATS else X
    values = collapse_directly(list_partial(X, X.is_not_null()), call("mode", value, TRUE))
    return AggregateRule(arguments.type, (values,), over_sorted_list(most_frequent, lists.most_frequent))


def time_weighted(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `twa`: the mean of the line through the points, or the value of a single point.

    In an INTERVAL window, the line extends to the window's borders if there are points beyond them.
    """
    start = "named_struct('t', CAST(NULL AS BIGINT), 'v', CAST(NULL AS DOUBLE), 'a', 0D)"
    step = "named_struct('t', e.t, 'v', e.v, 'a', a.a + coalesce((e.v + a.v) / 2 * (e.t - a.t), 0D))"
    area = f"aggregate(s, {start}, (a, e) -> {step}, a -> a.a)"
    first, last = "s[0]", "s[size(s) - 1]"
    if not arguments.interval:
        span = f"({last}.t - {first}.t)"
        mean = f"if({span} = 0L, s[0].v, {area} / nullif({span}, 0L))"
        return AggregateRule(DOUBLE, (POINTS,), over_sorted_list(mean, lists.mean_over_time))
    begin, end = edge_point(first, "b", WSTART, "<"), edge_point(last, "a", WEND, ">")
    edges = f"({begin}.v + {first}.v) / 2 * ({first}.t - {begin}.t) + ({last}.v + {end}.v) / 2 * ({end}.t - {last}.t)"
    span = f"({end}.t - {begin}.t)"
    mean = f"if({span} = 0L, s[0].v, ({area} + {edges}) / nullif({span}, 0L))"
    return AggregateRule(DOUBLE, (SURROUNDED,), over_sorted_list(mean, lists.mean_over_window, WSTART, WEND))


def edge_point(point: str, side: str, edge: str, sign: str) -> str:
    """Return the point at a window's edge on the line to the nearest point beyond it, or the point itself if there is none."""
    beyond = f"{point}.{side}"
    value = f"{point}.v + ({beyond}.v - {point}.v) * ({edge} - {point}.t) / nullif({beyond}.t - {point}.t, 0L)"
    return f"if({beyond}.t {sign} {edge}, named_struct('t', {edge}, 'v', {value}), named_struct('t', {point}.t, 'v', {point}.v))"


def latest_rate(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `irate`: change per second between the last two rows. A counter that fell restarted from 0."""
    last, before = "s[size(s) - 1]", "s[size(s) - 2]"
    change = f"if({last}.v < {before}.v, {last}.v, {last}.v - {before}.v)"
    second = arguments.precision.ticks_per_second
    seconds = f"nullif(({last}.t - {before}.t) / {float(second)!r}D, 0D)"
    rate = over_sorted_list(f"if(size(s) < 2, NULL, {change} / {seconds})", lists.rate_of_last(second))
    return AggregateRule(DOUBLE, (POINTS,), rate)


INCREASE: Final = (
    "aggregate(s, named_struct('v', CAST(NULL AS DOUBLE), 'n', 0D), "
    "(a, e) -> named_struct('v', e.v, 'n', a.n + coalesce(if(e.v < a.v, e.v, e.v - a.v), 0D)), a -> a.n)"
)
"""The sum of the changes between the points of the sorted list `s`. A counter that fell restarted from 0."""


def increase(_: AggregateArguments) -> AggregateRule:
    """Return the rule of `increase`. It keeps points because one that comes late may lie between any two others."""
    return AggregateRule(DOUBLE, (POINTS,), over_sorted_list(INCREASE, lists.increases))


def mean_rate(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `rate`: the increase per second from the first to the last point."""
    second = arguments.precision.ticks_per_second
    seconds = f"nullif((s[size(s) - 1].t - s[0].t) / {float(second)!r}D, 0D)"
    return AggregateRule(DOUBLE, (POINTS,), over_sorted_list(f"{INCREASE} / {seconds}", lists.mean_rates(second)))


def fitted_line(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `leastsquares`: slope and intercept of the fitted line, NULL for one point."""
    start, step = arguments.number(0), arguments.number(1)
    x = f"({float(start)!r}D + a.n * {float(step)!r}D)"
    zero = "named_struct('n', 0L, 'x', 0D, 'y', 0D, 'xy', 0D, 'xx', 0D)"
    add = f"named_struct('n', a.n + 1L, 'x', a.x + {x}, 'y', a.y + e.v, 'xy', a.xy + {x} * e.v, 'xx', a.xx + {x} * {x})"
    rise, run = "(a.xy - a.y * (a.x / a.n))", "(a.xx - a.x * (a.x / a.n))"
    line = f"if({run} = 0D, NULL, array({rise} / {run}, (a.y - {rise} * (a.x / {run})) / a.n))"
    both = over_sorted_list(f"aggregate(s, {zero}, (a, e) -> {add}, a -> {line})", lists.lines(float(start), float(step)))
    return AggregateRule(VARCHAR, (POINTS,), text_of_numbers(line_text, both))


def line_text(line: list[float]) -> str:
    """Write slope and intercept with six decimals, or with all digits if that takes more than 25 characters."""
    texts = [f"{number:.6f}" for number in line]
    slope, intercept = (
        text if len(text) <= MAX_DECIMAL_LENGTH else f"{number:.16e}" for text, number in zip(texts, line, strict=True)
    )
    return f"{{slop:{slope}, intercept:{intercept}}}"


def histogram(arguments: AggregateArguments) -> AggregateRule:
    """Return the rule of `histogram`: one row of JSON per bin. A bin excludes its lower end and includes its upper end."""
    edges = bin_edges(arguments)
    share = arguments.number(2) != 0
    rows = [bin_row(low, high, share) for low, high in pairwise(edges)]
    return AggregateRule(VARCHAR, (VALUES,), call("array", *rows), many=True)


def bin_row(low: float, high: float, share: bool) -> Node:
    """Return the JSON text of a bin. With `share`, the count is a fraction of all values."""
    values = Column("l")
    count = call("count_between", values, double(low), double(high))
    fraction = count / call("nullif", call("size", values), integer(0))
    count_text = call("format_string", string("%.6f"), call("bround", fraction, integer(6))) if share else count.cast("string")
    lead = f'{{"lower_bin":{low:g}, "upper_bin":{high:g}, "count":'
    return call("concat", string(lead), count_text, string("}"))


def linear_bins(description: Any) -> list[float]:
    start, width, count = float(description["start"]), float(description["width"]), int(description["count"])
    return add_infinite_edges([start + width * number for number in range(count + 1)], description)


def logarithmic_bins(description: Any) -> list[float]:
    start, factor, count = float(description["start"]), float(description["factor"]), int(description["count"])
    return add_infinite_edges([start * factor**number for number in range(count + 1)], description)


def add_infinite_edges(edges: list[float], description: Any) -> list[float]:
    return [float("-inf"), *edges, float("inf")] if description.get("infinity") else edges


BINS: Final[dict[str, Callable[[Any], list[float]]]] = {
    "user_input": lambda description: [float(edge) for edge in description],
    "linear_bin": linear_bins,
    "log_bin": logarithmic_bins,
}


def bin_edges(arguments: AggregateArguments) -> list[float]:
    """Return the bin edges that a JSON description gives, or raise an error."""
    kind = arguments.string(0)
    if kind not in BINS:
        raise TypeMismatchError(f"histogram takes {', '.join(BINS)}, not {kind!r}")
    try:
        edges = BINS[kind](json.loads(arguments.string(1)))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise TypeMismatchError(
            f"{arguments.string(1)!r} does not describe the bins of {kind}", hint=f"write them as {EXAMPLES[kind]}"
        ) from None
    if not 2 <= len(edges) <= MAX_BINS + 1 or any(low >= high for low, high in pairwise(edges)):
        raise LimitError(f"histogram takes 1 to {MAX_BINS} bins in ascending order")
    return edges


EXAMPLES: Final = {
    "user_input": "[1, 3, 5]",
    "linear_bin": '{"start": 0, "width": 5, "count": 5, "infinity": true}',
    "log_bin": '{"start": 1, "factor": 2, "count": 5, "infinity": true}',
}

keeping_rows = partial(AggregateFunction, bounded=False)
of_series = partial(keeping_rows, streams=StreamUse.ONE_SERIES)
"""Aggregates of the changes between successive rows, which mean little if the rows are those of several series."""

LIST_TABLE: Final = (
    keeping_rows(
        "histogram",
        NUMERIC,
        histogram,
        "a row of JSON for each bin with the number of values above its lower and up to its upper boundary (u = 1: "
        "the fraction); y is `'user_input'` with z such as `[1, 3, 5]`, `'linear_bin'` or `'log_bin'`",
        4,
        4,
        StreamUse.NONE,
    ),
    of_series(
        "increase",
        NUMERIC,
        increase,
        "sum of the changes between successive values, not extrapolated; a decreasing counter counts as restarted from 0; "
        "0 for a single value",
        one_series=True,
    ),
    of_series(
        "irate",
        NUMERIC,
        latest_rate,
        "change per second between the last two values; a decreasing counter counts as restarted from 0; NULL for a single value",
    ),
    of_series(
        "leastsquares",
        NUMERIC,
        fitted_line,
        "slope and intercept of the least-squares line, as text; the x-coordinates of the values are y, y + z, y + 2z, …",
        3,
        3,
    ),
    keeping_rows("mode", ORDERED, mode, "most frequent value; the smallest one if there are several"),
    keeping_rows(
        "percentile",
        NUMERIC,
        percentile,
        "exact y-th percentile, linearly interpolated; with several percentages, a single text with all results",
        2,
        11,
    ),
    of_series(
        "rate",
        NUMERIC,
        mean_rate,
        "`increase(x)` per second from the first to the last value; NULL for a single value",
        one_series=True,
    ),
    keeping_rows(
        "twa",
        NUMERIC,
        time_weighted,
        "time-weighted average, with linear interpolation between values; for a single value, that value",
        streams=StreamUse.FORCED_CLOSE,
    ),
)
