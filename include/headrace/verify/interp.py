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
from headrace.verify.fill import Filled, line, ticks_of
from headrace.verify.values import Value, instant, unknown

if TYPE_CHECKING:
    import duckdb

    from headrace.model.queries import Query
    from headrace.verify.frames import Frame
    from headrace.verify.grouping import Key

AT: Final = "_at"
MADE: Final = "_made"


class Steps(Protocol):
    """Where relations are computed, one after another."""

    @property
    def connection(self) -> duckdb.DuckDBPyConnection: ...

    def step(self, label: str, sql: str) -> str: ...


class Select(Protocol):
    """What INTERP needs of the SELECT that it is part of."""

    @property
    def work(self) -> Steps: ...
    @property
    def query(self) -> Query: ...
    @property
    def frame(self) -> Frame: ...
    @property
    def rows(self) -> Compiler: ...

    def kept(self, keys: Sequence[Key], also: Sequence[str] = ()) -> str: ...
    def hidden(self, items: Sequence[SelectItem], make: Callable[[Expression, str], Filled]) -> list[Filled]: ...


@dataclass(frozen=True, slots=True)
class Interpolated:
    """The points as a relation: its columns for the select list, those that only ORDER BY names, and its natural order."""

    relation: str
    outputs: list[Filled]
    hidden: list[Filled]
    natural: list[str]


def uses_interp(items: Sequence[SelectItem]) -> bool:
    return any(isinstance(part, Call) and part.function == "interp" for item in items for part in walk(item.expression))


@dataclass(slots=True)
class Points:
    """Names over points: `interp(…)`, `_irowts`, `_isfilled`, keys. Collects what is interpolated, and whether NULL counts."""

    rows: Compiler
    keys: list[Key]
    arguments: dict[Expression, Value] = field(default_factory=dict)
    options: set[bool] = field(default_factory=set)

    def leaf(self, node: Expression) -> Value | None:
        for key in self.keys:
            if key.node == node:
                return Value(key.column, key.value.type)
        match node:
            case ColumnRef(name="_irowts"):
                return Value(AT, TIMESTAMP)
            case ColumnRef(name="_isfilled"):
                return Value(MADE, BOOL)
            case Call(function="interp", arguments=(argument, *_)):
                self.options.add(grouping.constants(self.rows, node) == (1,))
                value = self.arguments.setdefault(argument, self.rows.value(argument))
                return Value(f"v{list(self.arguments).index(argument)}", value.type)
            case ColumnRef(name=name):
                raise unknown(f"the column {name} beside interp")
            case _:
                return None


def interpolated(select: Select, items: Sequence[SelectItem], keys: list[Key]) -> Interpolated:
    """The points of RANGE and EVERY for each partition, those that FILL can make."""
    rows = select.rows
    points = Points(rows, keys)
    compiler = replace(rows, leaf=points.leaf)

    def made(node: Expression, column: str) -> Filled:
        return Filled.of(column, compiler.shown(node))

    outputs = [made(item.expression, f"o{number}") for number, item in enumerate(items)]
    hidden = select.hidden(items, made)
    if select.frame.time is None or select.frame.key is not None:
        raise unknown("INTERP of rows that may have the same instant")
    relation = grid(select, points, [key.column for key in keys])
    columns = [key.column for key in keys]
    shown = ", ".join([*columns, AT, *(f"{each.sql} AS {each.column}" for each in [*outputs, *hidden])])
    found = select.work.step("points", f"SELECT {shown} FROM {relation}")
    return Interpolated(found, outputs, hidden, [*columns, AT])


def grid(select: Select, points: Points, keys: Sequence[str]) -> str:
    """Points with the values that FILL gives them: `_at`, `_made`, `v…`."""
    query, step = select.query, select.work.step
    fill, given = query.fill or FillClause(FillMode.NONE), query.interpolation or InterpolationClause()
    values = [f"{value.sql} AS a{number}" for number, value in enumerate(points.arguments.values())]
    present = [f"a{number} IS NOT NULL" for number in range(len(values))] if points.options == {True} else []
    known = step("known", f"SELECT {', '.join([*keys, TS, *values])} FROM {select.kept(points.keys)}")
    if present:
        known = step("present", f"SELECT * FROM {known} WHERE {' AND '.join(present)}")
    if select.work.connection.execute(f"SELECT 1 FROM {known} GROUP BY {', '.join([*keys, TS])} HAVING count(*) > 1").fetchone():
        raise unknown("INTERP of rows that have the same instant: PARTITION BY tbname")
    first, last, every = ends(select, given)
    low, high = first or f"(SELECT min({TS}) FROM {known})", last or f"(SELECT max({TS}) FROM {known})"
    lead = f"{', '.join(keys)}, " if keys else ""
    groups = f"SELECT DISTINCT {', '.join(keys)} FROM {known}" if keys else f"SELECT 1 FROM {known} LIMIT 1"
    spread = f"SELECT {lead}unnest(range({low}, {high} + 1, {every})) AS {AT} FROM ({groups})"
    at = step("at", spread)
    same = " AND ".join(f"p.{key} IS NOT DISTINCT FROM r.{key}" for key in keys) or "true"
    before, after = (nearest(known, same, len(values), sign) for sign in ("<=", ">="))
    beside = step("near", f"SELECT p.*, {before} AS _b, {after} AS _a FROM {at} p")
    columns = [made_value(fill, select, points, number) for number in range(len(values))]
    exists = "(_b IS NOT NULL AND _b.t = _at)"
    shown = ", ".join([f"{lead}{AT}", f"NOT coalesce({exists}, false) AS {MADE}", *columns])
    return step("made", f"SELECT {shown} FROM {beside} WHERE {kept(fill.mode)}")


def nearest(known: str, same: str, count: int, sign: str) -> str:
    """The row nearest to a point on one side of it, as a struct."""
    fields = ", ".join([f"'t': {TS}", *(f"'a{number}': a{number}" for number in range(count))])
    order = "DESC" if sign == "<=" else "ASC"
    return f"(SELECT first({{{fields}}} ORDER BY {TS} {order}) FROM {known} r WHERE {same} AND r.{TS} {sign} p.{AT})"


def ends(select: Select, given: InterpolationClause) -> tuple[str | None, str | None, int]:
    """RANGE and EVERY in ticks; an end that is not given is that of the data."""
    found = [None if node is None else ticks_of(node, select.rows) for node in (given.start, given.end)]
    if any(node is not None and ticks is None for node, ticks in zip((given.start, given.end), found, strict=True)):
        raise ProgrammingError("RANGE takes constant timestamps")
    first, last = found
    if given.start is not None and given.end is None:
        last = first
    every = given.every.ticks(select.rows.precision) if given.every is not None else 1
    low, high = (None if end is None else instant(end).sql for end in (first, last))
    return low, high, every


def kept(mode: FillMode) -> str:
    """Which points there are."""
    here = "_b.t = _at"
    return {
        FillMode.PREV: "_b IS NOT NULL",
        FillMode.NEXT: "_a IS NOT NULL",
        FillMode.LINEAR: f"coalesce({here}, false) OR (_b IS NOT NULL AND _a IS NOT NULL)",
        FillMode.NONE: f"coalesce({here}, false)",
        FillMode.NEAR: "true",
    }.get(mode, "true")


def made_value(fill: FillClause, select: Select, points: Points, number: int) -> str:
    """A value at a point: that of a row there, else what the mode says."""
    type_ = list(points.arguments.values())[number].type or BIGINT
    own, before, after = f"_b.a{number}", f"_b.a{number}", f"_a.a{number}"
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
            other = line("_b", "_a", f"a{number}", AT, type_)
        case _:
            other = "NULL"
    return f"CASE WHEN _b.t = {AT} THEN {own} ELSE {other} END AS v{number}"
