"""Plan ALTER TABLE and ALTER STABLE: add, drop, widen and rename columns and tags."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from headrace.catalog.alterations import require_column, with_column, with_column_type, with_renamed_column
from headrace.errors import Error, IntegrityError, NotFoundError, NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.spans import Span
from headrace.model.statements import AddColumn, AlterTable, CreateTable, DropColumn, ModifyColumn, RenameColumn, SetTableOptions
from headrace.model.tables import Column, Database, Name, Table, TableKind
from headrace.model.types import DataType, TypeKind
from headrace.service import alteration_stages
from headrace.service.names import database_of, find_table, find_writable_table
from headrace.service.planning.tables import check_columns
from headrace.service.stage import Stage
from headrace.service.state import PlanningContext

WIDENED: Final = (TypeKind.VARCHAR, TypeKind.NCHAR, TypeKind.VARBINARY, TypeKind.GEOMETRY)
"""Types whose declared length can grow without a change of stored values."""


def add_column(statement: AddColumn, session: PlanningContext) -> list[Stage]:
    """Plan ADD COLUMN and ADD TAG."""
    table, database = altered_table(statement, session)
    column = statement.column
    with with_span(column.span):
        changed = with_column(table, column, statement.is_tag)
        check_columns(CreateTable(statement.table, changed.columns, changed.tags))
        session.context.tables.check(changed, database)
    return [alteration_stages.AddColumn(table, database, column, statement.is_tag)]


def drop_column(statement: DropColumn, session: PlanningContext) -> list[Stage]:
    """Plan DROP COLUMN and DROP TAG."""
    table, _ = altered_table(statement, session)
    with with_span(statement.span):
        check_kind(table, statement.name, statement.is_tag)
        check_droppable(table, statement.name)
        session.context.catalog.tables.check_unused(table.database, table.name, [statement.name])
    return [alteration_stages.DropColumn(table, statement.name, statement.is_tag)]


def modify_column(statement: ModifyColumn, session: PlanningContext) -> list[Stage]:
    """Plan MODIFY COLUMN and MODIFY TAG."""
    table, database = altered_table(statement, session)
    column = statement.column
    with with_span(column.span):
        check_widening(check_kind(table, column.name, statement.is_tag), column.type)
        session.context.tables.check(with_column_type(table, column), database)
    return [alteration_stages.ModifyColumn(table, column, statement.is_tag)]


def rename_column(statement: RenameColumn, session: PlanningContext) -> list[Stage]:
    """Plan RENAME TAG, and RENAME COLUMN of plain tables."""
    table, database = altered_table(statement, session)
    old, new, tables = statement.name, statement.new_name, session.context.catalog.tables
    with with_span(statement.span):
        column = check_kind(table, old, statement.is_tag)
        changed = with_renamed_column(table, old, new)
        check_columns(CreateTable(statement.table, changed.columns, changed.tags))
        if statement.is_tag:
            session.context.tables.check(changed, database)
            tables.check_unused(table.database, table.name, [old])
            return [alteration_stages.RenameTag(table, old, new)]
        check_renamable(table, old, new)
        # The Delta table has both.
        session.context.tables.check(with_column(table, replace(column, name=new), is_tag=False), database)
        tables.check_renamable(table.database, table.name, old)
    return [alteration_stages.RenameColumn(table, database, old, new)]


def set_options(statement: SetTableOptions, session: PlanningContext) -> list[Stage]:
    """Plan ALTER TABLE with COMMENT or TTL; an empty comment removes it."""
    planned: list[Stage] = []
    if statement.comment is not None:
        planned.append(alteration_stages.SetComment(altered_table(statement, session)[0], statement.comment or None))
    if statement.ttl_days is not None and not statement.supertable:
        planned.append(set_ttl(statement.table, statement.ttl_days, session))
    return planned


def set_ttl(name: Name, days: int, session: PlanningContext) -> Stage:
    """Plan the TTL of a plain table or of a subtable."""
    catalog = session.context.catalog
    with with_span(name.span):
        subtable = catalog.subtables.get(database_of(name, session), name.name)
        table = catalog.tables.get(subtable.database, subtable.table)
    if table.is_virtual:
        raise ProgrammingError(f"{name.name} is a virtual table, which has no TTL", hint="drop it by DROP VTABLE", span=name.span)
    return alteration_stages.SetTtl(table, (name.name,), days)


def altered_table(statement: AlterTable | SetTableOptions, session: PlanningContext) -> tuple[Table, Database]:
    """Return the table that a statement alters; a subtable has no columns of its own."""
    name, is_tag = statement.table, not isinstance(statement, SetTableOptions) and statement.is_tag
    subtable = session.context.catalog.subtables.find(database_of(name, session), [name.name]).get(name.name)
    if subtable is not None and subtable.table != name.name:
        raise ProgrammingError(
            f"{name.name} is a subtable, and has the columns and tags of {subtable.table}",
            hint=f"ALTER STABLE {subtable.table} …, or ALTER TABLE {name.name} SET TAG …",
            span=name.span,
        )
    with with_span(name.span):
        table, database = find_table(name, session)
        if not (table.is_virtual and statement.supertable):
            find_writable_table(name, session)
    if table.kind is not TableKind.SUPER and (statement.supertable or is_tag):
        hint = "a plain table has no tags" if is_tag else f"ALTER TABLE {table.name} …"
        raise ProgrammingError(f"{table.name} is a plain table", hint=hint, span=name.span)
    return table, database


@contextmanager
def with_span(span: Span | None) -> Iterator[None]:
    """Add a span to errors that have none."""
    try:
        yield
    except Error as error:
        error.span = error.span or span
        raise


def check_kind(table: Table, name: str, is_tag: bool) -> Column:
    """Return the column or tag of a name; refuse a column that the statement calls a tag, and vice versa."""
    column = require_column(table, name)
    if table.is_tag(name) != is_tag:
        noun, keyword = ("tag", "COLUMN") if is_tag else ("column", "TAG")
        raise NotFoundError(f"{table.database}.{table.name} has no {noun} {name}", hint=f"write {keyword} {name}")
    return column


def check_renamable(table: Table, old: str, new: str) -> None:
    """Refuse to rename a column of a supertable, or part of the key."""
    if table.kind is TableKind.SUPER:
        raise NotSupportedError(
            f"{table.name} is a supertable, whose columns cannot be renamed",
            hint=f"ADD COLUMN {new} and write to it, or give {old} an alias where you read it",
        )
    if old in table.primary_key:
        raise IntegrityError(f"{old} is part of the key of {table.name}", hint=f"give {old} an alias where you read it")


def check_droppable(table: Table, name: str) -> None:
    """Refuse to drop part of the key, the only value column, or the only tag."""
    if name in table.primary_key:
        raise IntegrityError(
            f"{name} is part of the key of {table.name}", hint="create another table, and a stream or a load into it"
        )
    if table.is_tag(name) and len(table.tags) == 1:
        raise IntegrityError(f"{name} is the only tag of {table.name}", hint="add another first")
    if not table.is_tag(name) and len(table.columns) == 2:
        raise IntegrityError(f"{name} is the only column of {table.name} besides the timestamp", hint="add another first")


def check_widening(column: Column, type_: DataType) -> None:
    """Refuse a type that would change stored values."""
    if type_.kind is not column.type.kind or type_.kind not in WIDENED:
        raise NotSupportedError(
            f"{column.name} is {column.type} and cannot become {type_}: only the length of text and binary columns can grow",
            hint=f"ADD a column of type {type_} under another name, and write to it",
        )
    if (type_.length or 0) <= (column.type.length or 0):
        raise TypeMismatchError(
            f"{column.name} is {column.type} and cannot become {type_}: a length can only grow",
            hint=f"use a length over {column.type.length}",
        )
