"""INTERP in DuckDB: values at points between rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from headrace.errors import ProgrammingError
from headrace.model.expressions import Call, ColumnRef, Expression, walk
from headrace.model.queries import FillClause, FillMode, InterpolationClause, SelectItem
from headrace.model.types import BIGINT, BOOL, TIMESTAMP
from headrace.verify import grouping
from headrace.verify.aggregates import TS
from headrace.verify.expressions import Compiler
from headrace.verify.fill import FillColumn, interpolate, ticks_of
from headrace.verify.values import Value, instant, unsupported

if TYPE_CHECKING:
    import duckdb

    from headrace.model.queries import Query
    from headrace.verify.frames import Frame
    from headrace.verify.grouping import Key

AT: Final = "_at"
IS_FILLED: Final = "_made"


class Steps(Protocol):
    """A sequence of relations, each computed from earlier ones."""

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection that holds the relations."""

    def step(self, label: str, sql: str) -> str:
        """Compute a relation and return its name."""


class Select(Protocol):
    """The parts of a SELECT that INTERP uses."""

    @property
    def work(self) -> Steps:
        """The recomputation that it is part of."""

    @property
    def query(self) -> Query:
        """The SELECT's syntax tree."""

    @property
    def frame(self) -> Frame:
        """What it reads."""

    @property
    def rows(self) -> Compiler:
        """The compiler of expressions over rows."""

    def filter_rows(self, keys: Sequence[Key], extra: Sequence[str] = ()) -> str:
        """Compute the rows that pass WHERE."""

    def hidden(self, items: Sequence[SelectItem], make: Callable[[Expression, str], FillColumn]) -> list[FillColumn]:
        """Return columns for the ORDER BY expressions that are not in the select list."""


@dataclass(frozen=True, slots=True)
class Interpolated:
    """The points as a relation: its columns for the select list, those that only ORDER BY uses, and its natural order."""

    relation: str
    outputs: list[FillColumn]
    hidden: list[FillColumn]
    natural: list[str]


def uses_interp(items: Sequence[SelectItem]) -> bool:
    """Return True if an item calls `interp`."""
    return any(isinstance(part, Call) and part.function == "interp" for item in items for part in walk(item.expression))


@dataclass(slots=True)
class Points:
    """Resolves names over points: `interp(…)`, `_irowts`, `_isfilled`, keys.

    Collects the arguments to interpolate, and whether their NULL values are to be ignored.
    """

    rows: Compiler
    keys: list[Key]
    arguments: dict[Expression, Value] = field(default_factory=dict)
    options: set[bool] = field(default_factory=set)

    def leaf(self, node: Expression) -> Value | None:
        """Resolve a key, a pseudo-column or `interp`; None for any other expression."""
        for key in self.keys:
            if key.node == node:
                return Value(key.column, key.value.type)
        match node:
            case ColumnRef(name="_irowts"):
                return Value(AT, TIMESTAMP)
            case ColumnRef(name="_isfilled"):
                return Value(IS_FILLED, BOOL)
            case Call(function="interp", arguments=(argument, *_)):
                self.options.add(grouping.constant_arguments(self.rows, node) == (1,))
                value = self.arguments.setdefault(argument, self.rows.value(argument))
                return Value(f"v{list(self.arguments).index(argument)}", value.type)
            case ColumnRef(name=name):
                raise unsupported(f"the column {name} next to interp")
            case _:
                return None


def interpolate_points(select: Select, items: Sequence[SelectItem], keys: list[Key]) -> Interpolated:
    """Compute the points of RANGE and EVERY in each partition that FILL can give a value."""
    rows = select.rows
    points = Points(rows, keys)
    compiler = replace(rows, leaf=points.leaf)

    def column_of(node: Expression, column: str) -> FillColumn:
        return FillColumn.of(column, compiler.select_value(node))

    outputs = [column_of(item.expression, f"o{number}") for number, item in enumerate(items)]
    hidden = select.hidden(items, column_of)
    if select.frame.time is None or select.frame.key is not None:
        raise unsupported("INTERP of rows that may have the same instant")
    relation = compute_points(select, points, [key.column for key in keys])
    columns = [key.column for key in keys]
    selected = ", ".join([*columns, AT, *(f"{output.sql} AS {output.column}" for output in [*outputs, *hidden])])
    result = select.work.step("points", f"SELECT {selected} FROM {relation}")
    return Interpolated(result, outputs, hidden, [*columns, AT])


def compute_points(select: Select, points: Points, keys: Sequence[str]) -> str:
    """Compute the points with their values by FILL: `_at`, `_made`, `v…`."""
    query, step = select.query, select.work.step
    fill, clause = query.fill or FillClause(FillMode.NONE), query.interpolation or InterpolationClause()
    values = [f"{value.sql} AS a{number}" for number, value in enumerate(points.arguments.values())]
    conditions = [f"a{number} IS NOT NULL" for number in range(len(values))] if points.options == {True} else []
    rows = step("rows_with_values", f"SELECT {', '.join([*keys, TS, *values])} FROM {select.filter_rows(points.keys)}")
    if conditions:
        rows = step("present", f"SELECT * FROM {rows} WHERE {' AND '.join(conditions)}")
    if select.work.connection.execute(f"SELECT 1 FROM {rows} GROUP BY {', '.join([*keys, TS])} HAVING count(*) > 1").fetchone():
        raise unsupported("INTERP of rows that have the same instant: PARTITION BY tbname")
    first, last, step_ticks = range_and_step(select, clause)
    low, high = first or f"(SELECT min({TS}) FROM {rows})", last or f"(SELECT max({TS}) FROM {rows})"
    lead = f"{', '.join(keys)}, " if keys else ""
    groups = f"SELECT DISTINCT {', '.join(keys)} FROM {rows}" if keys else f"SELECT 1 FROM {rows} LIMIT 1"
    instants = f"SELECT {lead}unnest(range({low}, {high} + 1, {step_ticks})) AS {AT} FROM ({groups})"
    points_only = step("at", instants)
    join = " AND ".join(f"p.{key} IS NOT DISTINCT FROM r.{key}" for key in keys) or "true"
    before, after = (nearest(rows, join, len(values), sign) for sign in ("<=", ">="))
    neighbors = step("near", f"SELECT p.*, {before} AS _b, {after} AS _a FROM {points_only} p")
    columns = [point_value(fill, select, points, number) for number in range(len(values))]
    exists = "(_b IS NOT NULL AND _b.t = _at)"
    columns_sql = ", ".join([f"{lead}{AT}", f"NOT coalesce({exists}, false) AS {IS_FILLED}", *columns])
    return step("made", f"SELECT {columns_sql} FROM {neighbors} WHERE {keep_condition(fill.mode)}")


def nearest(relation: str, join: str, count: int, sign: str) -> str:
    """Return the row nearest to a point on one side of it, as a struct."""
    fields = ", ".join([f"'t': {TS}", *(f"'a{number}': a{number}" for number in range(count))])
    order = "DESC" if sign == "<=" else "ASC"
    return f"(SELECT first({{{fields}}} ORDER BY {TS} {order}) FROM {relation} r WHERE {join} AND r.{TS} {sign} p.{AT})"


def range_and_step(select: Select, clause: InterpolationClause) -> tuple[str | None, str | None, int]:
    """Return RANGE and EVERY in ticks; an end that is missing is that of the data."""
    ticks = [None if node is None else ticks_of(node, select.rows) for node in (clause.start, clause.end)]
    first, last = ticks
    if (clause.start is not None and first is None) or (clause.end is not None and last is None):
        raise ProgrammingError("RANGE takes constant timestamps")
    if clause.start is not None and clause.end is None:
        last = first
    every = clause.every.ticks(select.rows.precision) if clause.every is not None else 1
    low, high = (None if end is None else instant(end).sql for end in (first, last))
    return low, high, every


def keep_condition(mode: FillMode) -> str:
    """Return the condition on the points that FILL keeps."""
    is_row = "_b.t = _at"
    return {
        FillMode.PREV: "_b IS NOT NULL",
        FillMode.NEXT: "_a IS NOT NULL",
        FillMode.LINEAR: f"coalesce({is_row}, false) OR (_b IS NOT NULL AND _a IS NOT NULL)",
        FillMode.NONE: f"coalesce({is_row}, false)",
        FillMode.NEAR: "true",
    }.get(mode, "true")


def point_value(fill: FillClause, select: Select, points: Points, number: int) -> str:
    """Return the SQL of a value at a point: that of a row there, else what the mode says."""
    type_ = list(points.arguments.values())[number].type or BIGINT
    row_value, before, after = f"_b.a{number}", f"_b.a{number}", f"_a.a{number}"
    match fill.mode:
        case FillMode.PREV:
            other = before
        case FillMode.NEXT:
            other = after
        case FillMode.NEAR:
            other = f"CASE WHEN _b IS NULL OR _a.t - {AT} < {AT} - _b.t THEN {after} ELSE {before} END"
        case FillMode.VALUE | FillMode.VALUE_F:
            other = select.rows.cast(select.rows.value(fill.values[number]), type_).sql
        case FillMode.LINEAR if type_.is_number:
            other = interpolate("_b", "_a", f"a{number}", AT, type_)
        case _:
            other = "NULL"
    return f"CASE WHEN _b.t = {AT} THEN {row_value} ELSE {other} END AS v{number}"
