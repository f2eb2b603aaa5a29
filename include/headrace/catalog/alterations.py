"""Changes of a table's columns and tags as pure functions; each refuses a change that would make the table invalid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.errors import ExistsError, NotFoundError, TypeMismatchError
from headrace.model.tables import Column, Table


def with_columns(table: Table, columns: Sequence[Column]) -> Table:
    """The table with those columns added that it lacks.

    Raises:
        TypeMismatchError: It has one of them with another type, or as a tag.
    """
    missing = []
    for column in columns:
        present = table.column(column.name)
        if present is None:
            missing.append(column)
        elif present.type != column.type or table.is_tag(column.name):
            raise TypeMismatchError(
                f"{table.database}.{table.name} has a {kind_of(table, column.name)} {column.name} of type {present.type}, "
                f"not a column of type {column.type}",
                hint="use another name",
            )
    return replace(table, columns=(*table.columns, *missing)) if missing else table


def with_column(table: Table, column: Column, is_tag: bool) -> Table:
    """The table with a new column or tag; `ExistsError` when it has one of that name."""
    check_free(table, column.name)
    if is_tag:
        return replace(table, tags=(*table.tags, column))
    return replace(table, columns=(*table.columns, column))


def without_column(table: Table, name: str) -> Table:
    """The table without a column or tag; `NotFoundError` when it has none of that name."""
    require_column(table, name)
    columns, tags = (tuple(column for column in part if column.name != name) for part in (table.columns, table.tags))
    return replace(table, columns=columns, tags=tags)


def with_column_type(table: Table, changed: Column) -> Table:
    """The table with another type for a column or tag; `NotFoundError` when it has none of that name."""
    require_column(table, changed.name)
    return _change_column(table, changed.name, lambda column: replace(column, type=changed.type))


def with_renamed_column(table: Table, old: str, new: str) -> Table:
    """The table with another name for a column or tag."""
    require_column(table, old)
    check_free(table, new)
    return _change_column(table, old, lambda column: replace(column, name=new))


def require_column(table: Table, name: str) -> Column:
    """The column or tag of a name; `NotFoundError` when there is none."""
    column = table.column(name)
    if column is None:
        names = ", ".join(column.name for column in (*table.columns, *table.tags))
        raise NotFoundError(f"{table.database}.{table.name} has no column or tag {name}", hint=f"there are: {names}")
    return column


def check_free(table: Table, name: str) -> None:
    """`ExistsError` when a table has a column or tag of that name."""
    if table.column(name) is not None:
        raise ExistsError(f"{table.database}.{table.name} has a {kind_of(table, name)} {name} already", hint="use another name")


def kind_of(table: Table, name: str) -> str:
    """Whether a name is that of a tag or of a column, as messages say it."""
    return "tag" if table.is_tag(name) else "column"


def _change_column(table: Table, name: str, change: Callable[[Column], Column]) -> Table:
    columns, tags = (
        tuple(change(column) if column.name == name else column for column in part) for part in (table.columns, table.tags)
    )
    return replace(table, columns=columns, tags=tags)
