"""Aggregates in DuckDB SQL, in a table by name, each written from its definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from headrace.model.expressions import Call, DurationLiteral, Expression, Scalar, walk
from headrace.model.time import Duration
from headrace.model.types import BIGINT, DOUBLE, INTEGER_BITS, UBIGINT, UNSIGNED, VARCHAR, DataType, TypeKind
from headrace.verify.expressions import Compiler
from headrace.verify.steps import END, START, TS, Partition
from headrace.verify.tdengine.conversions import to_double
from headrace.verify.values import Value, duck_type, unsupported

Constants = tuple[Scalar | Duration, ...]


@dataclass(frozen=True, slots=True)
class RowsCall:
    """One call: its first argument over rows, the constants after it, and how rows are partitioned and ordered, by time first."""

    function: str
    x: Value
    constants: Constants
    rows: Partition
    compiler: Compiler

    @property
    def present(self) -> str:
        """Condition that the argument has a value."""
        return f"{self.x.sql} IS NOT NULL"

    def number(self, position: int, default: int | None = None) -> float:
        """Return the constant at a position, which must be a number."""
        value = self.constants[position] if position < len(self.constants) else default
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise unsupported(f"{self.function} with {value!r}")
        return float(value) if isinstance(value, Decimal) else value


def constants_of(rows: Compiler, call: Call) -> Constants:
    """Return the arguments of a call after the first, which must be constants."""

    def constant(node: Expression) -> Scalar | Duration:
        if isinstance(node, DurationLiteral):
            return node.value
        value = rows.value(node)
        if not value.is_constant:
            raise unsupported(f"{call.function} with arguments that are not constant")
        return value.constant

    return tuple(constant(node) for node in call.arguments[1:])


def calls_of(node: Expression, *functions: str) -> list[Call]:
    return [part for part in walk(node) if isinstance(part, Call) and part.function in functions]


@dataclass(frozen=True, slots=True)
class AggregateCall(RowsCall):
    """One call of an aggregate; `unique` if no two rows of a group have the same instant.

    Over INTERVAL windows (`interval`), `before` and `after` are columns with the previous and the next point that has a value, as
    structs of `t` and `v`.
    """

    unique: bool = True
    interval: bool = False
    before: str = ""
    after: str = ""

    @property
    def filter_present(self) -> str:
        """FILTER clause that keeps rows with a value."""
        return f"FILTER ({self.present})"

    def ordered(self, value: str, order: str = TS) -> str:
        """List of a value at the rows that have one, in time order."""
        return f"(list({value} ORDER BY {order}) {self.filter_present})"

    @property
    def points(self) -> str:
        """List of the points that have a value, in time order."""
        return self.ordered(self.point)

    @property
    def point(self) -> str:
        """A row as a point."""
        return f"{{'t': {TS}, 'v': {to_double(self.x)}}}"

    def require_unique_instants(self) -> None:
        """Refuse rows that may have the same instant."""
        if not self.unique:
            raise unsupported(f"{self.function} over rows that may have the same instant: PARTITION BY tbname")


Rule = Callable[[AggregateCall], Value]


def _sum(use: AggregateCall) -> Value:
    """Sum whole numbers to 64 bits, NULL on overflow; sum others as DOUBLE."""
    type_ = use.x.type or BIGINT
    if type_.kind is TypeKind.DECIMAL:
        return Value(f"CAST(sum({use.x.sql}) AS DECIMAL(38, {type_.scale or 0}))", DataType(TypeKind.DECIMAL, 38, type_.scale))
    if type_.kind in INTEGER_BITS:
        result = UBIGINT if type_.kind in UNSIGNED else BIGINT
        return Value(f"TRY_CAST(sum(CAST({use.x.sql} AS HUGEINT)) AS {duck_type(result)})", result)
    return Value(f"sum({to_double(use.x)})", DOUBLE)


def _real(sql: str) -> Rule:
    return lambda use: Value(sql.format(to_double(use.x)), DOUBLE)


def _extreme(function: str) -> Rule:
    return lambda use: Value(f"{function}({use.x.sql})", use.x.type)


def selected_value(use: AggregateCall, value: Value) -> Value:
    """Return `value` at the row that a selection function picks.

    The earliest of equal extremes; among equal instants, the row key decides.
    """
    time, *ties = use.rows.order
    latest = [f"{column} DESC" for column in ties]
    order = {
        "first": [time, *ties],
        "_group_key": [time, *ties],
        "last": [f"{time} DESC", *latest],
        "last_row": [f"{time} DESC", *latest],
        "max": [f"{use.x.sql} DESC", time, *latest],
        "min": [f"{use.x.sql} ASC", time, *ties],
    }[use.function]
    filtered = "" if use.function in ("last_row", "_group_key") else use.filter_present
    return Value(f"first({value.sql} ORDER BY {', '.join(order)}) {filtered}", value.type)


def _percentile(use: AggregateCall) -> Value:
    """Interpolate between adjacent values; several percentages give a text."""
    quantiles = [f"quantile_cont({to_double(use.x)}, {use.number(position) / 100!r})" for position in range(len(use.constants))]
    if len(quantiles) == 1:
        return Value(quantiles[0], DOUBLE)
    texts = " || ', ' || ".join(f"printf('%.6f', {quantile})" for quantile in quantiles)
    return Value(f"('[' || {texts} || ']')", VARCHAR)


def _mode(use: AggregateCall) -> Value:
    """Return the most frequent value, the smallest in a tie."""
    counted = f"map_entries(histogram({use.x.sql}))"
    pairs = f"list_transform({counted}, lambda e: {{'n': -CAST(e.value AS BIGINT), 'v': e.key}})"
    return Value(f"list_sort({pairs})[1].v", use.x.type)


def _irate(use: AggregateCall) -> Value:
    """Return the change per second between the last two values; a counter that fell is taken to restart at 0."""
    use.require_unique_instants()
    pair = use.ordered(use.point, f"{TS} DESC")
    last, before = f"{pair}[1]", f"{pair}[2]"
    return Value(f"({_counter_change(before, last)} / {_seconds(use, before, last)})", DOUBLE)


def _counter_change(before: str, after: str) -> str:
    return f"(CASE WHEN {after}.v < {before}.v THEN {after}.v ELSE {after}.v - {before}.v END)"


def _seconds(use: AggregateCall, first: str, last: str) -> str:
    return f"(({last}.t - {first}.t) / {float(use.compiler.precision.ticks_per_second)!r})"


def _increase(use: AggregateCall) -> Value:
    """Add up the changes between successive values; a counter that fell is taken to restart at 0."""
    use.require_unique_instants()
    points = use.points
    change = _counter_change(f"({points})[i]", f"({points})[i + 1]")
    changes = f"list_transform(range(1, len({points})), lambda i: {change})"
    return Value(f"(CASE WHEN len({points}) > 0 THEN coalesce(list_sum({changes}), 0) END)", DOUBLE)


def _rate(use: AggregateCall) -> Value:
    """Divide the increase by the time from the first to the last value."""
    increase = _increase(use)
    return Value(f"({increase.sql} / nullif({_seconds(use, f'({use.points})[1]', f'({use.points})[-1]')}, 0))", DOUBLE)


def _leastsquares(use: AggregateCall) -> Value:
    """Fit a line through values at start, start + step, …, and return it as text."""
    use.require_unique_instants()
    start, step = float(use.number(0)), float(use.number(1))
    values = use.ordered(to_double(use.x))
    x = f"list_transform(range(len({values})), lambda i: {start!r} + i * {step!r})"
    sum_x, sum_y, count = f"list_sum({x})", f"list_sum({values})", f"len({values})"
    sum_xy = f"list_sum(list_transform(list_zip({x}, {values}), lambda p: p[1] * p[2]))"
    rise = f"({sum_xy} - {sum_y} * ({sum_x} / {count}))"
    run = f"nullif(list_sum(list_transform({x}, lambda e: e * e)) - {sum_x} * ({sum_x} / {count}), 0)"
    slope, intercept = f"({rise} / {run})", f"(({sum_y} - {rise} * ({sum_x} / {run})) / {count})"
    return Value(f"('{{slop:' || {_line_number(slope)} || ', intercept:' || {_line_number(intercept)} || '}}')", VARCHAR)


def _line_number(number: str) -> str:
    short = f"printf('%.6f', {number})"
    return f"CASE WHEN length({short}) > 25 THEN printf('%.16e', {number}) ELSE {short} END"


def _twa(use: AggregateCall) -> Value:
    """Divide the area below the line through the points by its length.

    An INTERVAL is extended to its borders if points lie beyond them.
    """
    use.require_unique_instants()
    points = use.points
    if use.interval:
        first, last = f"({points}[1])", f"({points}[-1])"
        outer = [
            f"(first({use.before} ORDER BY {TS}) {use.filter_present})",
            f"(last({use.after} ORDER BY {TS}) {use.filter_present})",
        ]
        left = _border(first, outer[0], f"min({START})", f"{first}.t > min({START})")
        right = _border(last, outer[1], f"max({END})", f"{last}.t < max({END})")
        points = f"list_concat(list_concat({left}, {points}), {right})"
    area = (
        f"list_sum(list_transform(range(1, len({points})), lambda i: "
        f"(({points})[i].v + ({points})[i + 1].v) / 2 * (({points})[i + 1].t - ({points})[i].t)))"
    )
    span = f"(({points})[-1].t - ({points})[1].t)"
    return Value(f"(CASE WHEN {span} = 0 THEN ({points})[1].v ELSE {area} / {span} END)", DOUBLE)


def _border(inner: str, outer: str, edge: str, is_outside_rows: str) -> str:
    """Interpolate a point at a window's edge: a list of one point, empty unless the edge lies beyond the window's own points."""
    value = f"{inner}.v + ({outer}.v - {inner}.v) * ({edge} - {inner}.t) / ({outer}.t - {inner}.t)"
    return f"CASE WHEN {outer} IS NOT NULL AND {is_outside_rows} THEN [{{'t': {edge}, 'v': {value}}}] ELSE [] END"


def _elapsed(use: AggregateCall) -> Value:
    """Measure from the first to the last row in units; in an INTERVAL, from or to a border if rows lie beyond it."""
    unit = use.constants[0] if use.constants else None
    if unit is not None and not isinstance(unit, Duration):
        raise unsupported(f"elapsed in {unit!r}")
    length = 1.0 if unit is None else float(unit.ticks(use.compiler.precision))
    first, last = f"min({use.x.sql})", f"max({use.x.sql})"
    if use.interval:
        first = f"CASE WHEN min(({use.before}).t) < min({START}) THEN min({START}) ELSE {first} END"
        last = f"CASE WHEN max(({use.after}).t) > max({END}) THEN max({END}) + 1 ELSE {last} END"
    return Value(f"(({last}) - ({first})) / {length!r}", DOUBLE)


def _distinct_range(use: AggregateCall) -> Value:
    """Return the range within which an estimated number of distinct values must lie: 5 % around the exact number."""
    exact = f"count(DISTINCT {use.x.sql})"
    return Value(f"[round({exact} * 0.95::DOUBLE), round({exact} * 1.05::DOUBLE)]", DOUBLE)


def _quantile_range(use: AggregateCall) -> Value:
    """Return the range within which an estimated percentile must lie: 3 % of the ranks, plus 2 ranks, around the exact rank."""
    share, values = use.number(0) / 100, use.ordered(to_double(use.x), to_double(use.x))
    count = f"len({values})"
    tolerance = f"(CAST(ceil({count} * 0.03) AS BIGINT) + 2)"
    rank = f"CAST(floor({count} * {share!r}) AS BIGINT)"
    low, high = f"greatest({rank} - {tolerance}, 1)", f"least({rank} + {tolerance}, {count})"
    return Value(f"CASE WHEN {count} > 0 THEN [{values}[{low}], {values}[{high}]] END", DOUBLE)


def _average(use: AggregateCall) -> Value:
    """Average numbers as DOUBLE, those of type DECIMAL exactly to at least six digits, rounded half away from zero."""
    if not use.x.is_kind(TypeKind.DECIMAL):
        return _real("avg({0})")(use)
    assert use.x.type is not None
    scale, more = use.x.type.scale or 0, max(6 - (use.x.type.scale or 0), 0)
    total = f"CAST(replace(CAST(CAST(sum({use.x.sql}) AS DECIMAL(38, {scale})) AS VARCHAR), '.', '') AS HUGEINT)"
    count = f"count({use.x.sql})"
    quotient = f"CAST((2 * abs({total}) * {10**more} + {count}) // (2 * {count}) AS VARCHAR)"
    digits = f"lpad({quotient}, CAST(greatest({scale + more + 1}, length({quotient})) AS INTEGER), '0')"
    sign = f"CASE WHEN {total} < 0 THEN '-' ELSE '' END"
    text = f"{sign} || {digits}[:{-(scale + more) - 1}] || '.' || {digits}[{-(scale + more)}:]"
    type_ = DataType(TypeKind.DECIMAL, 38, scale + more)
    return Value(f"CASE WHEN {count} > 0 THEN CAST({text} AS {duck_type(type_)}) END", type_)


SELECTIONS: Final = ("min", "max", "first", "last", "last_row")
AGGREGATES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("first", "last", "last_row", "_group_key"), lambda use: selected_value(use, use.x)),
    **dict.fromkeys(("stddev", "stddev_pop"), _real("stddev_pop({0})")),
    **dict.fromkeys(("variance", "var_pop"), _real("var_pop({0})")),
    **{name: _real(f"{name}({{0}})") for name in ("stddev_samp", "var_samp")},
    **{name: _extreme(name) for name in ("min", "max")},
    "avg": _average,
    "count": lambda use: Value(f"count({use.x.sql})", BIGINT),
    "sum": _sum,
    "spread": _real("(max({0}) - min({0}))"),
    "percentile": _percentile,
    "mode": _mode,
    "increase": _increase,
    "irate": _irate,
    "leastsquares": _leastsquares,
    "rate": _rate,
    "twa": _twa,
    "elapsed": _elapsed,
    "hyperloglog": _distinct_range,
    "apercentile": _quantile_range,
}
ROW_FOR_NO_INPUT: Final = ("count", "hyperloglog")
ESTIMATES: Final = ("hyperloglog", "apercentile")
TEXT_RESULTS: Final = ("leastsquares", "percentile")
USE_ADJACENT_POINTS: Final = ("twa", "elapsed")
UNSUPPORTED: Final = ("histogram",)
"""Aggregates of the language that verify does not support."""
