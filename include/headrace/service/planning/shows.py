"""SHOW and DESCRIBE: answered from the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.errors import NotSupportedError, ProgrammingError
from headrace.model.statements import CreateTable, Describe, Show
from headrace.model.tables import Name, Table
from headrace.service import system
from headrace.service.planning.dispatch import Surroundings, database_of, find_table
from headrace.service.results import BIGINT, BOOL, STRING, Result, rows_result
from headrace.service.rights import CATALOG, Action, ObjectKind, Right, Securable, database_securable
from headrace.service.stages import ReadCatalog, Stage
from headrace.sql import to_sql


def show(statement: Show, around: Surroundings) -> list[Stage]:
    reader = READERS.get(statement.what)
    if reader is None:
        raise NotSupportedError(
            f"SHOW {statement.what.upper()} is not offered", hint=f"there are {', '.join(READERS).upper()}", span=statement.span
        )
    return [ReadCatalog(f"SHOW {statement.what.upper()}", partial(reader, statement, around), rights_of_show(statement, around))]


def describe(statement: Describe, around: Surroundings) -> list[Stage]:
    right = Right(Action.DESCRIBE, named_securable(ObjectKind.TABLE, statement.table, around))
    return [ReadCatalog(f"DESCRIBE {statement.table}", partial(describe_table, statement.table, around), (right,))]


def rights_of_show(statement: Show, around: Surroundings) -> tuple[Right, ...]:
    """See the object that is named, else the database that is listed, else the catalog."""
    if statement.name is not None:
        kind = ObjectKind.STREAM if statement.what == "create stream" else ObjectKind.TABLE
        return (Right(Action.DESCRIBE, named_securable(kind, statement.name, around)),)
    database = statement.database or (around.database if statement.what in OF_A_DATABASE else None)
    return (Right(Action.DESCRIBE, CATALOG if database is None else database_securable(database)),)


def named_securable(kind: ObjectKind, name: Name, around: Surroundings) -> Securable:
    return Securable(kind, name.database or around.database or "", name.name)


def describe_table(name: Name, around: Surroundings) -> Result:
    table = table_of(name, around)
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


def table_of(name: Name, around: Surroundings) -> Table:
    """The table of a name, which may be a subtable's."""
    catalog, database = around.context.catalog, database_of(name, around)
    found = catalog.subtables.find(database, [name.name]).get(name.name)
    return catalog.tables.get(database, found.table if found else name.name)


def listing(
    relation: str, shown: tuple[str, ...], statement: Show, around: Surroundings, *, within: str | None = "db_name"
) -> Result:
    """Rows of a system table: of one database where `within` names its column, and LIKE a pattern."""
    rows = system.RELATIONS[relation](around.context)
    if within is not None:
        database = statement.database or around.database
        if database is None:
            raise ProgrammingError("no database chosen", hint="USE database, or SHOW … FROM database", span=statement.span)
        around.context.catalog.databases.get(database)
        rows = rows.where(within, database)
    return Result(rows.select(shown).like(statement.like))


def show_streams(statement: Show, around: Surroundings) -> Result:
    """Of all databases, or of the one named: a stopped stream should not hide."""
    rows = system.streams(around.context)
    if statement.database is not None:
        rows = rows.where("db_name", statement.database)
    return Result(rows.select(STREAM_COLUMNS).like(statement.like))


def show_tags(statement: Show, around: Surroundings) -> Result:
    assert statement.name is not None
    name = Name(statement.database or statement.name.database, statement.name.name, statement.name.span)
    table = table_of(name, around)
    only = None if table.name == name.name else name.name
    rows = list(system.tag_rows(around.context, table, only))
    return rows_result(("table_name", "db_name", "stable_name", "tag_name", "tag_type", "tag_value"), rows)


def show_snodes(_: Show, around: Surroundings) -> Result:
    names = sorted({around.context.settings.snode, *(each.definition.snode for each in around.context.catalog.jobs.all())})
    leases = [(name, around.context.catalog.leases.get(name)) for name in names]
    now = around.context.catalog.now()
    rows = [
        (name, lease.epoch if lease else None, lease.holder if lease else None, bool(lease and lease.expires > now))
        for name, lease in leases
    ]
    return rows_result(("snode", "epoch", "holder", "alive"), rows, (STRING, BIGINT, STRING, BOOL))


def show_create_table(statement: Show, around: Surroundings) -> Result:
    assert statement.name is not None
    table, _ = find_table(statement.name, around)
    text = to_sql(CreateTable(Name(table.database, table.name), table.columns, table.tags))
    return rows_result(("table", "create table"), [(table.name, text)])


def show_create_stream(statement: Show, around: Surroundings) -> Result:
    assert statement.name is not None
    record = around.context.catalog.jobs.get(database_of(statement.name, around), statement.name.name)
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
    "rows_in",
    "rows_used",
    "rows_filtered",
    "rows_expired",
    "rows_pending",
    "rows_out",
    "updated",
]
OF_A_DATABASE: Final = frozenset({"stables", "tables"})
Reader = Callable[[Show, Surroundings], Result]
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
