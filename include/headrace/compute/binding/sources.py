"""Binding of FROM: tables, sub-queries, joins, and series of several tables, with the columns they provide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from headrace.compute import nodes
from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment, SourceColumn, plan_environment, scan_environment
from headrace.compute.binding.ranges import MIRRORED
from headrace.compute.binding.resolvers import RowResolver
from headrace.compute.binding.scope import Relation, Scope
from headrace.compute.expression_context import ExpressionContext
from headrace.compute.language import Language
from headrace.compute.nodes import NULL, Column, Node
from headrace.compute.plan import AnyPlan, AsofMatch, JoinSource, PlanSource
from headrace.compute.plan_sources import OneRow, Scan, ScanUnion
from headrace.compute.terms import ColumnRole
from headrace.compute.types import spark_type, to_ticks
from headrace.errors import LimitError, NotSupportedError
from headrace.model.expressions import Call, ColumnRef, Expression, conjuncts, walk
from headrace.model.queries import Join, Query, QuerySource, Source, TableSource, Union
from headrace.model.time import Precision
from headrace.model.types import NUMBERS

MAX_LIMIT: Final = 1024
DEFAULT_RULE: Final = ">="
TRUNCATION: Final = "timetruncate"


@dataclass(frozen=True, slots=True)
class AsofSides:
    """The sides of an ASOF join: the index of the driving one, and of that of each column, and their time columns."""

    names: Environment
    binder: Binder
    driving: int
    side_of: dict[str, int]
    times: tuple[str, str]

    def match(self, join: Join) -> AsofMatch:
        """Bind the rule and the keys of a join. Raise `LimitError` for its JLIMIT, and `NotSupportedError` for other conditions."""
        limit = 1 if join.limit is None else join.limit
        if not 1 <= limit <= MAX_LIMIT:
            raise LimitError(f"JLIMIT takes 1 to {MAX_LIMIT} rows, not {limit}")
        other = 1 - self.driving
        keys: list[tuple[Node, Node]] = []
        rules: list[tuple[str, tuple[Node, Node]]] = []
        for part in conjuncts(join.condition):
            sign, left, right = self._compared(part)
            if self._is_time(left) and self._is_time(right):
                rules.append((sign, (self.binder.bind(left).node, self.binder.bind(right).node)))
            elif sign == "=" and isinstance(left, ColumnRef) and isinstance(right, ColumnRef):
                keys.append(self._key(left, right))
            else:
                self._refuse(part)
        if len(rules) > 1:
            raise NotSupportedError("an ASOF JOIN compares timestamps once", hint="leave out the other comparisons")
        for time in self.times:
            self.names.used.add(time)
        sign, times = rules[0] if rules else (DEFAULT_RULE, (Column(self.times[self.driving]), Column(self.times[other])))
        return AsofMatch(self.driving, tuple(keys), times, Column(self.times[other]), sign, limit)

    def _compared(self, part: Expression) -> tuple[str, Expression, Expression]:
        if not isinstance(part, Call) or part.function not in MIRRORED or len(part.arguments) != 2:
            self._refuse(part)
        left, right = part.arguments
        sides = self._side(left), self._side(right)
        if sides == (self.driving, 1 - self.driving):
            return part.function, left, right
        if sides != (1 - self.driving, self.driving):
            self._refuse(part)
        return MIRRORED[part.function], right, left

    def _side(self, value: Expression) -> int | None:
        """Return the side of the only column in a value; None if it has none or several."""
        columns = [self.names.column(node).column for node in walk(value) if isinstance(node, ColumnRef)]
        return self.side_of[columns[0]] if len(columns) == 1 else None

    def _is_time(self, value: Expression) -> bool:
        """Return whether a value is a side's timestamp, or one that is truncated."""
        if isinstance(value, Call) and value.function == TRUNCATION:
            value = value.arguments[0]
        return isinstance(value, ColumnRef) and self.names.column(value).column in self.times

    def _key(self, left: ColumnRef, right: ColumnRef) -> tuple[Node, Node]:
        first, second = self.binder.bind(left), self.binder.bind(right)
        kinds = {None if term.type is None else term.type.kind for term in (first, second)}
        if len(kinds) > 1 and not kinds.issubset(NUMBERS):
            message = f"{left.name} is {first.type}, and {right.name} is {second.type}"
            raise NotSupportedError(message, hint="compare columns of one type", span=left.span)
        return first.node, second.node

    def _refuse(self, part: Expression) -> NoReturn:
        message = "ON of an ASOF JOIN takes one comparison of timestamps, and equal columns of both tables, joined by AND"
        raise NotSupportedError(message, hint="write other conditions in WHERE", span=part.span)


def bind_scan_union(scans: tuple[Scan, ...], alias: str | None, language: Language) -> tuple[ScanUnion, Environment]:
    """Combine scans into one source, with the columns of the first table followed by those that only others have.

    Raise `NotSupportedError` if precisions differ, or a table has a composite key.
    """
    sides = [scan_environment(scan, language) for scan in scans]
    check_sides(sides)
    columns = [
        union_column(number, name, sides, alias, language)
        for number, name in enumerate(dict.fromkeys(name for side in sides for name in column_identities(side)))
    ]
    named = tuple(column.named for column in columns)
    time = next(column for column in named if column.role is ColumnRole.TIME)
    series = next(column for column in named if column.role is ColumnRole.SERIES)
    pairs = tuple(tuple((column.sides[number], column.named.column) for column in columns) for number in range(len(scans)))
    return ScanUnion(scans, pairs), Environment(language, named, sides[0].precision, sides[0].timezone, time, series)


def check_sides(sides: list[Environment]) -> None:
    """Raise `NotSupportedError` if tables cannot be read as one."""
    if any(side.precision != sides[0].precision for side in sides):
        raise NotSupportedError("tables of databases with different precisions cannot be read as one")
    if any(side.key is not None for side in sides):
        raise NotSupportedError("a table with a composite key cannot be read as one with others")


@dataclass(frozen=True, slots=True)
class UnionColumn:
    """A column of the union, and the expression for it over each side."""

    named: SourceColumn
    sides: tuple[Node, ...]


ColumnIdentity = str | ColumnRole
"""Identifies a column across tables: its role if it has one, else its name."""


def column_identities(side: Environment) -> list[ColumnIdentity]:
    return [column.role or column.name for column in side.columns]


def union_column(number: int, name: ColumnIdentity, sides: list[Environment], alias: str | None, language: Language) -> UnionColumn:
    """Return one column of the union, NULL for tables that lack it."""
    matching = [dict(zip(column_identities(side), side.columns, strict=True)).get(name) for side in sides]
    if name is ColumnRole.TIME:
        return time_column(f"c{number}", sides, alias)
    existing = [column for column in matching if column is not None]
    type_ = language.operators.common_type([column.type for column in existing]) or existing[0].type
    named = replace(existing[0], column=f"c{number}", node=Column(f"c{number}"), type=type_, qualifier=alias, is_converted=False)
    missing, convert = NULL.cast(spark_type(type_)), language.operators.convert
    expressions = tuple(missing if column is None else convert(column.term, type_) for column in matching)
    return UnionColumn(named, expressions)


def time_column(column: str, sides: list[Environment], alias: str | None) -> UnionColumn:
    """Return the timestamp column. It stays as stored, so that conditions on it prune files of each table."""
    times = [side.time for side in sides if side.time is not None]
    named = replace(times[0], column=column, node=to_ticks(Column(column), sides[0].precision), qualifier=alias)
    return UnionColumn(named, tuple(Column(time.column) for time in times))


ASOF_KINDS = ("left asof", "right asof")
JOIN_KINDS = ("inner", "left", "right", "full", "left semi", "left anti", "right semi", "right anti")


@dataclass(frozen=True, slots=True)
class BoundSource:
    """A source with its columns.

    Attributes:
        sides: The two sides of a join.
        origins: For each column of a join: the index of its side, the column there, and its name in the join.
    """

    source: PlanSource
    names: Environment
    sides: tuple[BoundSource, ...] = ()
    origins: tuple[tuple[int, SourceColumn, str], ...] = ()

    def pruned(self) -> PlanSource:
        """Return the source with only the columns that are used. Time column and series key always are."""
        match self.source:
            case Scan() as scan:
                key = (self.names.key.column,) if self.names.key else ()
                needed = self.names.used | {scan.table.timestamp.name, scan.table.series_key, *key}
                return replace(scan, columns=tuple(column for column in scan.columns if column in needed))
            case ScanUnion(scans=scans, columns=columns):
                needed = self.names.used | {column.column for column in (self.names.time, self.names.series) if column is not None}
                return ScanUnion(scans, tuple(tuple(pair for pair in pairs if pair[1] in needed) for pairs in columns))
            case JoinSource() as join:
                used = [origin for origin in self.origins if origin[2] in self.names.used]
                for side, column, _ in used:
                    self.sides[side].names.used.add(column.column)
                return replace(
                    join,
                    left=self.sides[0].pruned(),
                    right=self.sides[1].pruned(),
                    left_columns=tuple((column.node, name) for side, column, name in used if side == 0),
                    right_columns=tuple((column.node, name) for side, column, name in used if side == 1),
                )
            case _:
                return self.source


@dataclass(frozen=True, slots=True)
class Sources:
    """Binds the sources of a statement."""

    scope: Scope
    bind_query: Callable[[Query | Union], AnyPlan]

    def bind_source(self, source: Source | None) -> BoundSource:
        """Bind what FROM contains. None means that there is no FROM."""
        match source:
            case None:
                return BoundSource(OneRow(), Environment(self.scope.language, (), Precision.MILLISECOND, self.scope.timezone, None))
            case TableSource():
                return self._bind_table(source)
            case QuerySource(query=query, alias=alias):
                plan = self.bind_query(query)
                return BoundSource(plan, plan_environment(plan, alias, self.scope.language))
            case Join():
                return self._bind_join(source)

    def _bind_table(self, source: TableSource) -> BoundSource:
        """Bind a name: a table, or series of several tables."""
        scans = tuple(make_scan(relation, source.alias) for relation in self.scope.resolve(source.name))
        if len(scans) == 1:
            return BoundSource(scans[0], scan_environment(scans[0], self.scope.language))
        union, names = bind_scan_union(scans, source.alias, self.scope.language)
        return BoundSource(union, names)

    def _bind_join(self, join: Join) -> BoundSource:
        if join.kind in ASOF_KINDS:
            return self._bind_asof(join)
        if join.kind not in JOIN_KINDS:
            raise NotSupportedError(f"{join.kind.upper()} JOIN is not supported", hint="use INNER, LEFT, RIGHT or FULL JOIN")
        sides = (self.bind_source(join.left), self.bind_source(join.right))
        left, right = sides[0].names, sides[1].names
        check_precision(left, right)
        if join.kind.startswith("right ") and join.kind != "right":
            sides, left, right = (sides[1], sides[0]), right, left
        origins = join_origins(sides)
        names = join_environment(left, origins)
        binder = Binder(RowResolver(names, "in ON"), ExpressionContext(names.precision, names.timezone), names.language)
        condition = None if join.condition is None else binder.condition(join.condition)
        kind = join.kind.replace("right ", "left ") if " " in join.kind else join.kind
        if " " in kind:  # Only rows of one side remain.
            names = replace(names, columns=names.columns[: len(left.columns)])
        return BoundSource(JoinSource(sides[0].source, sides[1].source, (), (), condition, kind), names, sides, origins)

    def _bind_asof(self, join: Join) -> BoundSource:
        sides = (self.bind_source(join.left), self.bind_source(join.right))
        if not all(isinstance(side.source, Scan) for side in sides):
            raise NotSupportedError("an ASOF JOIN takes two tables", hint="join tables, and use the join as a sub-query")
        driving = ASOF_KINDS.index(join.kind)
        check_precision(sides[0].names, sides[1].names)
        origins = join_origins(sides)
        names = join_environment(sides[driving].names, origins)
        binder = Binder(RowResolver(names, "in ON"), ExpressionContext(names.precision, names.timezone), names.language)
        left, right = (
            next(name for side, column, name in origins if side == number and column is sides[number].names.time)
            for number in (0, 1)
        )
        asof = AsofSides(names, binder, driving, {name: side for side, _, name in origins}, (left, right)).match(join)
        source = JoinSource(sides[0].source, sides[1].source, (), (), None, join.kind, asof)
        return BoundSource(source, names, sides, origins)


def check_precision(left: Environment, right: Environment) -> None:
    """Refuse to join tables whose timestamps have different precisions."""
    if left.precision != right.precision:
        raise NotSupportedError("tables of databases with different precisions cannot be joined")


def join_origins(sides: tuple[BoundSource, BoundSource]) -> tuple[tuple[int, SourceColumn, str], ...]:
    """Return the origins of the columns of a join; see `BoundSource`."""
    columns = ((side, column) for side in (0, 1) for column in sides[side].names.columns)
    return tuple((side, column, f"c{number}") for number, (side, column) in enumerate(columns))


def make_scan(relation: Relation, alias: str | None) -> Scan:
    table, series = relation.table, relation.series
    columns = tuple(column.name for column in (*table.columns, *table.tags))
    condition = None if series is None else series.condition(nodes.Column(table.series_key))
    return Scan(table, relation.database, relation.subtable, alias, (*columns, table.series_key), condition, relation.references)


def join_environment(left: Environment, origins: tuple[tuple[int, SourceColumn, str], ...]) -> Environment:
    """Return the columns of a join. Time column and time zone are those of the left side."""
    columns = tuple(
        replace(
            column, column=name, node=nodes.Column(name), is_converted=False, role=ColumnRole.TIME if column is left.time else None
        )
        for _, column, name in origins
    )
    time = next((column for column in columns if column.role is ColumnRole.TIME), None)
    names = Environment(left.language, columns, left.precision, left.timezone, time)
    if time is not None:
        names.used.add(time.column)
    return names
