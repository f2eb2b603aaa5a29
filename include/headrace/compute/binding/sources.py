"""Binding of FROM: tables, sub-queries and joins, with the columns they provide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.compute import nodes
from headrace.compute.binding.asof import AsofSides
from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment, SourceColumn, plan_environment, scan_environment
from headrace.compute.binding.resolvers import RowResolver
from headrace.compute.binding.scope import Relation, Scope
from headrace.compute.binding.unions import bind_scan_union
from headrace.compute.expression_context import ExpressionContext
from headrace.compute.plan import AnyPlan, JoinSource, PlanSource
from headrace.compute.plan_sources import OneRow, Scan, ScanUnion
from headrace.compute.terms import ColumnRole
from headrace.errors import NotSupportedError
from headrace.model.queries import Join, Query, QuerySource, Source, TableSource, Union
from headrace.model.time import Precision

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
    """Return a scan of all columns of a relation, restricted to its series."""
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
