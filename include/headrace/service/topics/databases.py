"""Databases: create, alter, drop, use and compact them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.errors import DataError, ExistsError, LimitError, NotFoundError
from headrace.jobs.registry import kind_of
from headrace.model.failpoints import failpoint
from headrace.model.instants import ZONE_HINT, find_zone
from headrace.model.statements import AlterDatabase, CreateDatabase, DropDatabase, MaintainDatabase, UseDatabase
from headrace.model.tables import Database, Name, Table, TableKind
from headrace.model.time import MONTHS
from headrace.model.types import TIMESTAMP
from headrace.service.names import check_name
from headrace.service.results import BIGINT, STRING, Result, rows_result
from headrace.service.rights import Action, on_database
from headrace.service.stage import PlanningContext, SessionState, Stage

if TYPE_CHECKING:
    from headrace.model.jobs import JobRecord
    from headrace.storage import Bounds


def plan_create_database(statement: CreateDatabase, session: PlanningContext) -> list[Stage]:
    check_name(statement.name)
    options = dict(statement.options)
    timezone = options.pop("timezone", session.context.settings.timezone)
    if find_zone(timezone) is None:
        raise DataError(f"time zone {timezone!r} does not exist", hint=ZONE_HINT)
    check_keep(options.get("keep", ""), statement.name)
    database = Database(statement.name.name, statement.precision, timezone=timezone, options=tuple(options.items()))

    def apply(session: SessionState) -> None:
        with session.context.catalog.lock(f"ddl {database.name}"):
            session.context.catalog.databases.create(database, statement.if_not_exists)

    described = f"create database {database.name} (precision {database.precision}, time zone {database.timezone})"
    return [Stage(on_database(Action.CREATE, database.name), lambda: [described], apply)]


def check_keep(keep: str, name: Name) -> None:
    """Refuse a KEEP in months or years."""
    if any(time.endswith(tuple(MONTHS)) for time in keep.split(",")):
        raise LimitError(f"KEEP {keep} has no fixed length", hint="write days, or use the units m, h, d or w", span=name.span)


def plan_alter_database(statement: AlterDatabase, session: PlanningContext) -> list[Stage]:
    check_keep(dict(statement.options).get("keep", ""), statement.name)
    name, options = session.context.catalog.databases.get(statement.name.name).name, statement.options
    return [
        Stage(
            on_database(Action.ALTER, name),
            lambda: [f"set {', '.join(f'{option.upper()} {value}' for option, value in options)} of database {name}"],
            lambda session: session.context.catalog.databases.alter(name, options),
        )
    ]


def plan_drop_database(statement: DropDatabase, session: PlanningContext) -> list[Stage]:
    catalog, name = session.context.catalog, statement.name.name
    try:
        tables = tuple(catalog.tables.all(name))
    except NotFoundError:
        if session.context.tables.has_leftovers(name):
            return [remove_leftovers(name)]
        if statement.if_exists:
            return []
        raise
    return [remove_database(name, tables, [record for record in catalog.jobs.all() if record.definition.database == name])]


def remove_database(name: str, tables: Sequence[Table], jobs: Sequence[JobRecord]) -> Stage:
    """Drop a database: its jobs, then its tables in one transaction of the catalog, then their files.

    Repeating it completes what was interrupted, also after the catalog has forgotten the database (`remove_leftovers`).
    """

    def apply(session: SessionState) -> None:
        from headrace.trees.schema_statements import database_log

        context = session.context
        context.catalog.databases.check_droppable(name)
        for record in jobs:
            kind_of(record.definition).drop()(context, record.definition)
        failpoint("databases.drop.jobs")
        is_tree = any(table.kind is TableKind.TREE for table in tables)
        with context.catalog.lock(f"ddl {name}"):  # CREATE DATABASE waits until the files are gone
            context.catalog.databases.drop(name, statements=database_log(context, name) if is_tree else [])
            failpoint("databases.drop.recorded")
            for table in tables:
                context.tables.drop(table)
                failpoint("databases.drop.table")
            context.tables.drop_leftovers(name)
        if session.database == name:
            session.database = None

    described = f"drop database {name} with {len(tables)} tables and {len(jobs)} streams"

    def loses() -> list[str]:
        return [f"table {table.database}.{table.name}" for table in tables] + [
            f"{record.definition.kind} {record.definition}" for record in jobs
        ]

    return Stage(on_database(Action.DROP, name), lambda: [described], apply, loses=loses)


def remove_leftovers(database: str, table: str | None = None) -> Stage:
    """Remove the files of a database or table that the catalog does not have: dropping it was interrupted."""
    name = database if table is None else f"{database}.{table}"
    described = f"remove the files that an interrupted DROP has left of {name}"

    def apply(session: SessionState) -> None:
        catalog = session.context.catalog
        with catalog.lock(f"ddl {name}"):
            with suppress(NotFoundError):
                if table is None or catalog.tables.find(database, table) is not None:
                    catalog.databases.get(database)
                    raise ExistsError(f"{name} exists again", hint="repeat the statement to drop it")
            session.context.tables.drop_leftovers(database, table)

    return Stage(on_database(Action.DROP, database), lambda: [described], apply, loses=lambda: [f"the files of {name}"])


def plan_use_database(statement: UseDatabase, session: PlanningContext) -> list[Stage]:
    name = session.context.catalog.databases.get(statement.name.name).name

    def apply(session: SessionState) -> None:
        session.database = name

    return [Stage(on_database(Action.DESCRIBE, name), lambda: [f"use database {name}"], apply)]


def plan_maintain_database(statement: MaintainDatabase, session: PlanningContext) -> list[Stage]:
    """Plan COMPACT DATABASE and FLUSH DATABASE. Writes are durable when they return, so nothing is left to flush."""
    database = session.context.catalog.databases.get(statement.name.name)
    return [compact_database(database.name, compacted_range(statement, database, session))] if statement.compact else []


def compact_database(name: str, bounds: Bounds | None) -> Stage:
    """Compact the tables of a database (only files with rows of a range, if there is one), and remove files that nothing needs."""

    def apply(session: SessionState) -> Result:
        from headrace.runtime.table_maintenance import maintain

        results = [(done.table, done.compacted, done.removed, done.kept) for done in maintain(session.context, name, bounds=bounds)]
        return rows_result(("table", "compacted", "removed", "kept"), results, (STRING, BIGINT, BIGINT, STRING))

    files = "the tables" if bounds is None else "files with rows of a range of time, of the tables"
    described = f"compact {files} of database {name}, and remove files that nothing needs"
    return Stage(on_database(Action.ALTER, name), lambda: [described], apply)


def compacted_range(statement: MaintainDatabase, database: Database, session: PlanningContext) -> Bounds | None:
    """Return the range of COMPACT DATABASE as stored; None for all times."""
    if statement.start is None and statement.end is None:
        return None
    from headrace.storage import Bounds
    from headrace.storage.values.scalars import InvalidValueError, TimeContext, to_stored

    context = TimeContext(session.context.clock.now(), database.timezone, database.precision)
    try:
        ends = [None if end is None else to_stored(end, TIMESTAMP, context) for end in (statement.start, statement.end)]
    except InvalidValueError as error:
        raise DataError("START WITH or END WITH is no instant", hint=f"give it {error}", span=statement.span) from None
    everything = Bounds.of_ticks(None, None, database.precision)
    start, end = (end if isinstance(end, int) else None for end in ends)
    return Bounds(everything.low if start is None else start, everything.high if end is None else end)
