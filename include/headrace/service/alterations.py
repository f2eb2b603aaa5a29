"""Apply ALTER TABLE to the Delta tables and to the catalog.

The order is such that a crash in between leaves a usable table, and the same statement then completes the change:

- A new column or tag is added to the Delta table first. Every reader ignores a column that only the Delta table has.
- A dropped column is marked in the Delta table first and removed from the catalog second: its values stay, so its name must not be
  used again.
- A dropped tag is removed from the catalog first, because its values are deleted.
- A renamed tag has both names in between.
- A renamed column is copied in the Delta table, where the old one is marked as dropped, and renamed in the catalog second.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from headrace.catalog.alterations import (
    check_free,
    require_column,
    with_column,
    with_column_type,
    with_renamed_column,
    without_column,
)
from headrace.model.failpoints import failpoint
from headrace.model.tables import Table
from headrace.runtime.context import Context
from headrace.service.alteration_stages import AddColumn, DropColumn, ModifyColumn, RenameColumn, RenameTag


def add_column(stage: AddColumn, context: Context) -> None:
    """Add a column or tag; existing rows and subtables have NULL in it."""
    table, column = stage.table, stage.column
    with ddl_lock(table, context) as current:
        check_free(current, column.name)
        if stage.is_tag:
            context.tables.add_tag(table, stage.database, column)
        else:
            context.tables.add_columns(table, stage.database, [column])
        failpoint("service.alter.stored")
        context.catalog.tables.alter(table.database, table.name, partial(with_column, column=column, is_tag=stage.is_tag))


def drop_column(stage: DropColumn, context: Context) -> None:
    """Drop a column, whose stored values stay hidden, or a tag with its values."""
    table, name = stage.table, stage.name

    def record() -> None:
        context.catalog.tables.alter(table.database, table.name, partial(without_column, name=name), removed=[name])
        failpoint("service.alter.recorded")

    with ddl_lock(table, context):
        context.catalog.tables.check_unused(table.database, table.name, [name])
        if stage.is_tag:
            record()
            context.tables.drop_tag(table, name)
        else:
            context.tables.drop_column(table, name, record)


def modify_column(stage: ModifyColumn, context: Context) -> None:
    """Lengthen the declared type of a column or tag."""
    table, column = stage.table, stage.column
    with ddl_lock(table, context):
        if not stage.is_tag:
            context.tables.modify_column(table, column)
            failpoint("service.alter.stored")
        context.catalog.tables.alter(table.database, table.name, partial(with_column_type, changed=column))


def rename_tag(stage: RenameTag, context: Context) -> None:
    """Rename a tag and move its values."""
    table, old, new = stage.table, stage.old, stage.new
    with ddl_lock(table, context) as current:
        with_renamed_column(current, old, new)
        context.tables.rename_tag(table, old, new, partial(record_name, stage, context))


def rename_column(stage: RenameColumn, context: Context) -> None:
    """Rename a column of a plain table: its values are copied, and those under the old name stay hidden."""
    table, old, new = stage.table, stage.old, stage.new
    with ddl_lock(table, context) as current:
        with_renamed_column(current, old, new)
        context.catalog.tables.check_renamable(table.database, table.name, old)
        column = require_column(current, old)
        context.tables.rename_column(table, stage.database, column, new, partial(record_name, stage, context))


def record_name(stage: RenameTag | RenameColumn, context: Context) -> None:
    """Rename a column or tag in the catalog."""
    change = partial(with_renamed_column, old=stage.old, new=stage.new)
    context.catalog.tables.alter(stage.table.database, stage.table.name, change, removed=[stage.old])


@contextmanager
def ddl_lock(table: Table, context: Context) -> Iterator[Table]:
    """Hold the table's DDL lock and yield the table as the catalog now has it."""
    with context.catalog.lock(f"ddl {table.database}.{table.name}"):
        yield context.catalog.tables.get(table.database, table.name)
