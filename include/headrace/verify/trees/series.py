"""Time-series functions: from the points of a series to points at some of their instants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.model.expressions import Call, Expression, walk
from headrace.model.types import BIGINT, DOUBLE, DataType, TypeKind
from headrace.verify.trees.expressions import TreeCompiler
from headrace.verify.trees.samples import SAMPLES
from headrace.verify.trees.scalars import FLOATS, NUMBERS
from headrace.verify.values import Value, duck_type, unsupported

if TYPE_CHECKING:
    import duckdb

Attributes = Mapping[str, str]
MAX_INT64: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Points:
    """The points of the argument of a call.

    Attributes:
        relation: It has `_device`, `_ts`, the value `x` and the position `n` from 0, of each point.
        type: The type of `x`.
    """

    relation: str
    type: DataType

    def over(self, frame: str = "") -> str:
        """Return the window clause of the points of a series in the order of time."""
        return f"OVER (PARTITION BY _device ORDER BY _ts{frame and ' ' + frame})"


Rule = Callable[[Points, Attributes], tuple[str, DataType]]
"""Returns a query with `_device`, `_ts` and the value `v` of each point of the result, and the type of `v`."""


def before(points: Points, value: str, type_: DataType) -> tuple[str, DataType]:
    """Return the points with a value made of `x`, `_ts` and those of the point before, `px` and `pt`."""
    previous = f"SELECT *, lag(x) {points.over()} AS px, lag(_ts) {points.over()} AS pt FROM {points.relation}"
    return f"SELECT _device, _ts, {value} AS v FROM ({previous})", type_


def difference(wrap: str) -> Rule:
    """Return the rule of the difference from the point before; what its type cannot hold is no point."""

    def rule(points: Points, _: Attributes) -> tuple[str, DataType]:
        need_number(points)
        if points.type.kind in FLOATS:
            return before(points, f"{wrap}(x - px)", points.type)
        exact = f"TRY_CAST(CAST(x AS HUGEINT) - px AS {duck_type(points.type)})"
        return before(points, f"TRY_CAST({wrap}(CAST({exact} AS HUGEINT)) AS {duck_type(points.type)})", points.type)

    return rule


def derivative(wrap: str) -> Rule:
    """Return the rule of the change per tick since the point before; FLOAT is subtracted as FLOAT."""

    def rule(points: Points, _: Attributes) -> tuple[str, DataType]:
        need_number(points)
        type_ = duck_type(points.type) if points.type.kind is TypeKind.FLOAT else "DOUBLE"
        change = f"CAST(CAST(x AS {type_}) - CAST(px AS {type_}) AS DOUBLE)"
        return before(points, f"{wrap}({change} / (_ts - pt))", DOUBLE)

    return rule


def time_difference(points: Points, _: Attributes) -> tuple[str, DataType]:
    """Return the ticks since the point before."""
    return before(points, "_ts - pt", BIGINT)


def change_points(points: Points, _: Attributes) -> tuple[str, DataType]:
    """Return the points that differ from the one before, and the first. NaN differs from everything."""
    differs = "px IS NULL OR x <> px" + (" OR isnan(x)" if points.type.kind in FLOATS else "")
    return before(points, f"CASE WHEN {differs} THEN x END", points.type)


def diff(points: Points, _: Attributes) -> tuple[str, DataType]:
    """Return the difference from the value before as DOUBLE."""
    need_number(points)
    return before(points, "CAST(x AS DOUBLE) - CAST(px AS DOUBLE)", DOUBLE)


def runs(value: str, least: int, *, zero: bool) -> Rule:
    """Return the rule of a value at the first point of each run of zeros or of other values, within the bounds `min` and `max`."""

    def rule(points: Points, attributes: Attributes) -> tuple[str, DataType]:
        if points.type.kind not in (*NUMBERS, TypeKind.BOOL):
            raise unsupported(f"runs of {points.type}")
        is_zero = "NOT x" if points.type.kind is TypeKind.BOOL else "x = 0"
        member = f"({is_zero})" if zero else f"NOT ({is_zero})"
        low, high = int(attributes.get("min", least)), int(attributes.get("max", MAX_INT64))
        # Members of a run have the same number of other points before them.
        others = f"sum(CASE WHEN {member} THEN 0 ELSE 1 END) {points.over()}"
        numbered = f"SELECT *, {others} AS run FROM {points.relation}"
        grouped = f"SELECT _device, min(_ts) AS _ts, {value} AS v FROM ({numbered}) WHERE {member} GROUP BY _device, run"
        return f"SELECT * FROM ({grouped}) WHERE v BETWEEN {low} AND {high}", BIGINT

    return rule


def need_number(points: Points) -> None:
    """Raise `NotSupportedError` unless values are numbers."""
    if points.type.kind not in NUMBERS:
        raise unsupported(f"differences of {points.type}")


RULES: Final[dict[str, Rule]] = {
    "difference": difference(""),
    "non_negative_difference": difference("abs"),
    "derivative": derivative(""),
    "non_negative_derivative": derivative("abs"),
    "time_difference": time_difference,
    "change_points": change_points,
    "diff": diff,
    "zero_count": runs("count(*)", 1, zero=True),
    "non_zero_count": runs("count(*)", 1, zero=False),
    "zero_duration": runs("max(_ts) - min(_ts)", 0, zero=True),
    "non_zero_duration": runs("max(_ts) - min(_ts)", 0, zero=False),
}
DENSE: Final = frozenset({"diff"})
"""Functions whose NULL is a value: a row that has nothing else stays."""


def is_series_function(function: str) -> bool:
    """Return whether a function computes points from those of a series."""
    return function in RULES or function in SAMPLES


def series_calls(nodes: Sequence[Expression]) -> Iterator[Call]:
    """Yield the calls of time-series functions, inner ones first."""
    for node in nodes:
        calls = [part for part in walk(node) if isinstance(part, Call) and is_series_function(part.function)]
        yield from reversed(calls)


def is_sparse(nodes: Sequence[Expression]) -> bool:
    """Return whether rows without any value are left out, because a function computes points of its own."""
    return any(call.function not in DENSE for call in series_calls(nodes))


@dataclass(slots=True)
class SeriesColumns:
    """Adds a column to the rows of a query for each call of a time-series function.

    Attributes:
        step: Computes a relation and returns its name.
        columns: The values of the calls so far.
    """

    connection: duckdb.DuckDBPyConnection
    step: Callable[[str, str], str]
    compiler: TreeCompiler
    by_device: bool
    columns: dict[Expression, Value] = field(default_factory=dict)

    def add(self, rows: str, nodes: Sequence[Expression]) -> str:
        """Return the rows with a column for each call in some expressions, which the compiler has to find in `columns`."""
        for call in series_calls(nodes):
            if call not in self.columns:
                rows = self.with_column(rows, call)
        return rows

    def with_column(self, rows: str, call: Call) -> str:
        """Return the rows with a column for one call."""
        if len(call.arguments) != 1:
            raise unsupported(f"{call.function} of several series")
        attributes = dict(call.attributes)
        if attributes.get("ignoreNull", "true").lower() != "true":
            return self.with_row_difference(rows, call)
        points = self.points(rows, call.arguments[0])
        if call.function in SAMPLES:
            sql, type_ = SAMPLES[call.function](self.connection, points.relation, points.type, attributes)
        else:
            sql, type_ = RULES[call.function](points, attributes)
        result = self.step("series", f"SELECT * FROM ({sql}) WHERE v IS NOT NULL")
        column = self.new_column(call, type_)
        device = "r._device" if self.by_device else "''"
        joined = f"SELECT r.*, s.v AS {column} FROM {rows} r LEFT JOIN {result} s ON r._ts = s._ts AND {device} = s._device"
        return self.step("rows", joined)

    def with_row_difference(self, rows: str, call: Call) -> str:
        """Return the rows with the difference from the row before, for which NULL counts."""
        (argument,) = call.arguments
        if any(series_calls([argument])):
            raise unsupported("diff of a time-series function with ignoreNull=false")
        x = f"CAST({self.compiler.value(argument).sql} AS DOUBLE)"
        over = f"OVER ({'PARTITION BY _device ' if self.by_device else ''}ORDER BY _ts)"
        column = self.new_column(call, DOUBLE)
        return self.step("rows", f"SELECT *, {x} - lag({x}) {over} AS {column} FROM {rows}")

    def new_column(self, call: Call, type_: DataType) -> str:
        """Return the column of a call."""
        column = f"p{len(self.columns)}"
        self.columns[call] = Value(column, type_)
        return column

    def points(self, rows: str, argument: Expression) -> Points:
        """Return the points of an argument: the rows in which it has a value."""
        value = self.compiler.value(argument)
        if value.type is None:
            raise unsupported("a time-series function of NULL")
        device = "_device" if self.by_device else "'' AS _device"
        values = f"SELECT {device}, _ts, {value.sql} AS x FROM {rows}"
        position = "row_number() OVER (PARTITION BY _device ORDER BY _ts) - 1 AS n"
        return Points(self.step("points", f"SELECT *, {position} FROM ({values}) WHERE x IS NOT NULL"), value.type)
