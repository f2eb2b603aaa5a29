"""ALTER TABLE and ALTER STABLE: add, drop, widen and rename columns and tags.

The order is such that a crash in between leaves a usable table, and the same statement then completes the change:

- A new column or tag is added to the Delta table first. Every reader ignores a column that only the Delta table has.
- A dropped column is marked in the Delta table first and removed from the catalog second: its values stay, so its name must not be
  used again.
- A dropped tag is removed from the catalog first, because its values are deleted. Where rows carry it, their column is marked
  before, as that of a dropped column, and so is that of a renamed tag.
- A renamed tag has both names in between.
- A renamed column is copied in the Delta table, where the old one is marked as dropped, and renamed in the catalog second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from headrace.catalog.alterations import (
    check_free,
    require_column,
    with_column,
    with_column_type,
    with_renamed_column,
    without_column,
)
from headrace.context import Context
from headrace.errors import IntegrityError, NotFoundError, NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.failpoints import failpoint
from headrace.model.statements import AddColumn, AlterTable, CreateTable, DropColumn, ModifyColumn, RenameColumn, SetTableOptions
from headrace.model.tables import Column, Database, Name, Table, TableKind
from headrace.model.types import DataType, TypeKind
from headrace.service.names import database_of, find_table, find_writable_table, refuse_unwritable, with_span
from headrace.service.rights import Action, on_table
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.subtables import set_ttl
from headrace.service.topics.tables import check_columns

WIDENED: Final = (TypeKind.VARCHAR, TypeKind.NCHAR, TypeKind.VARBINARY, TypeKind.GEOMETRY)
"""Types whose declared length can grow without a change of stored values."""


def plan_add_column(statement: AddColumn, session: PlanningContext) -> list[Stage]:
    table, database = altered_table(statement, session)
    column = statement.column
    with with_span(column.span):
        changed = with_column(table, column, statement.is_tag)
        check_columns(CreateTable(statement.table, changed.columns, changed.tags))
        session.context.tables.check(changed, database)
    return [add_column(table, database, column, is_tag=statement.is_tag)]


def add_column(table: Table, database: Database, column: Column, *, is_tag: bool) -> Stage:
    """Add a column or tag, NULL in existing rows and subtables."""

    def change(context: Context, current: Table) -> None:
        check_free(current, column.name)
        if is_tag:
            context.tables.tags.add(table, database, column)
        else:
            context.tables.columns.add(table, database, [column])
        failpoint("service.alter.stored")
        context.catalog.tables.alter(table.database, table.name, partial(with_column, column=column, is_tag=is_tag))

    noun = "tag" if is_tag else "column"
    return alteration(table, f"add {noun} {column.name} {column.type} to {table.database}.{table.name}, NULL so far", change)


def alteration(table: Table, described: str, change: Callable[[Context, Table], None]) -> Stage:
    """Return the stage of a change of a table for all of its subtables. It is handed the table as the catalog then has it."""

    def apply(session: SessionState) -> None:
        catalog = session.context.catalog
        with catalog.lock(f"ddl {table.database}.{table.name}"):
            change(session.context, catalog.tables.get(table.database, table.name))

    return Stage(on_table(Action.ALTER, table), lambda: [described], apply)


def plan_drop_column(statement: DropColumn, session: PlanningContext) -> list[Stage]:
    table, _ = altered_table(statement, session)
    with with_span(statement.span):
        check_kind(table, statement.name, statement.is_tag)
        check_droppable(table, statement.name)
        session.context.catalog.tables.check_unused(table.database, table.name, [statement.name])
    return [remove_column(table, statement.name, is_tag=statement.is_tag)]


def remove_column(table: Table, name: str, *, is_tag: bool) -> Stage:
    def change(context: Context, _: Table) -> None:
        def record() -> None:
            context.catalog.tables.alter(table.database, table.name, partial(without_column, name=name), removed=[name])
            failpoint("service.alter.recorded")

        context.catalog.tables.check_unused(table.database, table.name, [name])
        if is_tag:
            context.tables.columns.retire_tag(table, name, record)
            context.tables.tags.remove(table, name)
        else:
            context.tables.columns.retire(table, name, record)

    noun, rest = ("tag", " with its values") if is_tag else ("column", "; its values stay in the Delta table, hidden")
    return alteration(table, f"drop {noun} {name} of {table.database}.{table.name}{rest}", change)


def plan_modify_column(statement: ModifyColumn, session: PlanningContext) -> list[Stage]:
    table, database = altered_table(statement, session)
    column = statement.column
    with with_span(column.span):
        check_widening(check_kind(table, column.name, statement.is_tag), column.type)
        session.context.tables.check(with_column_type(table, column), database)
        session.context.catalog.tables.check_unread(table.database, table.name, column.name)
    return [widen_column(table, column, is_tag=statement.is_tag)]


def widen_column(table: Table, column: Column, *, is_tag: bool) -> Stage:
    """Lengthen the declared type of a column or tag; stored values do not change."""

    def change(context: Context, _: Table) -> None:
        if not is_tag:
            context.tables.columns.retype(table, column)
            failpoint("service.alter.stored")
        context.catalog.tables.alter(table.database, table.name, partial(with_column_type, changed=column))

    noun = "tag" if is_tag else "column"
    return alteration(table, f"change {noun} {column.name} of {table.database}.{table.name} to {column.type}", change)


def plan_rename_column(statement: RenameColumn, session: PlanningContext) -> list[Stage]:
    table, database = altered_table(statement, session)
    old, new, tables = statement.name, statement.new_name, session.context.catalog.tables
    with with_span(statement.span):
        column = check_kind(table, old, statement.is_tag)
        changed = with_renamed_column(table, old, new)
        check_columns(CreateTable(statement.table, changed.columns, changed.tags))
        if statement.is_tag:
            session.context.tables.check(changed, database)
            tables.check_unused(table.database, table.name, [old])
            return [rename_tag(table, old, new)]
        check_renamable(table, old, new)
        # The Delta table has both.
        session.context.tables.check(with_column(table, replace(column, name=new), is_tag=False), database)
        tables.check_renamable(table.database, table.name, old)
    return [copy_column(table, database, old, new)]


def rename_tag(table: Table, old: str, new: str) -> Stage:
    def change(context: Context, current: Table) -> None:
        with_renamed_column(current, old, new)
        record = partial(record_name, table, old, new, context)
        context.tables.tags.rename(table, old, new, partial(context.tables.columns.retire_tag, table, old, record))

    return alteration(table, f"rename tag {old} of {table.database}.{table.name} to {new}", change)


def copy_column(table: Table, database: Database, old: str, new: str) -> Stage:
    """Rename a column of a plain table: its values are copied, and those under the old name stay hidden."""

    def change(context: Context, current: Table) -> None:
        with_renamed_column(current, old, new)
        context.catalog.tables.check_renamable(table.database, table.name, old)
        column, record = require_column(current, old), partial(record_name, table, old, new, context)
        context.tables.columns.rename(table, database, column, new, record)

    head = f"rename column {old} of {table.database}.{table.name} to {new}"
    return alteration(table, f"{head}: copy its values; those of {old} stay in the Delta table, hidden", change)


def plan_set_table_options(statement: SetTableOptions, session: PlanningContext) -> list[Stage]:
    """Plan ALTER TABLE with COMMENT or TTL; an empty comment removes it."""
    planned: list[Stage] = []
    if statement.comment is not None:
        planned.append(set_comment(altered_table(statement, session)[0], statement.comment or None))
    if statement.ttl_days is not None and not statement.supertable:
        planned.append(plan_ttl(statement.table, statement.ttl_days, session))
    return planned


def set_comment(table: Table, comment: str | None) -> Stage:
    """Change the comment of a table; None removes it."""

    def apply(session: SessionState) -> None:
        session.context.catalog.tables.alter(table.database, table.name, lambda current: replace(current, comment=comment))

    return Stage(on_table(Action.ALTER, table), lambda: [f"change the comment of {table.database}.{table.name}"], apply)


def plan_ttl(name: Name, days: int, session: PlanningContext) -> Stage:
    catalog = session.context.catalog
    with with_span(name.span):
        subtable = catalog.subtables.get(database_of(name, session), name.name)
        table = catalog.tables.get(subtable.database, subtable.table)
    if table.is_virtual:
        raise ProgrammingError(f"{name.name} is a virtual table, which has no TTL", hint="drop it by DROP VTABLE", span=name.span)
    refuse_unwritable(table, name)
    return set_ttl(table, [name.name], days)


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


def record_name(table: Table, old: str, new: str, context: Context) -> None:
    change = partial(with_renamed_column, old=old, new=new)
    context.catalog.tables.alter(table.database, table.name, change, removed=[old])
