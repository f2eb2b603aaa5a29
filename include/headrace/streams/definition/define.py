"""From a `CREATE STREAM` statement to a plan. All errors of a statement are raised here, before anything is created."""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from headrace.catalog import Catalog
from headrace.catalog.rules import target_taken
from headrace.code.languages import registered_calls, registered_language
from headrace.compute import Plan, Relation, Scan, Scope, SeriesNames, bind, language
from headrace.compute.assignment import assign_outputs
from headrace.compute.nodes import columns_of
from headrace.errors import Error, InternalError, InvalidStreamError, LimitError, NoDatabaseError, NotFoundError
from headrace.model.job_parts import part_number
from headrace.model.jobs import JobDefinition, Replacement
from headrace.model.notifications import Notification
from headrace.model.positions import SourceId, source_id
from headrace.model.queries import Query
from headrace.model.statements import CreateStream
from headrace.model.streams import MAX_STREAMS_PER_DATABASE, StreamOptions, StreamSchema, TriggerMode
from headrace.model.tables import ColumnReference, Database, Name, Table, TableId
from headrace.settings import Settings
from headrace.sql import parse
from headrace.streams.definition.checks import check_statement, source_name
from headrace.streams.definition.event_conditions import ConditionValues, add_condition_values
from headrace.streams.definition.groups import GroupRule
from headrace.streams.definition.layout import (
    Layout,
    check_types,
    define_groups,
    existing_layout,
    hidden_items,
    is_created_by,
    new_layout,
    prepend_window_start,
)
from headrace.streams.definition.plan_checks import check_filled_key, check_plan, check_precision, check_virtual_source
from headrace.streams.definition.series_parts import SeriesPart
from headrace.streams.kind import STREAM


@dataclass(frozen=True)
class StreamPlan:
    """A stream with all names resolved.

    Attributes:
        id: The id of the stream's state and transactions; new for each `define`.
        database: The database that the stream belongs to.
        name: The stream's own name.
        query: The bound query. Its partition keys are those of the statement, then hidden ones: the SUBTABLE expression and the
            tags of the target. Its first output column is the window's start (the row's timestamp if there is no window).
        source: The table that the query names; if it is virtual, the changes of its origins are read.
        source_subtable: The one subtable of the source that the query reads; None if it reads all.
        target: The table that takes the results.
        target_exists: Whether the target existed when the statement was checked.
        columns: For each output column of `query`, in order, the column of `target` that it fills.
        groups: How a group of the query gets its subtable of the target, with tags.
        watermark: The watermark delay, in ticks of the source's precision.
        delete_mark: How far behind the maximum event time state is dropped, in ticks; None if it never is.
        conditions: With a notification, what made event windows start and end.
        functions: The registered functions that the statement calls.
        tags_version: See `StreamSchema`.
        since: See `StreamSchema`.
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
    delete_mark: int | None = None
    notification: Notification | None = None
    conditions: ConditionValues = field(default_factory=ConditionValues)
    functions: tuple[str, ...] = ()
    tags_version: int | None = None
    since: int | None = None

    @property
    def scan(self) -> Scan:
        return self.query.scans[0]

    @property
    def stored_columns(self) -> list[str]:
        """The columns of the source that the query reads, without tags that are joined to its rows."""
        return [name for name in self.scan.columns if not self.source.is_joined(name)]

    @property
    def source_series(self) -> list[str] | None:
        """The series of the source that the query reads; None if it reads all."""
        return None if self.source_subtable is None else [self.source_subtable]

    @property
    def part(self) -> SeriesPart | None:
        """Which series of the source this job computes, if several jobs compute the stream; a history is computed by the first."""
        count = self.options.partitions
        return None if count == 1 else SeriesPart(part_number(self.id), count)

    @property
    def references(self) -> tuple[ColumnReference, ...]:
        """Where the columns of a virtual source come from, of those that the query needs."""
        return self.scan.references_read

    @property
    def sources(self) -> tuple[TableId, ...]:
        """The stored tables whose changes are read."""
        origins = dict.fromkeys(reference.origin for reference in self.references)
        return tuple(origins) if self.source.is_virtual else (self.source.id,)

    @property
    def ignores_updates(self) -> bool:
        """True if a row that is written again counts as an additional row.

        A row of a virtual table changes whenever one of its origins adds its column, so there an update is never an additional row.
        """
        return self.options.ignore_update and not self.source.is_virtual

    @property
    def follows_tags(self) -> bool:
        """True if a change of tags moves stored rows to other groups; otherwise only rows that are written from then on."""
        return bool(self.scan.tags) and not self.ignores_updates and not self.is_closed_by_clock

    @property
    def keeps_groups(self) -> bool:
        """True if rows stay where they were counted when the tags that decide on that change."""
        if not self.ignores_updates or self.is_closed_by_clock:
            return False
        nodes = [key.node for key in self.query.keys] + ([] if self.query.filter is None else [self.query.filter])
        return any(name in self.scan.tags for node in nodes for name in columns_of(node))

    @property
    def source_ids(self) -> tuple[SourceId, ...]:
        """The sources, as offsets name them."""
        return tuple(source_id(source.database, source.name) for source in self.sources)

    @property
    def fills_gaps(self) -> bool:
        """True if FILL is a step between the windows that the stream emits and its target."""
        return self.query.fill is not None and self.query.fill.between

    @property
    def leaves_rows_out(self) -> bool:
        """True if a row may belong to no window, so that only its subtable's progress shows whether it is in order."""
        return self.query.window is not None and self.query.window.leaves_rows_out

    @property
    def is_closed_by_clock(self) -> bool:
        """True if the clock closes windows, not event time."""
        return self.options.trigger is TriggerMode.FORCE_WINDOW_CLOSE

    @property
    def defers_changes(self) -> bool:
        """True if late rows, updates and deletes only mark closed windows, which the clock has recalculated."""
        return self.options.trigger is TriggerMode.CONTINUOUS_WINDOW_CLOSE

    @property
    def separates_late_rows(self) -> bool:
        return self.options.ignore_expired or self.defers_changes

    @property
    def schema(self) -> StreamSchema:
        """The columns of the source and target that the stream uses."""
        used = dict.fromkeys(name for scan in self.query.scans for name in scan.columns if name != scan.table.series_key)
        filled = (*self.target.columns, *self.target.tags)
        return StreamSchema(
            columns=self.source.columns,
            tags=self.source.tags,
            reads=tuple(used),
            fills=tuple(column.name for column in filled),
            virtual=self.source.id if self.source.is_virtual else None,
            references=self.references,
            tags_version=self.tags_version,
            since=self.since,
            parts=self.options.partitions,
        )

    def definition(
        self,
        *,
        created: int,
        snode: str = "default",
        dialect: str = "tdengine",
        replaces: Replacement | None = None,
        owner: str = "",
    ) -> JobDefinition:
        """Return the definition to record in the catalog."""
        return JobDefinition(
            id=self.id,
            kind=STREAM,
            database=self.database,
            name=self.name,
            sql=self.sql,
            dialect=dialect,
            sources=self.sources,
            target=self.target.id,
            created=created,
            snode=snode,
            schema=self.schema,
            replaces=replaces,
            owner=owner,
            functions=self.functions,
        )


def catalog_scope(
    catalog: Catalog,
    database: str | None,
    *,
    dialect: str = "tdengine",
    timezone: str = "UTC",
    now: int = 0,
    settings: Settings | None = None,
    registered: Collection[str] | None = None,
) -> Scope:
    """Return the scope of a statement, in which names without a database refer to `database`.

    It has the functions that users have registered if there are `settings`; of these, those that `registered` names, if it is set.
    """

    @functools.cache
    def lookup(name: Name) -> Relation:
        """Return the relation of a name; raise with the name's position if there is none."""
        owning_database = name.database or database
        if owning_database is None:
            raise NoDatabaseError(
                f"no database is selected for {name}", hint=f"write database.{name}, or select one with USE", span=name.span
            )
        try:
            return find_relation(catalog, owning_database, name.name)
        except NotFoundError as error:
            error.span = error.span or name.span
            raise

    functions = language(dialect) if settings is None else registered_language(dialect, catalog, settings, registered)
    return Scope(lambda name: (lookup(name),), functions, timezone, now)


def find_relation(catalog: Catalog, database: str, name: str) -> Relation:
    """Return the table of a name, or the subtable."""
    owning_database = catalog.databases.get(database)
    subtable = catalog.subtables.find(database, [name]).get(name)
    is_table = subtable is None or subtable.table == name
    table = catalog.tables.get(database, name if subtable is None else subtable.table)
    series = None if is_table else SeriesNames((name,))
    if not table.is_virtual:
        return Relation(table, owning_database, series)
    names = None if series is None else series.names
    return Relation(table, owning_database, series, catalog.virtual_tables.references(database, table.name, names))


def define(
    statement: CreateStream,
    catalog: Catalog,
    database: str | None,
    *,
    dialect: str = "tdengine",
    now: int = 0,
    replaced: JobDefinition | None = None,
    max_streams: int = MAX_STREAMS_PER_DATABASE,
    settings: Settings | None = None,
) -> StreamPlan:
    """Check a statement in the context of a current database, and return its plan.

    Creates nothing. Does not check whether a stream of that name exists. `replaced` is the stream whose place the new one takes,
    `max_streams` the number of streams that may read one database.

    Raises:
        InvalidStreamError: The query or an option is not valid in a stream.
        NotSupportedError: A window or trigger mode is not supported.
        NotFoundError: A table, column or tag does not exist.
        ExistsError: Names clash, or the target exists already.
        LimitError: The database has too many streams, or an option is out of its range.
        TypeMismatchError: A result has the wrong type for the target.
    """
    scope = catalog_scope(catalog, database, dialect=dialect, now=now, settings=settings)
    plan = Definer(statement, catalog, scope, database, replaced=replaced).plan()
    check_rival(plan, statement, catalog, replaced)
    check_number_of_streams(plan, catalog, replaced, max_streams)
    return plan


def plan_recorded_stream(definition: JobDefinition, catalog: Catalog, settings: Settings | None = None) -> StreamPlan:
    """Return the plan of a recorded stream, as `define` returned it, with the recorded id."""
    statement = recorded_statement(definition)
    scope = catalog_scope(
        catalog,
        definition.database,
        dialect=definition.dialect,
        now=definition.created,
        settings=settings,
        registered=definition.functions,
    )
    scope = scope_as_recorded(scope, definition)
    try:
        return Definer(statement, catalog, scope, definition.database, recorded=definition).plan()
    except Error as error:
        raise error.with_sql(definition.sql) from None


def recorded_statement(definition: JobDefinition) -> CreateStream:
    statement = parse(definition.sql, definition.dialect)
    if not isinstance(statement, CreateStream):
        raise InternalError(f"the recorded statement of the stream {definition.name} is not CREATE STREAM", sql=definition.sql)
    return statement


def scope_as_recorded(scope: Scope, definition: JobDefinition) -> Scope:
    schema = definition.schema
    if schema is None:
        return scope

    def as_recorded(relation: Relation) -> Relation:
        if relation.table.id != definition.source:
            return relation
        table = replace(relation.table, columns=schema.columns, tags=schema.tags)
        return replace(relation, table=table, references=schema.references)

    return replace(scope, resolve=lambda name: tuple(map(as_recorded, scope.resolve(name))))


def check_rival(plan: StreamPlan, statement: CreateStream, catalog: Catalog, replaced: JobDefinition | None) -> None:
    """Reject a target that another job fills."""
    rival = catalog.jobs.of_target(plan.target.id)
    if rival is not None and rival.definition != replaced:
        error = target_taken(rival.definition.name, plan.target.name)
        error.span = statement.target.span
        raise error


def check_number_of_streams(plan: StreamPlan, catalog: Catalog, replaced: JobDefinition | None, limit: int) -> None:
    """Reject a stream beyond the limit of those that read one database."""
    database = plan.source_database.name
    leaving = replaced is not None and replaced.source.database == database
    if catalog.jobs.count(STREAM, database) - leaving >= limit:
        raise LimitError(
            f"{plan.source_database.name} already has the maximum of {limit} streams",
            hint="drop one, split the database, or raise HEADRACE_STREAMS_PER_DATABASE",
        )


@dataclass(frozen=True)
class Definer:
    """The plan of one statement in the making.

    `recorded` is the catalog's definition of a stream that exists, `replaced` that of the stream whose place the new one takes.
    """

    statement: CreateStream
    catalog: Catalog
    scope: Scope
    database: str | None
    recorded: JobDefinition | None = None
    replaced: JobDefinition | None = None

    def plan(self) -> StreamPlan:
        statement = self.statement
        source = self.scope.relation(source_name(statement.query).name)
        check_statement(statement, source, self.scope.language)
        query = prepend_window_start(statement.query)
        bound = self.bind_query(query)
        check_plan(bound, statement, source, self.scope.language)
        prepended = query is not statement.query
        check_virtual_source(bound, statement)
        target_database, existing = self.resolve_target()
        check_precision(bound, query, target_database, statement)
        layout = self.choose_layout(target_database, existing, bound, prepended)
        check_filled_key(statement, layout, bound)
        with_hidden = replace(query, partition_by=(*query.partition_by, *hidden_items(statement, layout)))
        with_conditions, conditions = add_condition_values(with_hidden, statement, source.table)
        final = self.assign_to_target(self.bind_query(with_conditions), layout)
        return StreamPlan(
            id=self.recorded.id if self.recorded else uuid.uuid4().hex,
            database=statement.name.database or self.database or target_database.name,
            name=statement.name.name,
            sql=self.recorded.sql if self.recorded else statement.text,
            options=effective_options(statement.options),
            query=final,
            source=source.table,
            source_database=source.database,
            source_subtable=source.subtable,
            target=layout.table,
            target_database=target_database,
            target_exists=existing is not None,
            columns=layout.columns,
            groups=define_groups(statement, layout, final),
            watermark=statement.options.watermark.ticks(source.database.precision),
            delete_mark=effective_delete_mark(statement.options, final),
            notification=statement.notification,
            conditions=conditions,
            functions=registered_calls(self.scope.language.name, self.catalog, statement),
            **self.beginning(),
        )

    def beginning(self) -> dict[str, int | None]:
        schema = None if self.recorded is None else self.recorded.schema
        return {} if schema is None else {"tags_version": schema.tags_version, "since": schema.since}

    def bind_query(self, query: Query) -> Plan:
        plan = bind(query, self.scope, stream=True)
        assert isinstance(plan, Plan)
        window = plan.interval
        if window is None or window.fill is None:
            return plan
        is_clocked = self.statement.options.trigger is TriggerMode.FORCE_WINDOW_CLOSE
        window = replace(window, fill=replace(window.fill, keeps_nulls=True, between=not is_clocked))
        return replace(plan, selection=replace(plan.groups, window=window))

    def assign_to_target(self, plan: Plan, layout: Layout) -> Plan:
        """Convert the outputs for the target's columns. Errors carry the target's position."""
        columns = [column for name in layout.columns if (column := layout.table.column(name)) is not None]
        try:
            return assign_outputs(plan, columns, self.scope.language)
        except Error as error:
            error.span = error.span or self.statement.target.span
            raise

    def resolve_target(self) -> tuple[Database, Table | None]:
        name = self.statement.target
        database = name.database or self.database
        if database is None:
            raise NoDatabaseError(f"no database is selected for {name}", hint=f"write database.{name}", span=name.span)
        target_database = self.catalog.databases.get(database)
        if name.name in self.catalog.subtables.find(database, [name.name]):
            raise InvalidStreamError(f"{name} is not a supertable", span=name.span)
        table = self.catalog.tables.find(database, name.name)
        if table is not None and table.is_virtual:
            raise InvalidStreamError(f"{name} is a virtual table, which stores no rows", hint="name another target", span=name.span)
        if table is not None and table.external is not None:
            raise InvalidStreamError(f"{name} is an external table, which is only read", hint="name another target", span=name.span)
        return target_database, table and restrict_to_filled(table, self.recorded)

    def choose_layout(self, database: Database, existing: Table | None, bound: Plan, prepended: bool) -> Layout:
        """Return the target's layout. A table that a stream has created counts as new for itself and for its replacement."""
        if existing is None:
            return new_layout(self.statement, database.name, bound, prepended)
        own = self.recorded or self.replaced
        if own is not None and own.target == existing.id:
            new_target = None
            with contextlib.suppress(Error):  # there cannot be a new target
                new_target = new_layout(self.statement, database.name, bound, prepended)
            for table in (existing, restrict_to_filled(existing, own)):
                if new_target is not None and is_created_by(new_target, table):
                    if self.recorded is None and self.statement.text != own.sql:
                        check_types(self.statement, new_target.table, table)
                    return replace(new_target, table=table)
        return existing_layout(self.statement, existing, bound, prepended)


def restrict_to_filled(table: Table, stream: JobDefinition | None) -> Table:
    schema = stream.schema if stream is not None else None
    if schema is None:
        return table
    columns = tuple(column for column in table.columns if column.name in schema.fills)
    return replace(table, columns=columns, tags=tuple(tag for tag in table.tags if tag.name in schema.fills))


def effective_options(options: StreamOptions) -> StreamOptions:
    """Return the options that apply: FORCE_WINDOW_CLOSE has no history, and ignores late rows and updates."""
    if options.trigger is not TriggerMode.FORCE_WINDOW_CLOSE:
        return options
    return replace(options, fill_history=False, fill_history_async=False, ignore_expired=True, ignore_update=True)


def effective_delete_mark(options: StreamOptions, plan: Plan) -> int | None:
    """Return DELETE_MARK in ticks, at least the watermark delay and the length of a window; None if state is never dropped."""
    if options.delete_mark is None or options.delete_mark.count <= 0:
        return None
    mark = max(options.delete_mark.ticks(plan.precision), options.watermark.ticks(plan.precision))
    return mark if plan.interval is None else max(mark, plan.interval.max_span(plan.precision))
