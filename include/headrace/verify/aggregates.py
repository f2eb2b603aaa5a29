"""Aggregates in DuckDB SQL, in a table by name, each written from its definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.model.expressions import Scalar
from headrace.model.time import Duration, Precision
from headrace.model.types import BIGINT, DOUBLE, INTEGER_BITS, UBIGINT, UNSIGNED, VARCHAR, DataType, TypeKind
from headrace.verify.values import Value, duck_type, to_double, unsupported

TS: Final = "_ts"
START: Final = "_ws"
END: Final = "_we"
"""Columns with a window's first and last instant, both inclusive."""


class ComparisonMode(StrEnum):
    """How a column is compared: exactly (floats to rounding), as text that contains numbers, or as lying in `[low, high]`."""

    EXACT = "exact"
    AS_TEXT = "written"
    IN_RANGE = "within"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One call of an aggregate.

    Attributes:
        function: Its name.
        x: Its first argument, over rows.
        others: The constants after it.
        order: The columns that order rows, the instant first.
        precision: The unit of ticks.
        unique: True if no two rows of a group have the same instant.
        interval: True over INTERVAL windows.
        before: In an INTERVAL, a column with the previous point that has a value, as a struct of `t` and `v`.
        after: The same for the next point.
    """

    function: str
    x: Value
    constants: tuple[Scalar | Duration, ...]
    order: tuple[str, ...]
    precision: Precision
    unique: bool
    interval: bool
    before: str = ""
    after: str = ""

    @property
    def order_by(self) -> str:
        """ORDER BY columns, ascending."""
        return ", ".join(self.order)

    @property
    def order_by_desc(self) -> str:
        """ORDER BY columns, descending."""
        return ", ".join(f"{column} DESC" for column in self.order)

    @property
    def filter_present(self) -> str:
        """FILTER clause that keeps rows with a value."""
        return f"FILTER ({self.x.sql} IS NOT NULL)"

    @property
    def points(self) -> str:
        """List of the points that have a value, in time order."""
        return f"list({{'t': {TS}, 'v': {to_double(self.x)}}} ORDER BY {TS}) {self.filter_present}"

    def number(self, position: int) -> float:
        """Return the constant at a position, which must be a number."""
        value = self.constants[position]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise unsupported(f"{self.function} with {value!r}")
        return value

    def require_unique_instants(self) -> None:
        """Refuse rows that may have the same instant."""
        if not self.unique:
            raise unsupported(f"{self.function} over rows that may have the same instant: PARTITION BY tbname")


Builder = Callable[[AggregateCall], Value]


def count(use: AggregateCall) -> Value:
    """Count the rows with a value."""
    return Value(f"count({use.x.sql})", BIGINT)


def sum_values(use: AggregateCall) -> Value:
    """Sum whole numbers to 64 bits, NULL on overflow; sum others as DOUBLE."""
    type_ = use.x.type or BIGINT
    if type_.kind is TypeKind.DECIMAL:
        return Value(f"CAST(sum({use.x.sql}) AS DECIMAL(38, {type_.scale or 0}))", DataType(TypeKind.DECIMAL, 38, type_.scale))
    if type_.kind in INTEGER_BITS:
        result = UBIGINT if type_.kind in UNSIGNED else BIGINT
        return Value(f"TRY_CAST(sum(CAST({use.x.sql} AS HUGEINT)) AS {duck_type(result)})", result)
    return Value(f"sum({to_double(use.x)})", DOUBLE)


def real_aggregate(sql: str) -> Builder:
    """Return a builder that formats the argument as DOUBLE into `sql`."""
    return lambda use: Value(sql.format(to_double(use.x)), DOUBLE)


def extreme(function: str) -> Builder:
    """Return a builder of `min` or `max`."""
    return lambda use: Value(f"{function}({use.x.sql})", use.x.type)


def selected_value(use: AggregateCall, value: Value) -> Value:
    """Return `value` at the row that a selection function picks.

    The earliest of equal extremes; among equal instants, the row key decides.
    """
    filtered = "" if use.function in ("last_row", "_group_key") else use.filter_present
    if use.function in ("first", "_group_key"):
        order = use.order_by
    elif use.function in ("last", "last_row"):
        order = use.order_by_desc
    else:
        ties = ", ".join(f"{column} DESC" for column in use.order[1:]) if use.function == "max" else ", ".join(use.order[1:])
        order = f"{use.x.sql} {'DESC' if use.function == 'max' else 'ASC'}, {use.order[0]}" + (f", {ties}" if ties else "")
    return Value(f"first({value.sql} ORDER BY {order}) {filtered}", value.type)


def selected_argument(use: AggregateCall) -> Value:
    """Return the argument at the row that the function picks."""
    return selected_value(use, use.x)


def percentile(use: AggregateCall) -> Value:
    """Interpolate between adjacent values; several percentages give a text."""
    quantiles = [f"quantile_cont({to_double(use.x)}, {use.number(position) / 100!r})" for position in range(len(use.constants))]
    if len(quantiles) == 1:
        return Value(quantiles[0], DOUBLE)
    texts = " || ', ' || ".join(f"printf('%.6f', {quantile})" for quantile in quantiles)
    return Value(f"('[' || {texts} || ']')", VARCHAR)


def mode(use: AggregateCall) -> Value:
    """Return the most frequent value, the smallest in a tie."""
    counted = f"map_entries(histogram({use.x.sql}))"
    pairs = f"list_transform({counted}, lambda e: {{'n': -CAST(e.value AS BIGINT), 'v': e.key}})"
    return Value(f"list_sort({pairs})[1].v", use.x.type)


def irate(use: AggregateCall) -> Value:
    """Return the change per second between the last two values; a counter that fell is taken to restart at 0."""
    use.require_unique_instants()
    pair = f"(list({{'t': {TS}, 'v': {to_double(use.x)}}} ORDER BY {TS} DESC) {use.filter_present})"
    last, before = f"{pair}[1]", f"{pair}[2]"
    change = f"CASE WHEN {last}.v < {before}.v THEN {last}.v ELSE {last}.v - {before}.v END"
    return Value(f"(({change}) / (({last}.t - {before}.t) / {float(use.precision.ticks_per_second)!r}))", DOUBLE)


def leastsquares(use: AggregateCall) -> Value:
    """Fit a line through values at start, start + step, …, and return it as text."""
    use.require_unique_instants()
    start, step = float(use.number(0)), float(use.number(1))
    values = f"(list({to_double(use.x)} ORDER BY {TS}) {use.filter_present})"
    x = f"list_transform(range(len({values})), lambda i: {start!r} + i * {step!r})"
    pairs = f"list_zip({x}, {values})"
    count, mean_x, mean_y = f"len({values})", f"list_avg({x})", f"list_avg({values})"
    rise = f"list_sum(list_transform({pairs}, lambda p: (p[1] - {mean_x}) * (p[2] - {mean_y})))"
    run = f"list_sum(list_transform({x}, lambda e: (e - {mean_x}) * (e - {mean_x})))"
    slope = f"({rise} / nullif({run}, 0))"
    written = f"'{{slop:' || printf('%.6f', {slope}) || ', intercept:' || printf('%.6f', {mean_y} - {slope} * {mean_x}) || '}}'"
    return Value(f"(CASE WHEN {count} > 1 THEN {written} END)", VARCHAR)


def twa(use: AggregateCall) -> Value:
    """Divide the area below the line through the points by its length.

    An INTERVAL is extended to its borders if points lie beyond them.
    """
    use.require_unique_instants()
    points = f"({use.points})"
    if use.interval:
        points = f"list_concat(list_concat({left_border(use)}, {points}), {right_border(use)})"
    area = (
        f"list_sum(list_transform(range(1, len({points})), lambda i: "
        f"(({points})[i].v + ({points})[i + 1].v) / 2 * (({points})[i + 1].t - ({points})[i].t)))"
    )
    span = f"(({points})[-1].t - ({points})[1].t)"
    return Value(f"(CASE WHEN {span} = 0 THEN ({points})[1].v ELSE {area} / {span} END)", DOUBLE)


def left_border(use: AggregateCall) -> str:
    """Interpolate the point at the window's first instant, from the point before the window."""
    inner, outer = f"(({use.points})[1])", f"(first({use.before} ORDER BY {TS}) {use.filter_present})"
    return border(inner, outer, f"min({START})", f"{inner}.t > min({START})")


def right_border(use: AggregateCall) -> str:
    """Interpolate the point at the window's last instant, towards the point after the window."""
    inner, outer = f"(({use.points})[-1])", f"(last({use.after} ORDER BY {TS}) {use.filter_present})"
    return border(inner, outer, f"max({END})", f"{inner}.t < max({END})")


def border(inner: str, outer: str, edge: str, is_outside_rows: str) -> str:
    """Interpolate a point at a window's edge: a list of one point, empty unless the edge lies beyond the window's own points."""
    value = f"{inner}.v + ({outer}.v - {inner}.v) * ({edge} - {inner}.t) / ({outer}.t - {inner}.t)"
    return f"CASE WHEN {outer} IS NOT NULL AND {is_outside_rows} THEN [{{'t': {edge}, 'v': {value}}}] ELSE [] END"


def elapsed(use: AggregateCall) -> Value:
    """Measure from the first to the last row in units; in an INTERVAL, from or to a border if rows lie beyond it."""
    unit = use.constants[0] if use.constants else None
    if unit is not None and not isinstance(unit, Duration):
        raise unsupported(f"elapsed in {unit!r}")
    length = 1.0 if unit is None else float(unit.ticks(use.precision))
    first, last = f"min({use.x.sql})", f"max({use.x.sql})"
    if use.interval:
        first = f"CASE WHEN min(({use.before}).t) < min({START}) THEN min({START}) ELSE {first} END"
        last = f"CASE WHEN max(({use.after}).t) > max({END}) THEN max({END}) + 1 ELSE {last} END"
    return Value(f"(({last}) - ({first})) / {length!r}", DOUBLE)


def distinct_range(use: AggregateCall) -> Value:
    """Return the range within which an estimated number of distinct values must lie: 5 % around the exact number."""
    exact = f"count(DISTINCT {use.x.sql})"
    return Value(f"[round({exact} * 0.95::DOUBLE), round({exact} * 1.05::DOUBLE)]", DOUBLE)


def quantile_range(use: AggregateCall) -> Value:
    """Return the range within which an estimated percentile must lie: 3 % of the ranks, plus 2 ranks, around the exact rank."""
    share, values = use.number(0) / 100, f"(list({to_double(use.x)} ORDER BY {to_double(use.x)}) {use.filter_present})"
    count = f"len({values})"
    tolerance = f"(CAST(ceil({count} * 0.03) AS BIGINT) + 2)"
    rank = f"CAST(floor({count} * {share!r}) AS BIGINT)"
    low, high = f"greatest({rank} - {tolerance}, 1)", f"least({rank} + {tolerance}, {count})"
    return Value(f"CASE WHEN {count} > 0 THEN [{values}[{low}], {values}[{high}]] END", DOUBLE)


AGGREGATES: Final[dict[str, Builder]] = {
    "count": count,
    "sum": sum_values,
    "avg": real_aggregate("avg({0})"),
    "min": extreme("min"),
    "max": extreme("max"),
    "spread": real_aggregate("(max({0}) - min({0}))"),
    "first": selected_argument,
    "last": selected_argument,
    "last_row": selected_argument,
    "_group_key": selected_argument,
    "stddev": real_aggregate("stddev_pop({0})"),
    "stddev_pop": real_aggregate("stddev_pop({0})"),
    "stddev_samp": real_aggregate("stddev_samp({0})"),
    "variance": real_aggregate("var_pop({0})"),
    "var_pop": real_aggregate("var_pop({0})"),
    "var_samp": real_aggregate("var_samp({0})"),
    "percentile": percentile,
    "mode": mode,
    "irate": irate,
    "leastsquares": leastsquares,
    "twa": twa,
    "elapsed": elapsed,
    "hyperloglog": distinct_range,
    "apercentile": quantile_range,
}
SELECTIONS: Final = ("min", "max", "first", "last", "last_row")
ROW_FOR_NO_INPUT: Final = ("count", "hyperloglog")
ESTIMATES: Final = ("hyperloglog", "apercentile")
TEXT_RESULTS: Final = ("leastsquares", "percentile")
USE_ADJACENT_POINTS: Final = ("twa", "elapsed")
UNSUPPORTED_AGGREGATES: Final = ("histogram",)
"""Aggregates of the language that verify does not support."""
