"""Time-series functions: from the points of a series to points at some of their instants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.model.expressions import Call, Expression, walk
from headrace.model.types import BIGINT, DOUBLE, DataType, TypeKind
from headrace.verify.expressions import Compiler
from headrace.verify.iotdb.conversions import NUMBERS
from headrace.verify.steps import TS, Partition, Steps
from headrace.verify.values import FLOATS, Value, duck_type, unsupported

MAX_INT64: Final = 2**63 - 1
_BY_TIME: Final = Partition(("_device",), (TS,)).over()
_FIRST_EXTREMES: Final = "list(n ORDER BY x, n)[1] AS low, list(n ORDER BY x DESC, n)[1] AS high"
"""Positions of the first least and the first greatest value."""


@dataclass(frozen=True, slots=True)
class Points:
    """The points of the argument of a call: `_device`, `_ts`, the value `x` of a type, and the position `n` from 0, of each."""

    call: Call
    steps: Steps
    relation: str
    type: DataType

    @property
    def attributes(self) -> dict[str, str]:
        """The named constants of the call."""
        return dict(self.call.attributes)

    def need_number(self) -> None:
        """Raise `NotSupportedError` unless values are numbers."""
        if self.type.kind not in NUMBERS:
            raise unsupported(f"{self.call.function} of {self.type}")

    def refuse_nan(self) -> None:
        """Raise `NotSupportedError` if a value is NaN, which has no place in the order of values."""
        if self.type.kind in FLOATS and self.steps.has_rows(f"SELECT 1 FROM {self.relation} WHERE isnan(x)"):
            raise unsupported(f"{self.call.function} of NaN")

    def before(self, value: str) -> str:
        """Return the points with a value made of `x`, `_ts` and those of the point before, `px` and `pt`."""
        previous = f"SELECT *, lag(x) {_BY_TIME} AS px, lag({TS}) {_BY_TIME} AS pt FROM {self.relation}"
        return f"SELECT _device, {TS}, {value} AS v FROM ({previous})"


Rule = Callable[[Points], tuple[str, DataType]]
"""Returns a query with `_device`, `_ts` and the value `v` of each point of the result, and the type of `v`."""


def _difference(wrap: str) -> Rule:
    def rule(points: Points) -> tuple[str, DataType]:
        points.need_number()
        if points.type.kind in FLOATS:
            return points.before(f"{wrap}(x - px)"), points.type
        exact = f"TRY_CAST(CAST(x AS HUGEINT) - px AS {duck_type(points.type)})"
        return points.before(f"TRY_CAST({wrap}(CAST({exact} AS HUGEINT)) AS {duck_type(points.type)})"), points.type

    return rule


def _derivative(wrap: str) -> Rule:
    """Return the rule of the change per tick since the point before; FLOAT is subtracted as FLOAT."""

    def rule(points: Points) -> tuple[str, DataType]:
        points.need_number()
        type_ = duck_type(points.type) if points.type.kind is TypeKind.FLOAT else "DOUBLE"
        return points.before(f"{wrap}(CAST(CAST(x AS {type_}) - CAST(px AS {type_}) AS DOUBLE) / ({TS} - pt))"), DOUBLE

    return rule


def _change_points(points: Points) -> tuple[str, DataType]:
    """Return the points that differ from the one before, and the first. NaN differs from everything."""
    differs = "px IS NULL OR x <> px" + (" OR isnan(x)" if points.type.kind in FLOATS else "")
    return points.before(f"CASE WHEN {differs} THEN x END"), points.type


def _diff(points: Points) -> tuple[str, DataType]:
    points.need_number()
    return points.before("CAST(x AS DOUBLE) - CAST(px AS DOUBLE)"), DOUBLE


def _runs(value: str, least: int, *, zero: bool) -> Rule:
    """Return the rule of a value at the first point of each run of zeros or of other values, within the bounds `min` and `max`."""

    def rule(points: Points) -> tuple[str, DataType]:
        if points.type.kind is not TypeKind.BOOL:
            points.need_number()
        is_zero = "NOT x" if points.type.kind is TypeKind.BOOL else "x = 0"
        member = f"({is_zero})" if zero else f"NOT ({is_zero})"
        low, high = int(points.attributes.get("min", least)), int(points.attributes.get("max", MAX_INT64))
        # Members of a run have the same number of other points before them.
        others = f"sum(CASE WHEN {member} THEN 0 ELSE 1 END) {_BY_TIME}"
        numbered = f"SELECT *, {others} AS run FROM {points.relation}"
        grouped = f"SELECT _device, min({TS}) AS {TS}, {value} AS v FROM ({numbered}) WHERE {member} GROUP BY _device, run"
        return f"SELECT * FROM ({grouped}) WHERE v BETWEEN {low} AND {high}", BIGINT

    return rule


def _greatest_points(order: str) -> Rule:
    """Return the rule of the `k` greatest or least points. Which of several equal values are among them is not defined."""

    def rule(points: Points) -> tuple[str, DataType]:
        points.refuse_nan()
        count = int(points.attributes["k"])
        window = f"WINDOW w AS (PARTITION BY _device ORDER BY x {order})"
        ranked = f"SELECT *, rank() OVER w AS lowest, row_number() OVER w AS place FROM {points.relation} {window}"
        if points.steps.has_rows(f"SELECT 1 FROM ({ranked}) WHERE place > {count} AND lowest <= {count}"):
            raise unsupported(f"{points.call.function} if the last of its points are equal")
        return f"SELECT _device, {TS}, x AS v FROM ({ranked}) WHERE place <= {count}", points.type

    return rule


def _m4(points: Points) -> tuple[str, DataType]:
    """Return the first, least, greatest and last point of each window; of the two between, only values other than the last."""
    points.need_number()
    points.refuse_nan()
    ends = "min(n) AS first, max(n) AS last, arg_max(x, n) AS final"
    windows = f"SELECT _device, w, {ends}, {_FIRST_EXTREMES} FROM ({_m4_members(points)}) GROUP BY _device, w"
    earlier, later = "least(low, high)", "greatest(low, high)"
    chosen = f"p.n IN (first, last) OR (p.n = {earlier} AND p.x <> final) OR (p.n = {later} AND p.x <> final)"
    joined = f"FROM {points.relation} p JOIN ({windows}) m ON p._device = m._device AND p.n BETWEEN first AND last WHERE {chosen}"
    return f"SELECT DISTINCT p._device, p.{TS}, p.x AS v {joined}", points.type


def _m4_members(points: Points) -> str:
    """Return the points with the number `w` of each window that they belong to."""
    attributes = points.attributes
    by_size = "windowSize" in attributes
    length = int(attributes["windowSize" if by_size else "timeInterval"])
    step = int(attributes.get("slidingStep", length))
    origin = "0" if by_size else f"(SELECT min(q.{TS}) FROM {points.relation} q WHERE q._device = p._device)"
    if "displayWindowBegin" in attributes and not by_size:
        origin = str(int(attributes["displayWindowBegin"]))
    place = "n" if by_size else TS
    # Window `w` begins at `w * step` after the origin.
    oldest = f"greatest(CAST(floor(({place} - origin - {length}) / {step}) AS BIGINT) + 1, 0)"
    newest = f"CAST(floor(({place} - origin) / {step}) AS BIGINT)"
    placed = f"SELECT *, CAST({origin} AS BIGINT) AS origin FROM {points.relation} p"
    members = f"SELECT *, unnest(range({oldest}, {newest} + 1)) AS w FROM ({placed})"
    if by_size or "displayWindowEnd" not in attributes:
        return members
    end = int(attributes["displayWindowEnd"])
    return f"SELECT * FROM ({members}) WHERE {TS} < {end} AND origin + w * {step} < {end}"


def _bucket_size(points: Points) -> int:
    points.need_number()
    points.refuse_nan()
    return int(1 / float(points.attributes.get("proportion", "0.1")))


def _m4_sample(points: Points) -> tuple[str, DataType]:
    """Return the first and the last point of each bucket, and the least and greatest between them; all of four points or fewer."""
    numbered = f"SELECT *, n // {4 * _bucket_size(points)} AS w FROM {points.relation}"
    edges = f"SELECT *, min(n) OVER b AS first, max(n) OVER b AS last FROM ({numbered}) WINDOW b AS (PARTITION BY _device, w)"
    inner = f"SELECT _device, w, {_FIRST_EXTREMES} FROM ({edges}) WHERE n > first AND n < last GROUP BY _device, w"
    # Of equal values, the first and the last are taken.
    chosen = "n IN (first, last) OR last - first < 4 OR n = low OR n = CASE WHEN low = high THEN last - 1 ELSE high END"
    return f"SELECT _device, {TS}, x AS v FROM ({edges}) LEFT JOIN ({inner}) USING (_device, w) WHERE {chosen}", points.type


def _aggregate_sample(points: Points) -> tuple[str, DataType]:
    """Return one value of each bucket at the instant of its first point."""
    size, name = _bucket_size(points), points.attributes.get("type", "avg").lower()
    if name == "sum" and points.type.kind in FLOATS:
        raise unsupported("a sample of sums of FLOAT or DOUBLE, which depend on their order")
    # A value is taken if it is farther from 0 than the one before it is above 0.
    farthest = "list_reduce(list_prepend(0, list(x ORDER BY n)), lambda a, b: CASE WHEN a < abs(b) THEN b ELSE a END)"
    values = {
        "avg": "avg(CAST(x AS DOUBLE))",
        "min": "min(x)",
        "max": "max(x)",
        "sum": f"CAST(sum(x) AS {duck_type(points.type)})",
        "extreme": farthest,
        "variance": "var_pop(CAST(x AS DOUBLE))",
    }
    if name not in values:
        raise unsupported(f"a sample by {name}")
    numbered = f"SELECT *, n // {size} AS w FROM {points.relation}"
    sql = f"SELECT _device, min({TS}) AS {TS}, {values[name]} AS v FROM ({numbered}) GROUP BY _device, w"
    return sql, DOUBLE if name in ("avg", "variance") else points.type


SERIES: Final[dict[str, Rule]] = {
    "difference": _difference(""),
    "non_negative_difference": _difference("abs"),
    "derivative": _derivative(""),
    "non_negative_derivative": _derivative("abs"),
    "time_difference": lambda points: (points.before(f"{TS} - pt"), BIGINT),
    "change_points": _change_points,
    "diff": _diff,
    "zero_count": _runs("count(*)", 1, zero=True),
    "non_zero_count": _runs("count(*)", 1, zero=False),
    "zero_duration": _runs(f"max({TS}) - min({TS})", 0, zero=True),
    "non_zero_duration": _runs(f"max({TS}) - min({TS})", 0, zero=False),
    "top_k": _greatest_points("DESC"),
    "bottom_k": _greatest_points("ASC"),
    "m4": _m4,
    "equal_size_bucket_m4_sample": _m4_sample,
    "equal_size_bucket_agg_sample": _aggregate_sample,
}
DENSE: Final = frozenset({"diff"})
"""Functions whose NULL is a value: a row that has nothing else stays."""


def series_calls(nodes: Sequence[Expression]) -> Iterator[Call]:
    """Yield the calls of time-series functions, inner ones first."""
    for node in nodes:
        yield from reversed([part for part in walk(node) if isinstance(part, Call) and part.function in SERIES])


def is_sparse(nodes: Sequence[Expression]) -> bool:
    """Return whether rows without any value are left out, because a function computes points of its own."""
    return any(call.function not in DENSE for call in series_calls(nodes))


@dataclass(slots=True)
class SeriesColumns:
    """Adds a column to rows for each call of a time-series function; `columns` are the values of the calls so far."""

    steps: Steps
    compiler: Compiler
    rows: Partition
    columns: dict[Expression, Value] = field(default_factory=dict)

    def add(self, rows: str, nodes: Sequence[Expression]) -> str:
        """Return the rows with a column for each call in some expressions."""
        for call in series_calls(nodes):
            if call not in self.columns:
                rows = self._with_column(rows, call)
        return rows

    def _with_column(self, rows: str, call: Call) -> str:
        if len(call.arguments) != 1:
            raise unsupported(f"{call.function} of several series")
        if dict(call.attributes).get("ignoreNull", "true").lower() != "true":
            return self._with_row_difference(rows, call)
        sql, type_ = SERIES[call.function](self._points(rows, call))
        result = self.steps.step("series", f"SELECT * FROM ({sql}) WHERE v IS NOT NULL")
        device = "r._device" if self.rows.keys else "''"
        column = self._new_column(call, type_)
        joined = f"{rows} r LEFT JOIN {result} s ON r.{TS} = s.{TS} AND {device} = s._device"
        return self.steps.step("rows", f"SELECT r.*, s.v AS {column} FROM {joined}")

    def _with_row_difference(self, rows: str, call: Call) -> str:
        """Return the rows with the difference from the row before, for which NULL counts."""
        if any(series_calls(call.arguments)):
            raise unsupported("diff of a time-series function with ignoreNull=false")
        x = f"CAST({self.compiler.value(call.arguments[0]).sql} AS DOUBLE)"
        return self.steps.step(
            "rows", f"SELECT *, {x} - lag({x}) {self.rows.over()} AS {self._new_column(call, DOUBLE)} FROM {rows}"
        )

    def _new_column(self, call: Call, type_: DataType) -> str:
        column = f"p{len(self.columns)}"
        self.columns[call] = Value(column, type_)
        return column

    def _points(self, rows: str, call: Call) -> Points:
        """Return the points of an argument: the rows in which it has a value."""
        value = self.compiler.value(call.arguments[0])
        if value.type is None:
            raise unsupported("a time-series function of NULL")
        device = "_device" if self.rows.keys else "'' AS _device"
        values = f"SELECT {device}, {TS}, {value.sql} AS x FROM {rows}"
        numbered = f"SELECT *, row_number() {_BY_TIME} - 1 AS n FROM ({values}) WHERE x IS NOT NULL"
        return Points(call, self.steps, self.steps.step("points", numbered), value.type)
