"""Changes of a table's columns and tags, in the Delta tables and in the catalog.

The order is such that a crash between the two leaves a table that everybody can use, and the same statement completes the change:

- What is added comes to the Delta table first. A column that only the Delta table has is passed over by all.
- What is dropped goes from the catalog last where the name must not be used again (columns: the Delta table keeps the values, so it
  is marked first), and from the catalog first where the values go (tags).
- A tag that is renamed has both names in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from headrace.catalog.alterations import added, check_free, removed, renamed, retyped
from headrace.model.failpoints import failpoint
from headrace.model.tables import Table
from headrace.runtime.context import Context
from headrace.service.stages import AddColumn, DropColumn, ModifyColumn, RenameTag


def add_column(stage: AddColumn, context: Context) -> None:
    table, column = stage.table, stage.column
    with changing(table, context) as present:
        check_free(present, column.name)
        if stage.is_tag:
            context.tables.add_tag(table, stage.database, column)
        else:
            context.tables.add_columns(table, stage.database, [column])
        failpoint("service.alter.stored")
        context.catalog.tables.alter(table.database, table.name, partial(added, column=column, is_tag=stage.is_tag))


def drop_column(stage: DropColumn, context: Context) -> None:
    table, name = stage.table, stage.name
    with changing(table, context):
        context.catalog.tables.check_unused(table.database, table.name, [name])
        if not stage.is_tag:
            context.tables.drop_column(table, name)
            failpoint("service.alter.stored")
        context.catalog.tables.alter(table.database, table.name, partial(removed, name=name), removed=[name])
        failpoint("service.alter.recorded")
        if stage.is_tag:
            context.tables.drop_tag(table, name)


def modify_column(stage: ModifyColumn, context: Context) -> None:
    table, column = stage.table, stage.column
    with changing(table, context):
        if not stage.is_tag:
            context.tables.modify_column(table, column)
            failpoint("service.alter.stored")
        context.catalog.tables.alter(table.database, table.name, partial(retyped, changed=column))


def rename_tag(stage: RenameTag, context: Context) -> None:
    table, old, new = stage.table, stage.old, stage.new

    def record() -> None:
        context.catalog.tables.alter(table.database, table.name, partial(renamed, old=old, new=new), removed=[old])

    with changing(table, context) as present:
        renamed(present, old, new)
        context.tables.rename_tag(table, old, new, record)


@contextmanager
def changing(table: Table, context: Context) -> Iterator[Table]:
    """While nobody else changes the table's columns: the table as it is now."""
    with context.catalog.lock(f"ddl {table.database}.{table.name}"):
        yield context.catalog.tables.get(table.database, table.name)
