"""Databases and tables: CREATE, DROP, USE."""

from __future__ import annotations

from collections import Counter
from typing import Final

from headrace.errors import DataError, ExistsError, LimitError, NotFoundError, ProgrammingError, TypeMismatchError
from headrace.model.instants import ZONE_HINT, find_zone
from headrace.model.statements import CreateDatabase, CreateTable, DropDatabase, DropTable, UseDatabase
from headrace.model.tables import Column, Database, Name, Subtable, Table, TableKind
from headrace.model.types import TypeKind
from headrace.service.planning.dispatch import PlanningContext, database_of, find_table
from headrace.service.stages import EnterDatabase, MakeDatabase, MakeTable, RemoveDatabase, RemoveSubtables, RemoveTable, Stage

KEY_KINDS: Final = (TypeKind.INT, TypeKind.UINT, TypeKind.BIGINT, TypeKind.UBIGINT, TypeKind.VARCHAR)
MAX_COLUMNS: Final = 4096
MAX_TAGS: Final = 128
MAX_NAME: Final = 192


def create_database(statement: CreateDatabase, session: PlanningContext) -> list[Stage]:
    check_name(statement.name)
    options = dict(statement.options)
    timezone = options.pop("timezone", session.context.settings.timezone)
    if find_zone(timezone) is None:
        raise DataError(f"time zone {timezone!r} does not exist", hint=ZONE_HINT)
    database = Database(statement.name.name, statement.precision, timezone=timezone, options=tuple(options.items()))
    return [MakeDatabase(database, statement.if_not_exists)]


def drop_database(statement: DropDatabase, session: PlanningContext) -> list[Stage]:
    catalog, name = session.context.catalog, statement.name.name
    try:
        tables = tuple(catalog.tables.all(name))
    except NotFoundError:
        if statement.if_exists:
            return []
        raise
    streams = tuple(record for record in catalog.jobs.all() if record.definition.database == name)
    return [RemoveDatabase(name, tables, streams)]


def use_database(statement: UseDatabase, session: PlanningContext) -> list[Stage]:
    return [EnterDatabase(session.context.catalog.databases.get(statement.name.name).name)]


def create_table(statement: CreateTable, session: PlanningContext) -> list[Stage]:
    check_name(statement.name)
    check_columns(statement)
    database = session.context.catalog.databases.get(database_of(statement.name, session))
    table = Table(database.name, statement.name.name, statement.columns, statement.tags, kind_of(statement))
    taken = existing(table, session)
    if taken and statement.if_not_exists:
        return []
    if taken:
        raise ExistsError(
            f"{taken} {table.database}.{table.name} already exists",
            hint="use IF NOT EXISTS, or another name",
            span=statement.name.span,
        )
    return [MakeTable(table, database, statement.if_not_exists)]


def existing(table: Table, session: PlanningContext) -> str | None:
    """What of the table's name exists already: `table`, `subtable`, or None."""
    catalog = session.context.catalog
    if any(other.name == table.name for other in catalog.tables.all(table.database)):
        return "table"
    return "subtable" if catalog.subtables.find(table.database, [table.name]) else None


def check_name(name: Name) -> None:
    """Names become folders: what may not stand there is refused."""
    if not name.name or len(name.name.encode()) > MAX_NAME or "/" in name.name or "\0" in name.name or name.name.startswith("."):
        raise ProgrammingError(
            f"{name.name!r} cannot be a name", hint=f"1 to {MAX_NAME} bytes, without '/' and not beginning with '.'", span=name.span
        )


def check_columns(statement: CreateTable) -> None:
    """First column a timestamp, names unique, key column of a kind that may be one, within the limits."""
    columns, tags = statement.columns, statement.tags
    first = columns[0]
    if first.type.kind is not TypeKind.TIMESTAMP:
        raise TypeMismatchError(
            f"the first column of a table must be a TIMESTAMP, {first.name} is {first.type}",
            hint="begin with ts TIMESTAMP",
            span=first.span,
        )
    if len(columns) < 2:
        raise ProgrammingError("a table needs a column beside its timestamp", hint="add a column", span=first.span)
    if len(columns) > MAX_COLUMNS or len(tags) > MAX_TAGS:
        raise LimitError(f"a table has at most {MAX_COLUMNS} columns and {MAX_TAGS} tags", span=statement.name.span)
    check_duplicates((*columns, *tags), kind_of(statement).series_key)
    for place, column in enumerate(columns):
        check_key(column, place)


def kind_of(statement: CreateTable) -> TableKind:
    return TableKind.SUPER if statement.tags else TableKind.PLAIN


def check_duplicates(columns: tuple[Column, ...], series_key: str) -> None:
    counts = Counter(column.name for column in columns)
    for column in columns:
        if column.name == series_key:
            raise ProgrammingError(
                f"{series_key} is the name of the subtable, no column can have it", hint="choose another name", span=column.span
            )
        if counts[column.name] > 1:
            raise ProgrammingError(
                f"column {column.name} is there twice", hint="give each column and tag its own name", span=column.span
            )


def check_key(column: Column, place: int) -> None:
    if column.is_key and place != 1:
        raise ProgrammingError(
            "composite primary key column must be second column", hint="move it behind the timestamp", span=column.span
        )
    if column.is_key and column.type.kind not in KEY_KINDS:
        allowed = ", ".join(kind.value for kind in KEY_KINDS)
        raise TypeMismatchError(f"{column.type} cannot be a key column", hint=f"allowed are {allowed}", span=column.span)


def drop_table(statement: DropTable, session: PlanningContext) -> list[Stage]:
    stages: list[Stage] = []
    for name in statement.names:
        try:
            stages.append(removal(name, statement.supertable, session))
        except NotFoundError:
            if not statement.if_exists:
                raise
    return stages


def removal(name: Name, supertable: bool, session: PlanningContext) -> Stage:
    """The stage that drops one table or subtable."""
    if supertable:
        return remove_supertable(name, session)
    catalog = session.context.catalog
    subtable = catalog.subtables.get(database_of(name, session), name.name)
    table, database = catalog.tables.get(subtable.database, subtable.table), catalog.databases.get(subtable.database)
    if table.kind is TableKind.PLAIN:
        return RemoveTable(table, database)
    return RemoveSubtables(table, database, (Subtable(subtable.database, subtable.name, subtable.table, subtable.uid),))


def remove_supertable(name: Name, session: PlanningContext) -> RemoveTable:
    table, database = find_table(name, session)
    if table.kind is not TableKind.SUPER:
        raise ProgrammingError(f"{table.name} is a plain table", hint=f"DROP TABLE {table.name}", span=name.span)
    return RemoveTable(table, database)
