"""Databases: create, alter, drop, use and compact them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import DataError, LimitError, NotFoundError
from headrace.model.instants import ZONE_HINT, find_zone
from headrace.model.statements import AlterDatabase, CreateDatabase, DropDatabase, MaintainDatabase, UseDatabase
from headrace.model.tables import Database, Name, Table
from headrace.model.time import MONTHS
from headrace.model.types import TIMESTAMP
from headrace.service.names import check_name
from headrace.service.results import BIGINT, STRING, Result, rows_result
from headrace.service.rights import Action, Right, database_securable
from headrace.service.stage import DONE, DatabaseStage, Stage
from headrace.service.state import PlanningContext, SessionState

if TYPE_CHECKING:
    from headrace.model.jobs import JobRecord
    from headrace.storage import Bounds


@dataclass(frozen=True, slots=True)
class MakeDatabase(DatabaseStage):
    """Create a database."""

    action = Action.CREATE
    if_not_exists: bool

    def describe(self) -> list[str]:
        return [f"create database {self.database.name} (precision {self.database.precision}, time zone {self.database.timezone})"]

    def apply(self, session: SessionState) -> Result:
        session.context.catalog.databases.create(self.database, self.if_not_exists)
        return DONE


@dataclass(frozen=True, slots=True)
class ChangeDatabase(Stage):
    """Change options of a database, and leave the others as they are."""

    name: str
    options: tuple[tuple[str, str], ...]

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.ALTER, database_securable(self.name)),)

    def describe(self) -> list[str]:
        return [f"set {', '.join(f'{name.upper()} {value}' for name, value in self.options)} of database {self.name}"]

    def apply(self, session: SessionState) -> Result:
        session.context.catalog.databases.alter(self.name, self.options)
        return DONE


@dataclass(frozen=True, slots=True)
class CompactDatabase(Stage):
    """Compact the tables of a database (only files with rows of a range, if there is one), and remove files that nothing needs."""

    name: str
    bounds: Bounds | None = None

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.ALTER, database_securable(self.name)),)

    def describe(self) -> list[str]:
        files = "the tables" if self.bounds is None else "files with rows of a range of time, of the tables"
        return [f"compact {files} of database {self.name}, and remove files that nothing needs"]

    def apply(self, session: SessionState) -> Result:
        from headrace.runtime.table_maintenance import maintain

        done_by_table = maintain(session.context, self.name, bounds=self.bounds)
        results = [(done.table, done.compacted, done.removed, done.kept) for done in done_by_table]
        return rows_result(("table", "compacted", "removed", "kept"), results, (STRING, BIGINT, BIGINT, STRING))


@dataclass(frozen=True, slots=True)
class RemoveDatabase(Stage):
    """Drop a database with its tables and streams."""

    name: str
    tables: tuple[Table, ...]
    streams: tuple[JobRecord, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.DROP, database_securable(self.name)),)

    def describe(self) -> list[str]:
        return [f"drop database {self.name} with {len(self.tables)} tables and {len(self.streams)} streams"]

    def apply(self, session: SessionState) -> Result:
        from headrace.streams.lifecycle import forget, retire

        session.context.catalog.databases.drop(self.name)
        for record in self.streams:
            retire(session.context, record.definition)
            forget(session.context, record.definition.id)
        for table in self.tables:
            session.context.tables.drop(table)
        if session.database == self.name:
            session.database = None
        return DONE


@dataclass(frozen=True, slots=True)
class SwitchDatabase(Stage):
    """Make a database the session's current one."""

    name: str

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.DESCRIBE, database_securable(self.name)),)

    def describe(self) -> list[str]:
        return [f"use database {self.name}"]

    def apply(self, session: SessionState) -> Result:
        session.database = self.name
        return DONE


def plan_create_database(statement: CreateDatabase, session: PlanningContext) -> list[Stage]:
    check_name(statement.name)
    options = dict(statement.options)
    timezone = options.pop("timezone", session.context.settings.timezone)
    if find_zone(timezone) is None:
        raise DataError(f"time zone {timezone!r} does not exist", hint=ZONE_HINT)
    check_keep(options.get("keep", ""), statement.name)
    database = Database(statement.name.name, statement.precision, timezone=timezone, options=tuple(options.items()))
    return [MakeDatabase(database, statement.if_not_exists)]


def check_keep(keep: str, name: Name) -> None:
    """Refuse a KEEP in months or years."""
    if any(time.endswith(tuple(MONTHS)) for time in keep.split(",")):
        raise LimitError(f"KEEP {keep} has no fixed length", hint="write days, or use the units m, h, d or w", span=name.span)


def plan_alter_database(statement: AlterDatabase, session: PlanningContext) -> list[Stage]:
    check_keep(dict(statement.options).get("keep", ""), statement.name)
    database = session.context.catalog.databases.get(statement.name.name)
    return [ChangeDatabase(database.name, statement.options)]


def plan_drop_database(statement: DropDatabase, session: PlanningContext) -> list[Stage]:
    catalog, name = session.context.catalog, statement.name.name
    try:
        tables = tuple(catalog.tables.all(name))
    except NotFoundError:
        if statement.if_exists:
            return []
        raise
    streams = tuple(record for record in catalog.jobs.all() if record.definition.database == name)
    return [RemoveDatabase(name, tables, streams)]


def plan_use_database(statement: UseDatabase, session: PlanningContext) -> list[Stage]:
    return [SwitchDatabase(session.context.catalog.databases.get(statement.name.name).name)]


def plan_maintain_database(statement: MaintainDatabase, session: PlanningContext) -> list[Stage]:
    """Plan COMPACT DATABASE and FLUSH DATABASE. Writes are durable when they return, so nothing is left to flush."""
    database = session.context.catalog.databases.get(statement.name.name)
    return [CompactDatabase(database.name, compacted_range(statement, database, session))] if statement.compact else []


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
