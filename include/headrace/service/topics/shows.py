"""Plan SHOW and DESCRIBE, which the catalog alone answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from headrace.errors import NoDatabaseError, NotSupportedError, ProgrammingError
from headrace.model.access import Privilege
from headrace.model.expressions import Scalar
from headrace.model.external_statements import definition
from headrace.model.masking import masked
from headrace.model.statements import (
    CreateDatabase,
    CreateTable,
    CreateVirtualSubtable,
    CreateVirtualTable,
    Describe,
    Origin,
    Show,
    SubtableSpec,
    TagValue,
)
from headrace.model.tables import ColumnReference, Name, Table, TableKind
from headrace.service import system_tables
from headrace.service.function_tables import visible_functions
from headrace.service.names import database_of, find_stream, find_table, require_known, with_span
from headrace.service.results import BIGINT, BOOL, INSTANT, INT, STRING, CatalogRows, Result, rows_result
from headrace.service.rights import CATALOG, Action, ObjectKind, Right, Securable, database_securable
from headrace.service.stage import PlanningContext, Stage
from headrace.service.topics.queries import read_catalog
from headrace.service.topics.snodes import list_connections, list_queries
from headrace.service.visible_rows import is_own, visible_rows
from headrace.sql import to_sql
from headrace.streams.kind import STREAM


def plan_show(statement: Show, session: PlanningContext) -> list[Stage]:
    if statement.what == "queries":
        return [list_queries()]
    if statement.what == "connections":
        return [list_connections()]
    reader = READERS.get(statement.what)
    if reader is None:
        raise NotSupportedError(
            f"SHOW {statement.what.upper()} is not supported",
            hint=f"SHOW supports {', '.join(READERS).upper()}",
            span=statement.span,
        )
    return [read_catalog(f"SHOW {statement.what.upper()}", partial(reader, statement, session), show_rights(statement, session))]


def plan_describe(statement: Describe, session: PlanningContext) -> list[Stage]:
    right = Right(Action.DESCRIBE, named_securable(ObjectKind.TABLE, statement.table, session))
    return [read_catalog(f"DESCRIBE {statement.table}", partial(describe_table, statement.table, session), (right,))]


def show_rights(statement: Show, session: PlanningContext) -> tuple[Right, ...]:
    """Return DESCRIBE on the object named, else on the database listed, else on the catalog."""
    if statement.name is not None and statement.what == "create database":
        return (Right(Action.DESCRIBE, database_securable(statement.name.name)),)
    if statement.name is not None and statement.what == "files":
        return (Right(Action.READ, named_securable(ObjectKind.TABLE, statement.name, session)),)
    if statement.name is not None:
        kind = STREAM if statement.what == "create stream" else ObjectKind.TABLE
        return (Right(Action.DESCRIBE, named_securable(kind, statement.name, session)),)
    database = statement.database or (session.database if statement.what in LISTED_BY_DATABASE else None)
    return (Right(Action.DESCRIBE, CATALOG if database is None else database_securable(database)),)


def named_securable(kind: str, name: Name, session: PlanningContext) -> Securable:
    """Return the securable of a name, in the current database if it has none."""
    return Securable(kind, name.database or session.database or "", name.name)


def describe_table(name: Name, session: PlanningContext) -> Result:
    """List a table's columns and tags, of a virtual table with the origin of each column."""
    table = find_owner_table(name, session)
    notes = {column.name: "COMPOSITE KEY" if column.is_key else "" for column in table.columns} | {
        tag.name: "TAG" for tag in table.tags
    }
    rows = [
        (column.name, column.type.kind.value, type_length(str(column.type)), notes[column.name])
        for column in (*table.columns, *table.tags)
    ]
    if not table.is_virtual:
        return rows_result(("field", "type", "length", "note"), rows)
    origins = {reference.column: str(reference) for reference in find_references(table, name.name, session)}
    return rows_result(("field", "type", "length", "note", "ref"), [(*row, origins.get(row[0])) for row in rows])


def type_length(type_text: str) -> str | None:
    match = re.search(r"\((.*)\)", type_text)
    return match.group(1) if match else None


def find_owner_table(name: Name, session: PlanningContext) -> Table:
    """Return the table of a name, which may be a subtable's; raise as `find_table` does."""
    require_known(name, session)
    catalog, database = session.context.catalog, database_of(name, session)
    subtable = catalog.subtables.find(database, [name.name]).get(name.name)
    with with_span(name.span):
        return catalog.tables.get(database, subtable.table if subtable else name.name)


def read_system_table(relation: str, statement: Show, session: PlanningContext) -> CatalogRows:
    """Return a system table's rows of the statement's database, or else the current one."""
    database = statement.database or session.database
    if database is None:
        raise NoDatabaseError("no database chosen", hint="USE database, or SHOW … FROM database", span=statement.span)
    session.context.catalog.databases.get(database)
    return system_tables.RELATIONS[relation](session.context).where("db_name", database)


def list_stables(statement: Show, session: PlanningContext) -> Result:
    return Result(read_system_table("ins_stables", statement, session).select(("stable_name",)).like(statement.like))


def list_rows(relation: str, columns: Sequence[str], statement: Show, session: PlanningContext) -> Result:
    """List rows of all databases and of none, so that a job that has stopped does not hide, or of the database named."""
    rows = system_tables.RELATIONS[relation](session.context)
    if statement.database is not None:
        rows = rows.where("db_name", statement.database)
    return Result(rows.select(columns).like(statement.like))


def show_tags(statement: Show, session: PlanningContext) -> Result:
    """List the tags of a subtable, or of all subtables of a supertable."""
    assert statement.name is not None
    name = Name(statement.database or statement.name.database, statement.name.name, statement.name.span)
    table = find_owner_table(name, session)
    subtable = None if table.name == name.name else name.name
    rows = CatalogRows(
        dict.fromkeys(system_tables.TAG_COLUMNS, STRING), list(system_tables.tag_rows(session.context, table, subtable))
    )
    permissions = session.context.permissions()
    return Result(rows if permissions.is_administrator else visible_rows(rows, permissions, session.context))


def show_files(statement: Show, session: PlanningContext) -> Result:
    """List the files of an external table: what has become of each, and the first rows that were left out."""
    assert statement.name is not None
    table, _ = find_table(statement.name, session)
    if table.external is None:
        hint = "SHOW FILES lists those of tables made by CREATE EXTERNAL"
        raise ProgrammingError(f"{table.name} is not an external table", hint=hint, span=statement.name.span)
    rows = [
        (file.name, file.state, file.rows, file.rejected, file.bytes, file.modified_ms, file.message)
        for file in session.context.tables.external_files(table)
    ]
    return rows_result(FILE_COLUMNS, rows, FILE_TYPES)


def show_snodes(_: Show, session: PlanningContext) -> Result:
    """List the snodes with their leases, and the number of their jobs of all users; none for who may not see what they run."""
    catalog = session.context.catalog
    if not session.context.permissions().allows(Privilege.MAINTAIN):
        return rows_result(SNODE_COLUMNS, [], SNODE_TYPES)
    members = {member.name: member for member in catalog.members.all()}
    jobs = Counter(job.definition.snode for job in catalog.jobs.parts())
    names = sorted({*session.context.settings.own_snodes, *members, *jobs})
    leases = {name: catalog.leases.get(name) for name in names}
    now = catalog.now()
    rows = [
        (
            members[name].dnode if name in members else None,
            name,
            lease.address if lease else None,
            lease.epoch if lease else None,
            lease.holder if lease else None,
            bool(lease and lease.is_valid(now)),
            jobs[name],
        )
        for name, lease in leases.items()
    ]
    return rows_result(SNODE_COLUMNS, rows, SNODE_TYPES)


def list_functions(statement: Show, session: PlanningContext) -> Result:
    """List the names of registered functions."""
    names = [(function.name,) for function in visible_functions(session.context)]
    return Result(CatalogRows({"name": STRING}, names).like(statement.like))


def show_create_table(statement: Show, session: PlanningContext) -> Result:
    assert statement.name is not None
    table, _ = find_table(statement.name, session)
    if table.is_virtual and table.kind is TableKind.PLAIN:
        return show_create_vtable(statement, session)
    if table.external is not None:
        return rows_result(("table", "create table"), [(table.name, to_sql(definition(table, table.external)))])
    name = Name(table.database, table.name)
    ttl_days = 0 if table.tags else session.context.catalog.expirations.days(table.database).get(table.name, 0)
    created = CreateTable(name, table.columns, table.tags, comment=table.comment, is_virtual=table.is_virtual, ttl_days=ttl_days)
    text = to_sql(created)
    return rows_result(("table", "create table"), [(table.name, text)])


def show_create_database(statement: Show, session: PlanningContext) -> Result:
    assert statement.name is not None
    with with_span(statement.name.span):
        database = session.context.catalog.databases.get(statement.name.name)
    options = (*database.options, ("timezone", database.timezone))
    text = to_sql(CreateDatabase(Name(None, database.name), precision=database.precision, options=options))
    return rows_result(("database", "create database"), [(database.name, text)])


def show_create_vtable(statement: Show, session: PlanningContext) -> Result:
    name = statement.name
    assert name is not None
    table = find_owner_table(name, session)
    if not table.is_virtual or (table.kind is TableKind.SUPER and table.name == name.name):
        keyword = "STABLE" if table.is_virtual else "TABLE"
        raise ProgrammingError(
            f"{name.name} is not a virtual table or subtable", hint=f"SHOW CREATE {keyword} {table.name}", span=name.span
        )
    references = find_references(table, name.name, session)
    text = to_sql(creation_of(table, name.name, references, session))
    return rows_result(("table", "create table"), [(name.name, text)])


def creation_of(
    table: Table, series: str, references: Sequence[ColumnReference], session: PlanningContext
) -> CreateVirtualTable | CreateVirtualSubtable:
    origins = {
        reference.column: Origin(Name(reference.origin.database, reference.origin_series), reference.origin_column)
        for reference in references
    }
    name = Name(table.database, series)
    if table.kind is TableKind.PLAIN:
        return CreateVirtualTable(name, table.columns, tuple(origins.get(column.name) for column in table.columns))
    tags = next(row for row in session.context.tables.tags.read(table).to_pylist() if row[table.series_key] == series)
    values = tuple(TagValue(tag_constant(tags[tag.name])) for tag in table.tags)
    return CreateVirtualSubtable(SubtableSpec(name, Name(table.database, table.name), values), tuple(origins.items()))


def tag_constant(value: Any) -> Scalar:
    """Return a tag's value as statements write it."""
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def find_references(table: Table, name: str, session: PlanningContext) -> tuple[ColumnReference, ...]:
    """Return where the columns of a virtual table or subtable come from; nothing of a virtual supertable."""
    return session.context.catalog.virtual_tables.references(table.database, table.name, [name])


def list_tables(types: Collection[str], statement: Show, session: PlanningContext) -> Result:
    rows = read_system_table("ins_tables", statement, session)
    position = list(rows.columns).index("type")
    listed = replace(rows, values=[row for row in rows.values if row[position] in types])
    return Result(listed.select(("table_name", "stable_name")).like(statement.like))


def show_create_stream(statement: Show, session: PlanningContext) -> Result:
    assert statement.name is not None
    record = find_stream(statement.name, session, missing_ok=False)
    assert record is not None
    job = record.definition
    # Addresses of NOTIFY have tokens.
    sql = job.sql if is_own(session.context.permissions(), job.owner) else masked(job.sql)
    return rows_result(("stream", "create stream"), [(job.name, sql)])


STREAM_COLUMNS: Final = [
    "stream_name",
    "db_name",
    "status",
    "message",
    "source_table",
    "target_db",
    "target_table",
    "lag_ms",
    "closed_until",
    "batch_ms",
    *system_tables.COUNTERS,
    "updated",
    "rows_history",
]
JOB_COLUMNS: Final = ("job_name", "db_name", "kind", "owner", "status", "message", "snode", "lag_ms", "rows_out")
QUARANTINE_COLUMNS: Final = ("stream_name", "db_name", "table_name", "row_time", "reason", "message", "row", "since")
SNODE_COLUMNS: Final = ("id", "snode", "endpoint", "epoch", "holder", "alive", "jobs")
FILE_COLUMNS: Final = ("file", "state", "rows", "rejected", "bytes", "modified", "message")
FILE_TYPES: Final = (STRING, STRING, BIGINT, BIGINT, BIGINT, INSTANT, STRING)
SNODE_TYPES: Final = (INT, STRING, STRING, BIGINT, STRING, BOOL, BIGINT)
LISTED_BY_DATABASE: Final = frozenset({"stables", "tables", "vtables", "normal vtables", "child vtables"})
Reader = Callable[[Show, PlanningContext], Result]
READERS: Final[dict[str, Reader]] = {
    "databases": partial(list_rows, "ins_databases", ("name", "precision")),
    "users": lambda statement, session: Result(system_tables.users(session.context).like(statement.like)),
    "user privileges": lambda _, session: Result(system_tables.user_privileges(session.context)),
    "stables": list_stables,
    "tables": partial(list_tables, ("NORMAL_TABLE", "CHILD_TABLE", "EXTERNAL_NORMAL_TABLE", "EXTERNAL_CHILD_TABLE")),
    "vtables": partial(list_tables, ("VIRTUAL_NORMAL_TABLE", "VIRTUAL_CHILD_TABLE")),
    "normal vtables": partial(list_tables, ("VIRTUAL_NORMAL_TABLE",)),
    "child vtables": partial(list_tables, ("VIRTUAL_CHILD_TABLE",)),
    "tags": show_tags,
    "files": show_files,
    "jobs": partial(list_rows, "ins_jobs", JOB_COLUMNS),
    "streams": partial(list_rows, "ins_stream_progress", STREAM_COLUMNS),
    "quarantine": partial(list_rows, "ins_stream_quarantine", QUARANTINE_COLUMNS),
    "functions": list_functions,
    "snodes": show_snodes,
    "create database": show_create_database,
    "create table": show_create_table,
    "create stable": show_create_table,
    "create vtable": show_create_vtable,
    "create stream": show_create_stream,
}
