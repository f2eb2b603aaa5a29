"""Columns of a tree's table: one for each measurement and type, added when a series needs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from headrace.context import Context
from headrace.errors import ExistsError, TypeMismatchError
from headrace.model.paths import unquote_node
from headrace.model.tables import Column, Database, Table
from headrace.model.trees import TREE_TABLE, NewSeries
from headrace.model.types import DataType
from headrace.storage.delta.deletion import Ranges

_UNSTORABLE: Final = re.compile(r"[^\w\u2E80-\u9FFF]")
Key = tuple[str, DataType]
Allocation = dict[Key, Column]


def allocate_columns(table: Table, database: Database, series: Iterable[NewSeries], context: Context) -> Allocation:
    """Return the column of each measurement and type, adding to the Delta table what it lacks, in one commit if possible."""
    stored, planned = stored_columns(table), plan_columns(table, series)
    with suppress(TypeMismatchError, ExistsError):
        added = [column for key, column in planned.items() if key not in stored]
        if added:
            context.tables.columns.add(table, database, added)
        return planned
    taken = taken_names(table)
    return {key: stored.get(key) or add_column(table, database, key, taken, context) for key in planned}


def plan_columns(table: Table, series: Iterable[NewSeries]) -> Allocation:
    stored, taken = stored_columns(table), taken_names(table)
    keys = dict.fromkeys((new.measurement, new.type) for new in series)
    return {key: stored.get(key) or new_column(key, taken) for key in keys}


def stored_columns(table: Table) -> Allocation:
    """Return the column of each measurement and type that has one."""
    return {(column.comment or "", column.type): column for column in table.columns}


def taken_names(table: Table) -> set[str]:
    """Return the names that a new column cannot have, in lower case."""
    return {column.name.lower() for column in table.columns} | {table.series_key}


def new_column(key: Key, taken: set[str]) -> Column:
    name = next(name for name in candidates(key[0]) if name.lower() not in taken)
    taken.add(name.lower())
    return Column(name, key[1], comment=key[0])


def add_column(table: Table, database: Database, key: Key, taken: set[str], context: Context) -> Column:
    """Add a column under the first free name. One of that name and type that only Delta has was left by a crash."""
    while True:
        column = new_column(key, taken)
        with suppress(TypeMismatchError, ExistsError):
            context.tables.columns.add(table, database, [column])
            return column


def candidates(measurement: str) -> Iterator[str]:
    """Yield names for the column of a measurement, the best first."""
    base = _UNSTORABLE.sub("_", unquote_node(measurement))
    base = f"m{base}" if not base or base.startswith("_") else base
    yield base
    number = 2
    while True:
        yield f"{base}_{number}"
        number += 1


def clear_series(
    context: Context, database: Database, columns: Sequence[tuple[str, Sequence[str]]], ranges: Ranges | None = None
) -> int:
    """Delete values within ranges of ticks, both ends inclusive; a row without any goes. Return the number of changed rows.

    `columns` has devices and their stored columns; `ranges` is None for all times.
    """
    table = context.catalog.tables.get(database.name, TREE_TABLE)
    return context.tables.writer.clear(table, database, columns, ranges)
