"""Supertables and plain tables: create and drop them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from headrace.errors import ExistsError, LimitError, NotFoundError, ProgrammingError, TypeMismatchError
from headrace.model.statements import CreateTable, DropTable
from headrace.model.tables import Column, Database, Name, Subtable, Table, TableKind
from headrace.model.types import TypeKind
from headrace.runtime.table_removal import drop_table
from headrace.service.names import check_name, database_of, find_table
from headrace.service.results import Result
from headrace.service.rights import Action
from headrace.service.stage import DONE, Stage, TableStage
from headrace.service.state import PlanningContext, SessionState
from headrace.service.topics.subtables import RemoveSubtables, SetTtl

KEY_KINDS: Final = (TypeKind.INT, TypeKind.UINT, TypeKind.BIGINT, TypeKind.UBIGINT, TypeKind.VARCHAR)
MAX_COLUMNS: Final = 4096
MAX_TAGS: Final = 128


@dataclass(frozen=True, slots=True)
class MakeTable(TableStage):
    """Create a supertable or plain table."""

    action = Action.CREATE
    database: Database
    if_not_exists: bool

    def describe(self) -> list[str]:
        table = self.table
        return [f"create {table.kind} table {table.database}.{table.name}: {len(table.columns)} columns, {len(table.tags)} tags"]

    def apply(self, session: SessionState) -> Result:
        """Create the files first, then the catalog row; a retry after a crash in between adopts or replaces the files."""
        catalog, table = session.context.catalog, self.table
        with catalog.lock(f"ddl {table.database}.{table.name}"):
            if catalog.tables.find(table.database, table.name) is not None:
                if self.if_not_exists:
                    return DONE
                raise ExistsError(f"table {table.database}.{table.name} already exists", hint="use IF NOT EXISTS, or another name")
            session.context.tables.create(table, self.database)
            catalog.tables.create(table)
        return DONE


@dataclass(frozen=True, slots=True)
class RemoveTable(TableStage):
    """Drop a supertable or plain table with all rows."""

    action = Action.DROP
    database: Database

    def describe(self) -> list[str]:
        return [f"drop table {self.table.database}.{self.table.name} with all its rows"]

    def apply(self, session: SessionState) -> Result:
        drop_table(session.context, self.table)
        return DONE


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
    made = MakeTable(table, database, statement.if_not_exists)
    return [made, SetTtl(table, (table.name,), statement.ttl_days)] if statement.ttl_days else [made]


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
    """Return SUPER if the statement declares tags, else PLAIN."""
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
            if not statement.if_exists:
                raise
    return stages


def plan_removal(name: Name, statement: DropTable, session: PlanningContext) -> Stage:
    if statement.supertable:
        return plan_supertable_removal(name, session)
    catalog = session.context.catalog
    subtable = catalog.subtables.get(database_of(name, session), name.name)
    table, database = catalog.tables.get(subtable.database, subtable.table), catalog.databases.get(subtable.database)
    if table.is_virtual is not statement.is_virtual:
        word, kind = ("VTABLE", "a virtual") if table.is_virtual else ("TABLE", "not a virtual")
        raise ProgrammingError(f"{name.name} is {kind} table", hint=f"DROP {word} {name.name}", span=name.span)
    if table.kind is TableKind.PLAIN:
        return RemoveTable(table, database)
    catalog.subtables.check_unused(subtable.database, [subtable.name])
    return RemoveSubtables(table, database, (Subtable(subtable.database, subtable.name, subtable.table),))


def plan_supertable_removal(name: Name, session: PlanningContext) -> RemoveTable:
    table, database = find_table(name, session)
    if table.kind is not TableKind.SUPER:
        raise ProgrammingError(f"{table.name} is a plain table", hint=f"DROP TABLE {table.name}", span=name.span)
    return RemoveTable(table, database)
