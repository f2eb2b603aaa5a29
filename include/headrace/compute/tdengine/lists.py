"""Aggregates whose partial is the list of the values themselves: exact order statistics and what depends on the order of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from headrace.compute.functions.aggregates import NUMERIC, ORDERED, AggregateFunction, Given, PartialRule, Rule
from headrace.compute.functions.stream_use import StreamUse
from headrace.compute.plan import WEND, WSTART
from headrace.compute.tdengine.aggregates import percent
from headrace.compute.terms import text
from headrace.compute.types import spark_type
from headrace.errors import LimitError, TypeMismatchError
from headrace.model.types import DOUBLE, FLOATS, VARCHAR, TypeKind

MAX_BINS: Final = 1000


def listed(element: str, present: str) -> PartialRule:
    """The list of an element for each row that has one."""
    return PartialRule(
        "l",
        f"collect_list(if({present} IS NULL, NULL, {element}))",
        "flatten(collect_list({l}))",
        f"filter(array(if({present} IS NULL, NULL, {element})), e -> e IS NOT NULL)",
    )


def alone(values: PartialRule, aggregate: str) -> PartialRule:
    """A list of values for which, where all rows are at hand, one value stands: that which an aggregate of Spark gives of them."""
    return replace(values, direct=f"filter(array({aggregate}), e -> e IS NOT NULL)")


VALUES: Final = listed("CAST({x} AS DOUBLE)", "{x}")
SURROUNDED: Final = listed("named_struct('t', {t}, 'v', CAST({x} AS DOUBLE), 'b', {before}, 'a', {after})", "{x}")
POINTS: Final = listed("named_struct('t', {t}, 'v', CAST({x} AS DOUBLE))", "{x}")


def sorted_list(body: str) -> str:
    """An expression over the sorted list `s`, NULL where the list is empty."""
    return f"element_at(transform(array(array_sort({{l}})), s -> if(size(s) = 0, NULL, {body})), 1)"


def percentile(given: Given) -> Rule:
    """Exact, interpolated between neighbours; several percentages give one text."""
    shares = [percent(given, place) / 100 for place in range(len(given.constants))]
    if len(shares) == 1:
        return Rule(DOUBLE, (VALUES,), sorted_list(interpolated(shares[0])))
    shown = ", ".join(f"format_string('%.6f', {interpolated(share)})" for share in shares)
    return Rule(VARCHAR, (VALUES,), sorted_list(f"concat('[', concat_ws(', ', {shown}), ']')"))


def interpolated(share: float) -> str:
    place = f"({share!r}D * (size(s) - 1))"
    low, high = f"s[CAST(floor({place}) AS INT)]", f"s[CAST(ceil({place}) AS INT)]"
    return f"({low} + ({high} - {low}) * ({place} - floor({place})))"


def mode(given: Given) -> Rule:
    """The value that occurs most often, the least of them where several do."""
    type_ = spark_type(given.type)
    start = f"named_struct('v', CAST(NULL AS {type_}), 'n', 0, 'b', CAST(NULL AS {type_}), 'm', 0)"
    count = "if(e <=> a.v, a.n + 1, 1)"
    step = f"named_struct('v', e, 'n', {count}, 'b', if({count} > a.m, e, a.b), 'm', greatest({count}, a.m))"
    found = f"aggregate(s, {start}, (a, e) -> {step}, a -> a.b)"
    value = f"if({{x}} = 0, CAST(0 AS {type_}), {{x}})" if given.type.kind in FLOATS else "{x}"
    return Rule(given.type, (alone(listed("{x}", "{x}"), f"mode({value}, true)"),), sorted_list(found))


def time_weighted(given: Given) -> Rule:
    """The mean of the line through the points, in an INTERVAL window from border to border where there are points beyond it; of one
    point its value.
    """
    start = "named_struct('t', CAST(NULL AS BIGINT), 'v', CAST(NULL AS DOUBLE), 'a', 0D)"
    step = "named_struct('t', e.t, 'v', e.v, 'a', a.a + coalesce((e.v + a.v) / 2 * (e.t - a.t), 0D))"
    area = f"aggregate(s, {start}, (a, e) -> {step}, a -> a.a)"
    first, last = "s[0]", "s[size(s) - 1]"
    if not given.interval:
        span = f"({last}.t - {first}.t)"
        return Rule(DOUBLE, (POINTS,), sorted_list(f"if({span} = 0L, s[0].v, {area} / nullif({span}, 0L))"))
    begin, end = border(first, "b", WSTART, "<"), border(last, "a", WEND, ">")
    edges = f"({begin}.v + {first}.v) / 2 * ({first}.t - {begin}.t) + ({last}.v + {end}.v) / 2 * ({end}.t - {last}.t)"
    span = f"({end}.t - {begin}.t)"
    return Rule(DOUBLE, (SURROUNDED,), sorted_list(f"if({span} = 0L, s[0].v, ({area} + {edges}) / nullif({span}, 0L))"))


def border(point: str, side: str, edge: str, sign: str) -> str:
    """The point at a window's edge, on the line to the nearest point beyond it; the point itself where there is none."""
    beyond = f"{point}.{side}"
    value = f"{point}.v + ({beyond}.v - {point}.v) * ({edge} - {point}.t) / nullif({beyond}.t - {point}.t, 0L)"
    return f"if({beyond}.t {sign} {edge}, named_struct('t', {edge}, 'v', {value}), named_struct('t', {point}.t, 'v', {point}.v))"


def latest_rate(given: Given) -> Rule:
    """The change from the last row but one to the last, a second; a counter that fell has begun from 0."""
    last, before = "s[size(s) - 1]", "s[size(s) - 2]"
    change = f"if({last}.v < {before}.v, {last}.v, {last}.v - {before}.v)"
    seconds = f"nullif(({last}.t - {before}.t) / {float(given.precision.ticks_per_second)!r}D, 0D)"
    return Rule(DOUBLE, (POINTS,), sorted_list(f"if(size(s) < 2, NULL, {change} / {seconds})"))


def line(given: Given) -> Rule:
    """Slope and intercept of the line that fits best, x counted from a start in steps; there is none through one point."""
    start, step = given.number(0), given.number(1)
    x = f"({float(start)!r}D + a.n * {float(step)!r}D)"
    zero = "named_struct('n', 0L, 'x', 0D, 'y', 0D, 'xy', 0D, 'xx', 0D)"
    add = f"named_struct('n', a.n + 1L, 'x', a.x + {x}, 'y', a.y + e.v, 'xy', a.xy + {x} * e.v, 'xx', a.xx + {x} * {x})"
    slope = "((a.n * a.xy - a.x * a.y) / nullif(a.n * a.xx - a.x * a.x, 0D))"
    written = f"format_string('{{{{slop:%.6f, intercept:%.6f}}}}', {slope}, (a.y - {slope} * a.x) / a.n)"
    shown = f"if({slope} IS NULL, NULL, {written})"
    return Rule(VARCHAR, (POINTS,), sorted_list(f"aggregate(s, {zero}, (a, e) -> {add}, a -> {shown})"))


def histogram(given: Given) -> Rule:
    """One row for each bin, as JSON text; a bin holds what is above its lower and not above its upper end."""
    edges = bin_edges(given)
    share = given.number(2) != 0
    rows = [bin_row(low, high, share) for low, high in pairwise(edges)]
    return Rule(VARCHAR, (VALUES,), f"array({', '.join(rows)})", many=True)


def bin_row(low: float, high: float, share: bool) -> str:
    count = f"size(filter({{l}}, e -> e > {double(low)} AND e <= {double(high)}))"
    shown = f"format_string('%.6f', {count} / nullif(size({{l}}), 0))" if share else f"CAST({count} AS STRING)"
    lead = f'{{{{"lower_bin":{low:g}, "upper_bin":{high:g}, "count":'
    return f"concat({text(lead)}, {shown}, '}}}}')"


def double(value: float) -> str:
    return f"CAST('{value}' AS DOUBLE)"


def user_bins(description: Any) -> list[float]:
    return [float(edge) for edge in description]


def linear_bins(description: Any) -> list[float]:
    start, width, count = float(description["start"]), float(description["width"]), int(description["count"])
    return with_ends([start + width * number for number in range(count + 1)], description)


def logarithmic_bins(description: Any) -> list[float]:
    start, factor, count = float(description["start"]), float(description["factor"]), int(description["count"])
    return with_ends([start * factor**number for number in range(count + 1)], description)


def with_ends(edges: list[float], description: Any) -> list[float]:
    return [float("-inf"), *edges, float("inf")] if description.get("infinity") else edges


BINS: Final[dict[str, Callable[[Any], list[float]]]] = {
    "user_input": user_bins,
    "linear_bin": linear_bins,
    "log_bin": logarithmic_bins,
}


def bin_edges(given: Given) -> list[float]:
    """The ends of the bins that a description in JSON gives."""
    kind = given.words(0)
    if kind not in BINS:
        raise TypeMismatchError(f"histogram knows {', '.join(BINS)}, not {kind!r}")
    try:
        edges = BINS[kind](json.loads(given.words(1)))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise TypeMismatchError(
            f"{given.words(1)!r} does not describe the bins of {kind}", hint=f"write them as {EXAMPLES[kind]}"
        ) from None
    if not 2 <= len(edges) <= MAX_BINS + 1 or any(low >= high for low, high in pairwise(edges)):
        raise LimitError(f"histogram takes 1 to {MAX_BINS} bins in ascending order")
    return edges


EXAMPLES: Final = {
    "user_input": "[1, 3, 5]",
    "linear_bin": '{"start": 0, "width": 5, "count": 5, "infinity": true}',
    "log_bin": '{"start": 1, "factor": 2, "count": 5, "infinity": true}',
}


def only_queries(
    name: str,
    accepts: frozenset[TypeKind],
    rule: Callable[[Given], Rule],
    summary: str,
    least: int = 1,
    most: int = 1,
    streams: StreamUse = StreamUse.NONE,
) -> AggregateFunction:
    return AggregateFunction(name, accepts, rule, summary, least=least, most=most, bounded=False, streams=streams)


LIST_TABLE: Final = (
    only_queries(
        "histogram",
        NUMERIC,
        histogram,
        "a row of JSON for each bin: how many values lie above its lower and not above its upper end (with u = 1: which share); "
        "y is `'user_input'` with z such as `[1, 3, 5]`, `'linear_bin'` or `'log_bin'`",
        4,
        4,
    ),
    only_queries(
        "irate",
        NUMERIC,
        latest_rate,
        "change from the last value but one to the last, a second; a counter that fell has begun from 0; NULL of one value",
    ),
    only_queries(
        "leastsquares",
        NUMERIC,
        line,
        "slope and intercept of the line that fits best, as text; the values stand at y, y + z, y + 2z, …",
        3,
        3,
    ),
    only_queries("mode", ORDERED, mode, "value that occurs most often, the least of them where several do"),
    only_queries(
        "percentile",
        NUMERIC,
        percentile,
        "exact y-th percentile, on the line between two values; of several percentages one text",
        2,
        11,
    ),
    only_queries(
        "twa",
        NUMERIC,
        time_weighted,
        "mean of the line through the values over time; of one value that value",
        streams=StreamUse.FORCED_CLOSE,
    ),
)
