"""From a `CREATE STREAM` statement to a plan: everything that can be refused is refused here, before anything is created."""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.catalog import Catalog
from headrace.catalog.rules import target_taken
from headrace.compute import Key, Language, Plan, Relation, Scope, SeriesNames, bind, language
from headrace.compute.plan import EventWindow
from headrace.compute.terms import ColumnRole
from headrace.compute.types import spark_type
from headrace.errors import Error, InternalError, InvalidStreamError, LimitError, NotFoundError, TypeMismatchError
from headrace.model.expressions import Cast, ColumnRef, Expression, Star
from headrace.model.jobs import JobDefinition, JobKind
from headrace.model.positions import SourceId, source_id
from headrace.model.queries import Query
from headrace.model.statements import CreateStream
from headrace.model.streams import StreamOptions, StreamSchema
from headrace.model.tables import Database, Name, Table
from headrace.model.types import TypeKind
from headrace.sql import parse
from headrace.streams.definition.checks import MAX_STREAMS_PER_DATABASE, check_statement, source_name
from headrace.streams.definition.groups import GroupKind, GroupRule, KeyColumn, TagSource
from headrace.streams.definition.layout import (
    LONGEST,
    Layout,
    TagFill,
    created_by,
    existing_layout,
    hidden_items,
    name_expression,
    new_layout,
    tag_value,
    with_start,
)


@dataclass(frozen=True)
class StreamPlan:
    """A stream, all names resolved.

    Attributes:
        id: Names the stream's state and transactions; new for each `define`.
        database, name: The stream's own name.
        query: The bound query. Its partitions are those of the statement, then hidden ones: the SUBTABLE expression and the
            tags of the target. Its first output column is the window's start (the row's timestamp without a window).
        source: The table whose changes are read, `source_subtable` the one subtable of it that the query names, if it does.
        target: The table that takes the results; `target_exists` tells whether it was there when the statement was checked.
        columns: For each output column of `query`, in order, the column of `target` that it fills.
        groups: How a group of the query gets its subtable of the target, with tags.
        watermark: Ticks of the source's precision.
    """

    id: str
    database: str
    name: str
    sql: str
    options: StreamOptions
    query: Plan
    source: Table
    source_database: Database
    source_subtable: str | None
    target: Table
    target_database: Database
    target_exists: bool
    columns: tuple[str, ...]
    groups: GroupRule
    watermark: int

    @property
    def source_id(self) -> SourceId:
        """Id of the source table."""
        return source_id(self.source_database.name, self.source.name)

    @property
    def leaves_rows_out(self) -> bool:
        """Whether rows may lie in no window: then only how far a subtable has come tells whether one comes in order."""
        return isinstance(self.query.window, EventWindow)

    @property
    def schema(self) -> StreamSchema:
        """The columns of the tables as this plan has them."""
        used = dict.fromkeys(name for scan in self.query.scans for name in scan.columns if name != scan.table.series_key)
        filled = (*self.target.columns, *self.target.tags)
        return StreamSchema(self.source.columns, self.source.tags, tuple(used), tuple(column.name for column in filled))

    def definition(self, *, created: int, snode: str = "default", dialect: str = "tdengine") -> JobDefinition:
        """What the catalog records of the stream."""
        return JobDefinition(
            id=self.id,
            kind=JobKind.STREAM,
            database=self.database,
            name=self.name,
            sql=self.sql,
            dialect=dialect,
            sources=(self.source.id,),
            target=self.target.id,
            created=created,
            snode=snode,
            schema=self.schema,
        )


def catalog_scope(
    catalog: Catalog, database: str | None, *, dialect: str = "tdengine", timezone: str = "UTC", now: int = 0
) -> Scope:
    """The scope, of one statement, in which names without a database mean those of `database`."""

    @functools.cache
    def lookup(name: Name) -> Relation:
        owner = name.database or database
        if owner is None:
            raise InvalidStreamError(f"no database is chosen for {name}", hint=f"write database.{name}, or USE one", span=name.span)
        try:
            return find(catalog, owner, name.name)
        except NotFoundError as error:
            error.span = error.span or name.span
            raise

    return Scope(lambda name: (lookup(name),), language(dialect), timezone, now)


def find(catalog: Catalog, database: str, name: str) -> Relation:
    """The table of a name, or the subtable."""
    found = catalog.databases.get(database)
    subtable = catalog.subtables.find(database, [name]).get(name)
    if subtable is None or subtable.table == name:
        return Relation(catalog.tables.get(database, name), found)
    return Relation(catalog.tables.get(database, subtable.table), found, SeriesNames((name,)))


def define(
    statement: CreateStream, catalog: Catalog, database: str | None, *, dialect: str = "tdengine", now: int = 0
) -> StreamPlan:
    """Check a statement in the context of a current database.

    Creates nothing. Whether a stream of that name exists is the caller's to see.

    Raises:
        InvalidStreamError: the query or an option is none that a stream may have.
        NotSupportedError: a window or trigger mode that is not supported.
        NotFoundError, ExistsError, LimitError, TypeMismatchError: as their names say; all carry the place in the text.
    """
    plan = Definer(statement, catalog, catalog_scope(catalog, database, dialect=dialect, now=now), database).plan()
    check_others(plan, statement, catalog)
    return plan


def plan_of(definition: JobDefinition, catalog: Catalog) -> StreamPlan:
    """The plan of a recorded stream, as `define` gave it, with its id."""
    statement = parse(definition.sql, definition.dialect)
    if not isinstance(statement, CreateStream):
        raise InternalError(f"the stream {definition.name} is recorded with something else than CREATE STREAM", sql=definition.sql)
    scope = catalog_scope(catalog, definition.database, dialect=definition.dialect, now=definition.created)
    scope = recorded_scope(scope, definition)
    try:
        return Definer(statement, catalog, scope, definition.database, recorded=definition).plan()
    except Error as error:
        raise error.located(definition.sql) from None


def recorded_scope(scope: Scope, definition: JobDefinition) -> Scope:
    """The scope in which a recorded stream's source has the columns that it had when the stream was created."""
    schema = definition.schema
    if schema is None:
        return scope

    def as_recorded(relation: Relation) -> Relation:
        if relation.table.id != definition.source:
            return relation
        return replace(relation, table=replace(relation.table, columns=schema.columns, tags=schema.tags))

    return replace(scope, resolve=lambda name: tuple(map(as_recorded, scope.resolve(name))))


def check_others(plan: StreamPlan, statement: CreateStream, catalog: Catalog) -> None:
    """Refuse a target that another stream fills, and too many streams on one database."""
    others = [record.definition for record in catalog.jobs.all(kind=JobKind.STREAM)]
    rival = next((other for other in others if other.target == plan.target.id), None)
    if rival is not None:
        error = target_taken(rival.name, plan.target.name)
        error.span = statement.target.span
        raise error
    if sum(other.source.database == plan.source_database.name for other in others) >= MAX_STREAMS_PER_DATABASE:
        raise LimitError(
            f"{plan.source_database.name} has {MAX_STREAMS_PER_DATABASE} streams, and no more are possible",
            hint="drop one, or split the database",
        )


@dataclass(frozen=True)
class Definer:
    """Works out the plan of one statement; `recorded` is what the catalog has of a stream that exists."""

    statement: CreateStream
    catalog: Catalog
    scope: Scope
    database: str | None
    recorded: JobDefinition | None = None

    def plan(self) -> StreamPlan:
        statement = self.statement
        source = self.scope.relation(source_name(statement.query).name)
        check_statement(statement, source, self.scope.language)
        query = with_start(statement.query)
        bound = self.bound(query)
        check_bound(bound, statement, source, self.scope.language)
        prepended = query is not statement.query
        target, existing = self.target()
        layout = self.layout(target, existing, bound, prepended)
        final = self.bound(
            replace(typed(query, bound, layout), partition_by=(*query.partition_by, *hidden_items(statement, layout)))
        )
        return StreamPlan(
            id=self.recorded.id if self.recorded else uuid.uuid4().hex,
            database=statement.name.database or self.database or target.name,
            name=statement.name.name,
            sql=self.recorded.sql if self.recorded else statement.text,
            options=statement.options,
            query=final,
            source=source.table,
            source_database=source.database,
            source_subtable=source.subtable,
            target=layout.table,
            target_database=target,
            target_exists=existing is not None,
            columns=layout.columns,
            groups=group_rule(statement, layout, final),
            watermark=statement.options.watermark.ticks(source.database.precision),
        )

    def bound(self, query: Query) -> Plan:
        plan = bind(query, self.scope, stream=True)
        assert isinstance(plan, Plan)
        return plan

    def target(self) -> tuple[Database, Table | None]:
        """The target's database, and the target where it exists."""
        name = self.statement.target
        database = name.database or self.database
        if database is None:
            raise InvalidStreamError(f"no database is chosen for {name}", hint=f"write database.{name}", span=name.span)
        found = self.catalog.databases.get(database)
        if name.name in self.catalog.subtables.find(database, [name.name]):
            raise InvalidStreamError(f"{name} is no supertable, and a stream writes to supertables", span=name.span)
        table = next((table for table in self.catalog.tables.all(database) if table.name == name.name), None)
        return found, table and self.as_recorded(table)

    def as_recorded(self, table: Table) -> Table:
        """A target with the columns and tags for which a recorded stream was defined."""
        schema = self.recorded.schema if self.recorded else None
        if schema is None:
            return table
        columns = tuple(column for column in table.columns if column.name in schema.fills)
        return replace(table, columns=columns, tags=tuple(tag for tag in table.tags if tag.name in schema.fills))

    def layout(self, database: Database, existing: Table | None, bound: Plan, prepended: bool) -> Layout:
        """The target's layout. Of a recorded stream, a table that the stream has created counts as new."""
        if existing is None:
            return new_layout(self.statement, database.name, bound, prepended)
        if self.recorded is not None:
            with contextlib.suppress(Error):
                own = new_layout(self.statement, database.name, bound, prepended)
                if created_by(own, existing):
                    return replace(own, table=existing)
        return existing_layout(self.statement, existing, bound, prepended)


def check_bound(plan: Plan, statement: CreateStream, source: Relation, language: Language) -> None:
    """What can be told only once names are resolved."""
    first = plan.outputs[0]
    if first.type.kind is not TypeKind.TIMESTAMP or (plan.window is None and not is_time(statement.query, source, language)):
        raise InvalidStreamError(
            f"the first column of the result is not the timestamp {source.table.timestamp.name}",
            hint=f"select {source.table.timestamp.name} first",
            span=statement.query.span,
        )
    if plan.window is None and plan.aggregated:
        raise InvalidStreamError(
            "aggregates need a window in a stream", hint="add INTERVAL, or select columns alone", span=statement.query.span
        )
    key = source.table.key
    if plan.window is None and key is not None and not (len(plan.outputs) > 1 and is_column(statement.query, 1, key.name)):
        raise InvalidStreamError(
            f"{source.table.name} has the key {key.name}, and it must be the second column of the result",
            hint=f"select {source.table.timestamp.name}, {key.name}, …",
            span=statement.query.span,
        )


def is_time(query: Query, source: Relation, language: Language) -> bool:
    """Whether the first item of a query without a window is the source's timestamp."""
    return any(is_column(query, 0, name) for name in (source.table.timestamp.name, *language.pseudo_columns.row_time))


def is_column(query: Query, place: int, name: str) -> bool:
    """Whether a plain column stands at a place of the select list; `*` has the columns in their order."""
    first = query.items[0].expression
    if isinstance(first, Star):
        return True
    expression = query.items[place].expression if place < len(query.items) else first
    return isinstance(expression, ColumnRef) and expression.name == name


def typed(query: Query, bound: Plan, layout: Layout) -> Query:
    """The query with casts where the target's columns have other types."""
    if any(isinstance(item.expression, Star) for item in query.items):
        return query
    items = []
    for item, output, name in zip(query.items, bound.outputs, layout.columns, strict=True):
        column = layout.table.column(name)
        assert column is not None
        same = spark_type(column.type) == spark_type(output.type) and column.type.length in (
            output.type.length,
            LONGEST.get(column.type.kind),
        )
        items.append(item if same else replace(item, expression=Cast(item.expression, column.type), alias=item.name))
    return replace(query, items=tuple(items))


def group_rule(statement: CreateStream, layout: Layout, plan: Plan) -> GroupRule:
    """How groups become subtables of the target."""
    items = list(dict.fromkeys(item.expression for item in (*statement.query.partition_by, *hidden_items(statement, layout))))
    keys = dict(zip(items, plan.keys, strict=False))
    written = name_expression(statement)
    name = None if written is None else keys[written]
    if name is not None and not name.type.is_string:
        raise TypeMismatchError(
            f"SUBTABLE gives {name.type}, not text", hint="use CAST(… AS VARCHAR(64)) or concat", span=statement.target.span
        )
    own = [keys[item.expression] for item in statement.query.partition_by]
    alone = len(own) == 1 and own[0].role is ColumnRole.SERIES
    return GroupRule(
        kind=GroupKind.ONE if not own else GroupKind.SUBTABLE if alone else GroupKind.VALUES,
        database=layout.table.database,
        table=layout.table.name,
        keys=tuple(KeyColumn(key.column, key.type) for key in own),
        name=None if name is None else name.column,
        tags=tuple(TagSource(fill.tag.name, fill.tag.type, tag_column(fill, keys)) for fill in layout.tags),
        id_tag=layout.id_tag,
    )


def tag_column(fill: TagFill, keys: Mapping[Expression, Key]) -> str | None:
    """The key that holds a tag's values."""
    value = tag_value(fill)
    return None if value is None else keys[value].column
