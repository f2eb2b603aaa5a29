"""SHOW and DESCRIBE: answered from the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.errors import NotSupportedError, ProgrammingError
from headrace.model.statements import CreateTable, Describe, Show
from headrace.model.tables import Name, Table
from headrace.service import relations
from headrace.service.planning.dispatch import PlanningContext, database_of, find_table
from headrace.service.results import BIGINT, BOOL, STRING, Result, rows_result
from headrace.service.rights import CATALOG, Action, ObjectKind, Right, Securable, database_securable
from headrace.service.stages import ReadCatalog, Stage
from headrace.sql import to_sql


def show(statement: Show, session: PlanningContext) -> list[Stage]:
    reader = READERS.get(statement.what)
    if reader is None:
        raise NotSupportedError(
            f"SHOW {statement.what.upper()} is not supported", hint=f"there are {', '.join(READERS).upper()}", span=statement.span
        )
    return [ReadCatalog(f"SHOW {statement.what.upper()}", partial(reader, statement, session), rights_of_show(statement, session))]


def describe(statement: Describe, session: PlanningContext) -> list[Stage]:
    right = Right(Action.DESCRIBE, named_securable(ObjectKind.TABLE, statement.table, session))
    return [ReadCatalog(f"DESCRIBE {statement.table}", partial(describe_table, statement.table, session), (right,))]


def rights_of_show(statement: Show, session: PlanningContext) -> tuple[Right, ...]:
    """See the object that is named, else the database that is listed, else the catalog."""
    if statement.name is not None:
        kind = ObjectKind.STREAM if statement.what == "create stream" else ObjectKind.TABLE
        return (Right(Action.DESCRIBE, named_securable(kind, statement.name, session)),)
    database = statement.database or (session.database if statement.what in OF_A_DATABASE else None)
    return (Right(Action.DESCRIBE, CATALOG if database is None else database_securable(database)),)


def named_securable(kind: ObjectKind, name: Name, session: PlanningContext) -> Securable:
    return Securable(kind, name.database or session.database or "", name.name)


def describe_table(name: Name, session: PlanningContext) -> Result:
    table = table_of(name, session)
    notes = {column.name: "COMPOSITE KEY" if column.is_key else "" for column in table.columns} | {
        tag.name: "TAG" for tag in table.tags
    }
    rows = [
        (each.name, each.type.kind.value, length_of(str(each.type)), notes[each.name]) for each in (*table.columns, *table.tags)
    ]
    return rows_result(("field", "type", "length", "note"), rows)


def length_of(type_text: str) -> str | None:
    match = re.search(r"\((.*)\)", type_text)
    return match.group(1) if match else None


def table_of(name: Name, session: PlanningContext) -> Table:
    """The table of a name, which may be a subtable's."""
    catalog, database = session.context.catalog, database_of(name, session)
    found = catalog.subtables.find(database, [name.name]).get(name.name)
    return catalog.tables.get(database, found.table if found else name.name)


def listing(
    relation: str, shown: tuple[str, ...], statement: Show, session: PlanningContext, *, within: str | None = "db_name"
) -> Result:
    """Rows of a system table: of one database where `within` names its column, and LIKE a pattern."""
    rows = relations.RELATIONS[relation](session.context)
    if within is not None:
        database = statement.database or session.database
        if database is None:
            raise ProgrammingError("no database chosen", hint="USE database, or SHOW … FROM database", span=statement.span)
        session.context.catalog.databases.get(database)
        rows = rows.where(within, database)
    return Result(rows.select(shown).like(statement.like))


def show_streams(statement: Show, session: PlanningContext) -> Result:
    """Of all databases, or of the one named: a stopped stream should not hide."""
    rows = relations.streams(session.context)
    if statement.database is not None:
        rows = rows.where("db_name", statement.database)
    return Result(rows.select(STREAM_COLUMNS).like(statement.like))


def show_tags(statement: Show, session: PlanningContext) -> Result:
    assert statement.name is not None
    name = Name(statement.database or statement.name.database, statement.name.name, statement.name.span)
    table = table_of(name, session)
    only = None if table.name == name.name else name.name
    rows = list(relations.tag_rows(session.context, table, only))
    return rows_result(("table_name", "db_name", "stable_name", "tag_name", "tag_type", "tag_value"), rows)


def show_snodes(_: Show, session: PlanningContext) -> Result:
    names = sorted({session.context.settings.snode, *(each.definition.snode for each in session.context.catalog.jobs.all())})
    leases = [(name, session.context.catalog.leases.get(name)) for name in names]
    now = session.context.catalog.now()
    rows = [
        (name, lease.epoch if lease else None, lease.holder if lease else None, bool(lease and lease.expires > now))
        for name, lease in leases
    ]
    return rows_result(("snode", "epoch", "holder", "alive"), rows, (STRING, BIGINT, STRING, BOOL))


def show_create_table(statement: Show, session: PlanningContext) -> Result:
    assert statement.name is not None
    table, _ = find_table(statement.name, session)
    text = to_sql(CreateTable(Name(table.database, table.name), table.columns, table.tags))
    return rows_result(("table", "create table"), [(table.name, text)])


def show_create_stream(statement: Show, session: PlanningContext) -> Result:
    assert statement.name is not None
    record = session.context.catalog.jobs.get(database_of(statement.name, session), statement.name.name)
    return rows_result(("stream", "create stream"), [(record.definition.name, record.definition.sql)])


STREAM_COLUMNS: Final = [
    "stream_name",
    "db_name",
    "status",
    "message",
    "source_table",
    "target_db",
    "target_table",
    "lag_ms",
    "batch_ms",
    "rows_in",
    "rows_used",
    "rows_filtered",
    "rows_expired",
    "rows_pending",
    "rows_out",
    "updated",
]
OF_A_DATABASE: Final = frozenset({"stables", "tables"})
Reader = Callable[[Show, PlanningContext], Result]
READERS: Final[dict[str, Reader]] = {
    "databases": partial(listing, "ins_databases", ("name", "precision"), within=None),
    "stables": partial(listing, "ins_stables", ("stable_name",)),
    "tables": partial(listing, "ins_tables", ("table_name", "stable_name")),
    "tags": show_tags,
    "streams": show_streams,
    "snodes": show_snodes,
    "create table": show_create_table,
    "create stable": show_create_table,
    "create stream": show_create_stream,
}
