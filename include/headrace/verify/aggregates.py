"""Aggregates in DuckDB, in one table by name, each written from its definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.model.expressions import Scalar
from headrace.model.time import Duration, Precision
from headrace.model.types import BIGINT, DOUBLE, INTEGER_BITS, UBIGINT, UNSIGNED, VARCHAR, DataType, TypeKind
from headrace.verify.values import Value, duck_type, real, unknown

TS: Final = "_ts"
START: Final = "_ws"
END: Final = "_we"
"""Of a window: its first and last instant, both inclusive."""


class Likeness(StrEnum):
    """How a column is compared: exactly (floats to rounding), as text with numbers in it, or as lying in `[least, most]`."""

    EXACT = "exact"
    WRITTEN = "written"
    WITHIN = "within"


@dataclass(frozen=True, slots=True)
class AggregateUse:
    """One use of an aggregate: its argument over rows, the constants after it, and what orders rows.

    `unique` tells that no two rows of a group have the same instant; `interval` that it is taken over INTERVAL windows; `before`
    and `after` are then columns with the nearest points that have a value, as structs of `t` and `v`.
    """

    function: str
    x: Value
    others: tuple[Scalar | Duration, ...]
    order: tuple[str, ...]
    precision: Precision
    unique: bool
    interval: bool
    before: str = ""
    after: str = ""

    @property
    def ordered(self) -> str:
        return ", ".join(self.order)

    @property
    def backwards(self) -> str:
        return ", ".join(f"{column} DESC" for column in self.order)

    @property
    def present(self) -> str:
        return f"FILTER ({self.x.sql} IS NOT NULL)"

    @property
    def points(self) -> str:
        """The list of points that have a value, in time."""
        return f"list({{'t': {TS}, 'v': {real(self.x)}}} ORDER BY {TS}) {self.present}"

    def number(self, place: int) -> float:
        value = self.others[place]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise unknown(f"{self.function} with {value!r}")
        return value

    def needs_unique(self) -> None:
        if not self.unique:
            raise unknown(f"{self.function} over rows that may have the same instant: PARTITION BY tbname")


Build = Callable[[AggregateUse], Value]


def count(use: AggregateUse) -> Value:
    return Value(f"count({use.x.sql})", BIGINT)


def total(use: AggregateUse) -> Value:
    """Whole numbers to 64 bits, NULL beyond; others DOUBLE."""
    type_ = use.x.type or BIGINT
    if type_.kind is TypeKind.DECIMAL:
        return Value(f"CAST(sum({use.x.sql}) AS DECIMAL(38, {type_.scale or 0}))", DataType(TypeKind.DECIMAL, 38, type_.scale))
    if type_.kind in INTEGER_BITS:
        result = UBIGINT if type_.kind in UNSIGNED else BIGINT
        return Value(f"TRY_CAST(sum(CAST({use.x.sql} AS HUGEINT)) AS {duck_type(result)})", result)
    return Value(f"sum({real(use.x)})", DOUBLE)


def of_reals(sql: str) -> Build:
    return lambda use: Value(sql.format(real(use.x)), DOUBLE)


def extreme(function: str) -> Build:
    return lambda use: Value(f"{function}({use.x.sql})", use.x.type)


def chosen(use: AggregateUse, value: Value) -> Value:
    """A value of the row that a selection function picks: of equal extremes the earliest; of equal instants by the row's key."""
    filtered = "" if use.function in ("last_row", "_group_key") else use.present
    if use.function in ("first", "_group_key"):
        order = use.ordered
    elif use.function in ("last", "last_row"):
        order = use.backwards
    else:
        ties = ", ".join(f"{column} DESC" for column in use.order[1:]) if use.function == "max" else ", ".join(use.order[1:])
        order = f"{use.x.sql} {'DESC' if use.function == 'max' else 'ASC'}, {use.order[0]}" + (f", {ties}" if ties else "")
    return Value(f"first({value.sql} ORDER BY {order}) {filtered}", value.type)


def itself(use: AggregateUse) -> Value:
    return chosen(use, use.x)


def percentile(use: AggregateUse) -> Value:
    """Interpolated between neighbours; of several percentages a text."""
    found = [f"quantile_cont({real(use.x)}, {use.number(place) / 100!r})" for place in range(len(use.others))]
    if len(found) == 1:
        return Value(found[0], DOUBLE)
    shown = " || ', ' || ".join(f"printf('%.6f', {each})" for each in found)
    return Value(f"('[' || {shown} || ']')", VARCHAR)


def mode(use: AggregateUse) -> Value:
    """The most frequent value, the least of several."""
    counted = f"map_entries(histogram({use.x.sql}))"
    pairs = f"list_transform({counted}, lambda e: {{'n': -CAST(e.value AS BIGINT), 'v': e.key}})"
    return Value(f"list_sort({pairs})[1].v", use.x.type)


def irate(use: AggregateUse) -> Value:
    """The change from the last value but one to the last, a second; a counter that fell has begun from 0."""
    use.needs_unique()
    pair = f"(list({{'t': {TS}, 'v': {real(use.x)}}} ORDER BY {TS} DESC) {use.present})"
    last, before = f"{pair}[1]", f"{pair}[2]"
    change = f"CASE WHEN {last}.v < {before}.v THEN {last}.v ELSE {last}.v - {before}.v END"
    return Value(f"(({change}) / (({last}.t - {before}.t) / {float(use.precision.ticks_per_second)!r}))", DOUBLE)


def leastsquares(use: AggregateUse) -> Value:
    """The line through values at start, start + step, …, as text."""
    use.needs_unique()
    start, step = float(use.number(0)), float(use.number(1))
    values = f"(list({real(use.x)} ORDER BY {TS}) {use.present})"
    x = f"list_transform(range(len({values})), lambda i: {start!r} + i * {step!r})"
    pairs = f"list_zip({x}, {values})"
    count, mean_x, mean_y = f"len({values})", f"list_avg({x})", f"list_avg({values})"
    rise = f"list_sum(list_transform({pairs}, lambda p: (p[1] - {mean_x}) * (p[2] - {mean_y})))"
    run = f"list_sum(list_transform({x}, lambda e: (e - {mean_x}) * (e - {mean_x})))"
    slope = f"({rise} / nullif({run}, 0))"
    written = f"'{{slop:' || printf('%.6f', {slope}) || ', intercept:' || printf('%.6f', {mean_y} - {slope} * {mean_x}) || '}}'"
    return Value(f"(CASE WHEN {count} > 1 THEN {written} END)", VARCHAR)


def twa(use: AggregateUse) -> Value:
    """The area below the line through the points by its length; in an INTERVAL from border to border where points lie beyond."""
    use.needs_unique()
    points = f"({use.points})"
    if use.interval:
        points = f"list_concat(list_concat({left_border(use)}, {points}), {right_border(use)})"
    area = (
        f"list_sum(list_transform(range(1, len({points})), lambda i: "
        f"(({points})[i].v + ({points})[i + 1].v) / 2 * (({points})[i + 1].t - ({points})[i].t)))"
    )
    span = f"(({points})[-1].t - ({points})[1].t)"
    return Value(f"(CASE WHEN {span} = 0 THEN ({points})[1].v ELSE {area} / {span} END)", DOUBLE)


def left_border(use: AggregateUse) -> str:
    """The point at the window's first instant, on the line from the point before the window."""
    own, beyond = f"(({use.points})[1])", f"(first({use.before} ORDER BY {TS}) {use.present})"
    return border(own, beyond, f"min({START})", f"{own}.t > min({START})")


def right_border(use: AggregateUse) -> str:
    """The point at the window's last instant, on the line to the point after the window."""
    own, beyond = f"(({use.points})[-1])", f"(last({use.after} ORDER BY {TS}) {use.present})"
    return border(own, beyond, f"max({END})", f"{own}.t < max({END})")


def border(own: str, beyond: str, edge: str, inside: str) -> str:
    value = f"{own}.v + ({beyond}.v - {own}.v) * ({edge} - {own}.t) / ({beyond}.t - {own}.t)"
    return f"CASE WHEN {beyond} IS NOT NULL AND {inside} THEN [{{'t': {edge}, 'v': {value}}}] ELSE [] END"


def elapsed(use: AggregateUse) -> Value:
    """From the first to the last row in units; an INTERVAL is counted up to a border beyond which there are rows."""
    unit = use.others[0] if use.others else None
    if unit is not None and not isinstance(unit, Duration):
        raise unknown(f"elapsed in {unit!r}")
    length = 1.0 if unit is None else float(unit.ticks(use.precision))
    first, last = f"min({use.x.sql})", f"max({use.x.sql})"
    if use.interval:
        first = f"CASE WHEN min(({use.before}).t) < min({START}) THEN min({START}) ELSE {first} END"
        last = f"CASE WHEN max(({use.after}).t) > max({END}) THEN max({END}) + 1 ELSE {last} END"
    return Value(f"(({last}) - ({first})) / {length!r}", DOUBLE)


def distinct_range(use: AggregateUse) -> Value:
    """What an estimate of the number of distinct values may be: 5 % beside it."""
    exact = f"count(DISTINCT {use.x.sql})"
    return Value(f"[round({exact} * 0.95::DOUBLE), round({exact} * 1.05::DOUBLE)]", DOUBLE)


def quantile_range(use: AggregateUse) -> Value:
    """What an estimate of a percentile may be: values at most 3 % of the ranks, and 2 ranks, beside it."""
    share, values = use.number(0) / 100, f"(list({real(use.x)} ORDER BY {real(use.x)}) {use.present})"
    count = f"len({values})"
    beside = f"(CAST(ceil({count} * 0.03) AS BIGINT) + 2)"
    at = f"CAST(floor({count} * {share!r}) AS BIGINT)"
    low, high = f"greatest({at} - {beside}, 1)", f"least({at} + {beside}, {count})"
    return Value(f"CASE WHEN {count} > 0 THEN [{values}[{low}], {values}[{high}]] END", DOUBLE)


AGGREGATES: Final[dict[str, Build]] = {
    "count": count,
    "sum": total,
    "avg": of_reals("avg({0})"),
    "min": extreme("min"),
    "max": extreme("max"),
    "spread": of_reals("(max({0}) - min({0}))"),
    "first": itself,
    "last": itself,
    "last_row": itself,
    "_group_key": itself,
    "stddev": of_reals("stddev_pop({0})"),
    "stddev_pop": of_reals("stddev_pop({0})"),
    "stddev_samp": of_reals("stddev_samp({0})"),
    "variance": of_reals("var_pop({0})"),
    "var_pop": of_reals("var_pop({0})"),
    "var_samp": of_reals("var_samp({0})"),
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
ALWAYS_A_ROW: Final = ("count", "hyperloglog")
ESTIMATES: Final = ("hyperloglog", "apercentile")
WRITTEN: Final = ("leastsquares", "percentile")
SURROUNDED: Final = ("twa", "elapsed")
KNOWN_ELSEWHERE: Final = ("histogram",)
"""Aggregates of the language that verify does not know."""
