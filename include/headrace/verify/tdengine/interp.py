"""INTERP in DuckDB: values at points between rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headrace.errors import ProgrammingError
from headrace.model.expressions import Call, ColumnRef, Expression, walk
from headrace.model.queries import FillClause, FillMode, InterpolationClause, SelectItem
from headrace.model.types import BIGINT, BOOL, TIMESTAMP
from headrace.verify.expressions import Compiler
from headrace.verify.steps import TS
from headrace.verify.tdengine.aggregates import constants_of
from headrace.verify.tdengine.conversions import compile_cast
from headrace.verify.tdengine.fill import interpolate, ticks_of
from headrace.verify.tdengine.grouping import Key
from headrace.verify.values import Value, instant, unsupported

if TYPE_CHECKING:
    from headrace.verify.tdengine.select import Select

AT: Final = "_at"
IS_FILLED: Final = "_made"
_IS_ROW: Final = f"coalesce(_b.t = {AT}, false)"
_KEPT: Final = {
    FillMode.PREV: "_b IS NOT NULL",
    FillMode.NEXT: "_a IS NOT NULL",
    FillMode.LINEAR: f"{_IS_ROW} OR (_b IS NOT NULL AND _a IS NOT NULL)",
    FillMode.NONE: _IS_ROW,
}
"""Conditions on the points that FILL keeps."""


def uses_interp(items: Sequence[SelectItem]) -> bool:
    """Return True if an item calls `interp`."""
    return any(isinstance(part, Call) and part.function == "interp" for item in items for part in walk(item.expression))


@dataclass(slots=True)
class Points:
    """Computes the points of RANGE and EVERY in each partition that FILL can give a value.

    `leaf` collects the arguments to interpolate, and whether their NULL values are to be ignored.
    """

    select: Select
    keys: list[Key]
    arguments: dict[Expression, Value] = field(default_factory=dict)
    options: set[bool] = field(default_factory=set)

    @property
    def compiler(self) -> Compiler:
        return replace(self.select.rows, leaf=self.leaf)

    def leaf(self, node: Expression) -> Value | None:
        """Resolve a key, a pseudo-column or `interp`; None for any other expression."""
        for key in self.keys:
            if key.node == node:
                return key.grouped
        match node:
            case ColumnRef(name="_irowts"):
                return Value(AT, TIMESTAMP)
            case ColumnRef(name="_isfilled"):
                return Value(IS_FILLED, BOOL)
            case Call(function="interp", arguments=(argument, *_)):
                self.options.add(constants_of(self.select.rows, node) == (1,))
                value = self.arguments.setdefault(argument, self.select.rows.value(argument))
                return Value(f"v{list(self.arguments).index(argument)}", value.type)
            case ColumnRef(name=name):
                raise unsupported(f"the column {name} next to interp")
        return None

    def compute(self) -> str:
        """Compute the points with their values by FILL: keys, `_at`, `_made`, `v…`."""
        select, step = self.select, self.select.steps.step
        if select.frame.time is None or select.frame.key is not None:
            raise unsupported("INTERP of rows that may have the same instant")
        fill, keys = select.query.fill or FillClause(FillMode.NONE), [key.column for key in self.keys]
        points, lead = self._instants(rows := self._rows(keys), keys), "".join(f"{key}, " for key in keys)
        join = " AND ".join(f"p.{key} IS NOT DISTINCT FROM r.{key}" for key in keys) or "true"
        before, after = (self._nearest(rows, join, sign) for sign in ("<=", ">="))
        neighbors = step("near", f"SELECT p.*, {before} AS _b, {after} AS _a FROM {points} p")
        columns = [self._value(fill, number, value) for number, value in enumerate(self.arguments.values())]
        selected = ", ".join([f"{lead}{AT}", f"NOT {_IS_ROW} AS {IS_FILLED}", *columns])
        return step("made", f"SELECT {selected} FROM {neighbors} WHERE {_KEPT.get(fill.mode, 'true')}")

    def _rows(self, keys: Sequence[str]) -> str:
        steps = self.select.steps
        values = [f"{value.sql} AS a{number}" for number, value in enumerate(self.arguments.values())]
        rows = steps.step("values", f"SELECT {', '.join([*keys, TS, *values])} FROM {self.select.filter_rows(self.keys)}")
        if self.options == {True}:
            present = " AND ".join(f"a{number} IS NOT NULL" for number in range(len(values)))
            rows = steps.step("present", f"SELECT * FROM {rows} WHERE {present}")
        if steps.has_rows(f"SELECT 1 FROM {rows} GROUP BY {', '.join([*keys, TS])} HAVING count(*) > 1"):
            raise unsupported("INTERP of rows that have the same instant: PARTITION BY tbname")
        return rows

    def _instants(self, rows: str, keys: Sequence[str]) -> str:
        """Compute the instants of RANGE and EVERY in each partition; an end that is missing is that of the data."""
        clause, compiler = self.select.query.interpolation or InterpolationClause(), self.select.rows
        first, last = (None if node is None else ticks_of(node, compiler) for node in (clause.start, clause.end))
        if (clause.start is not None and first is None) or (clause.end is not None and last is None):
            raise ProgrammingError("RANGE takes constant timestamps")
        if clause.start is not None and clause.end is None:
            last = first
        low = f"(SELECT min({TS}) FROM {rows})" if first is None else instant(first).sql
        high = f"(SELECT max({TS}) FROM {rows})" if last is None else instant(last).sql
        every = clause.every.ticks(compiler.precision) if clause.every is not None else 1
        groups = f"SELECT DISTINCT {', '.join(keys)} FROM {rows}" if keys else f"SELECT 1 FROM {rows} LIMIT 1"
        selected = ", ".join([*keys, f"unnest(range({low}, {high} + 1, {every})) AS {AT}"])
        return self.select.steps.step("at", f"SELECT {selected} FROM ({groups})")

    def _nearest(self, rows: str, join: str, sign: str) -> str:
        fields = ", ".join([f"'t': {TS}", *(f"'a{number}': a{number}" for number in range(len(self.arguments)))])
        order = "DESC" if sign == "<=" else "ASC"
        return f"(SELECT first({{{fields}}} ORDER BY {TS} {order}) FROM {rows} r WHERE {join} AND r.{TS} {sign} p.{AT})"

    def _value(self, fill: FillClause, number: int, argument: Value) -> str:
        """Return the SQL of a value at a point: that of a row there, else what the mode says."""
        type_, rows = argument.type or BIGINT, self.select.rows
        before, after, other = f"_b.a{number}", f"_a.a{number}", "NULL"
        match fill.mode:
            case FillMode.PREV:
                other = before
            case FillMode.NEXT:
                other = after
            case FillMode.NEAR:
                other = f"CASE WHEN _b IS NULL OR _a.t - {AT} < {AT} - _b.t THEN {after} ELSE {before} END"
            case FillMode.VALUE | FillMode.VALUE_F:
                other = compile_cast(rows, rows.value(fill.values[number]), type_).sql
            case FillMode.LINEAR if type_.is_number:
                other = interpolate("_b", "_a", f"a{number}", AT, type_)
        return f"CASE WHEN _b.t = {AT} THEN {before} ELSE {other} END AS v{number}"
