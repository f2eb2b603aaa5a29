"""Apply statements about virtual tables to the catalog. Only the tags of virtual subtables are stored elsewhere."""

from __future__ import annotations

from functools import partial

from headrace.catalog.alterations import with_column, with_column_type, with_renamed_column, without_column
from headrace.errors import ExistsError
from headrace.model.statements import AddColumn, DropColumn, ModifyColumn, RenameColumn
from headrace.runtime.context import Context
from headrace.service.virtual_stages import ChangeVirtualTable, MakeVirtualSubtable, MakeVirtualTable


def make_table(stage: MakeVirtualTable, context: Context) -> None:
    """Create a virtual table of one series."""
    try:
        context.catalog.virtual_tables.create(stage.table, stage.references)
    except ExistsError:
        if not stage.if_not_exists:
            raise


def make_subtable(stage: MakeVirtualSubtable, context: Context) -> None:
    """Create a virtual subtable. Its tags follow its name, which decides who owns it."""
    table = stage.table
    context.catalog.virtual_tables.create_subtable(table.database, table.name, stage.name, stage.references)
    context.tables.upsert_tags(table, stage.tags)


def change_table(stage: ChangeVirtualTable, context: Context) -> None:
    """Change the columns of a virtual table."""
    table, alter = stage.table, context.catalog.virtual_tables.alter
    match stage.change:
        case AddColumn(column=column):
            alter(table, partial(with_column, column=column, is_tag=False), added=stage.added)
        case DropColumn(name=name):
            alter(table, partial(without_column, name=name), removed=name)
        case ModifyColumn(column=column):
            alter(table, partial(with_column_type, changed=column))
        case RenameColumn(name=name, new_name=new_name):
            alter(table, partial(with_renamed_column, old=name, new=new_name), removed=name, renamed=new_name)
