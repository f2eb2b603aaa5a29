"""Supertables and plain tables: create and drop them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from headrace.context import Context
from headrace.errors import ExistsError, LimitError, NotFoundError, NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.paths import is_path
from headrace.model.statements import CreateTable, DropTable
from headrace.model.tables import Column, Database, Name, Table, TableKind
from headrace.model.types import TypeKind
from headrace.runtime.table_removal import drop_table
from headrace.service.names import check_name, database_of, find_table, refuse_unwritable
from headrace.service.rights import Action, on_table
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.databases import remove_leftovers
from headrace.service.topics.subtables import remove_subtable, set_ttl

KEY_KINDS: Final = (TypeKind.INT, TypeKind.UINT, TypeKind.BIGINT, TypeKind.UBIGINT, TypeKind.VARCHAR)
MAX_COLUMNS: Final = 4096
MAX_TAGS: Final = 128


def plan_create_table(statement: CreateTable, session: PlanningContext) -> list[Stage]:
    check_name(statement.name)
    check_columns(statement)
    database = session.context.catalog.databases.get(database_of(statement.name, session))
    kind, is_virtual = table_kind(statement), statement.is_virtual
    table = Table(
        database.name, statement.name.name, statement.columns, statement.tags, kind, is_virtual, statement.comment or None
    )
    if is_virtual and table.key is not None:
        raise ProgrammingError(
            "a virtual supertable cannot have a composite key", hint="its rows are aligned by time", span=table.key.span
        )
    existing_kind = find_existing(table, session)
    if existing_kind and statement.if_not_exists:
        return []
    if existing_kind:
        raise ExistsError(
            f"{existing_kind} {table.database}.{table.name} already exists",
            hint="use IF NOT EXISTS, or another name",
            span=statement.name.span,
        )
    made = make_table(table, database, statement.if_not_exists)
    return [made, set_ttl(table, [table.name], statement.ttl_days)] if statement.ttl_days else [made]


def make_table(table: Table, database: Database, if_not_exists: bool) -> Stage:
    name = f"{table.database}.{table.name}"

    def apply(session: SessionState) -> None:
        """Create the files first, then the catalog row; a retry after a crash in between adopts or replaces the files."""
        catalog = session.context.catalog
        with catalog.lock(f"ddl {name}"):
            if catalog.tables.find(table.database, table.name) is None:
                session.context.tables.create(table, database)
                catalog.tables.create(table)
            elif not if_not_exists:
                raise ExistsError(f"table {name} already exists", hint="use IF NOT EXISTS, or another name")

    described = f"create {table.kind} table {name}: {len(table.columns)} columns, {len(table.tags)} tags"
    return Stage(on_table(Action.CREATE, table), lambda: [described], apply)


def find_existing(table: Table, session: PlanningContext) -> str | None:
    """Return what already has the table's name: `table`, `subtable`, or None."""
    catalog = session.context.catalog
    if catalog.tables.find(table.database, table.name) is not None:
        return "table"
    return "subtable" if catalog.subtables.find(table.database, [table.name]) else None


def check_columns(statement: CreateTable) -> None:
    """Check the timestamp column, unique names, the composite key, and the limits."""
    columns, tags = statement.columns, statement.tags
    first = columns[0]
    if first.type.kind is not TypeKind.TIMESTAMP:
        raise TypeMismatchError(
            f"the first column of a table must be a TIMESTAMP, {first.name} is {first.type}",
            hint="begin with ts TIMESTAMP",
            span=first.span,
        )
    if len(columns) < 2:
        raise ProgrammingError("a table needs a column besides its timestamp", hint="add a column", span=first.span)
    if len(columns) > MAX_COLUMNS or len(tags) > MAX_TAGS:
        raise LimitError(f"a table has at most {MAX_COLUMNS} columns and {MAX_TAGS} tags", span=statement.name.span)
    check_duplicates((*columns, *tags), table_kind(statement).series_key)
    for position, column in enumerate(columns):
        check_key(column, position)


def table_kind(statement: CreateTable) -> TableKind:
    return TableKind.SUPER if statement.tags else TableKind.PLAIN


def check_duplicates(columns: tuple[Column, ...], series_key: str) -> None:
    """Refuse a repeated name, and the series key's name."""
    counts = Counter(column.name for column in columns)
    for column in columns:
        if column.name == series_key:
            raise ProgrammingError(
                f"{series_key} is reserved for the subtable's name", hint="choose another name", span=column.span
            )
        if counts[column.name] > 1:
            raise ProgrammingError(
                f"column {column.name} is specified twice", hint="give each column and tag its own name", span=column.span
            )


def check_key(column: Column, position: int) -> None:
    """Refuse a composite key column of another type or in another position."""
    if column.is_key and position != 1:
        raise ProgrammingError(
            "composite primary key column must be second column", hint="move it behind the timestamp", span=column.span
        )
    if column.is_key and column.type.kind not in KEY_KINDS:
        allowed = ", ".join(kind.value for kind in KEY_KINDS)
        raise TypeMismatchError(f"{column.type} cannot be a key column", hint=f"use one of {allowed}", span=column.span)


def plan_drop_table(statement: DropTable, session: PlanningContext) -> list[Stage]:
    stages: list[Stage] = []
    for name in statement.names:
        try:
            stages.append(plan_removal(name, statement, session))
        except NotFoundError:
            database = database_of(name, session)
            if session.context.tables.has_leftovers(database, name.name):
                stages.append(remove_leftovers(database, name.name))
            elif not statement.if_exists:
                raise
    return stages


def plan_removal(name: Name, statement: DropTable, session: PlanningContext) -> Stage:
    if statement.supertable:
        return plan_supertable_removal(name, session)
    catalog, owner = session.context.catalog, database_of(name, session)
    own_table = catalog.tables.find(owner, name.name)
    if own_table is not None and own_table.kind is TableKind.SUPER:
        raise ProgrammingError(f"{name.name} is a supertable", hint=f"DROP STABLE {name.name}", span=name.span)
    subtable = catalog.subtables.get(owner, name.name)
    table, database = catalog.tables.get(subtable.database, subtable.table), catalog.databases.get(subtable.database)
    if table.is_virtual is not statement.is_virtual:
        word, kind = ("VTABLE", "a virtual") if table.is_virtual else ("TABLE", "not a virtual")
        raise ProgrammingError(f"{name.name} is {kind} table", hint=f"DROP {word} {name.name}", span=name.span)
    if table.kind is TableKind.PLAIN:
        return remove_table(table, session.context)
    if table.external is not None:
        refuse_unwritable(table, name)
    catalog.subtables.check_unused(subtable.database, [subtable.name])
    return remove_subtable(subtable.name, table, database)


def plan_supertable_removal(name: Name, session: PlanningContext) -> Stage:
    table, _ = find_table(name, session)
    if table.kind is not TableKind.SUPER:
        raise ProgrammingError(f"{table.name} is a plain table", hint=f"DROP TABLE {table.name}", span=name.span)
    return remove_table(table, session.context)


def remove_table(table: Table, context: Context) -> Stage:
    described = f"drop table {table.database}.{table.name} with all its rows"
    if table.external is not None and is_path(table.database):
        raise NotSupportedError(
            f"{table.name} is the table of the external database {table.database}",
            hint=f"DELETE DATABASE {table.database} in the iotdb dialect",
        )
    if table.external is not None:
        described = f"drop external table {table.database}.{table.name}; its rows stay at {table.external.location}"

    def loses() -> list[str]:
        rows = 0 if table.is_virtual or table.external is not None else context.tables.rows(table)
        return [f"{rows} rows of {table.database}.{table.name}"] if rows else []

    return Stage(on_table(Action.DROP, table), lambda: [described], lambda session: drop_table(session.context, table), loses=loses)
