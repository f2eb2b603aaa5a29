"""Columns of a tree's table: one for each measurement and type, added when a series needs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from headrace.context import Context
from headrace.errors import ExistsError, TypeMismatchError
from headrace.model.paths import unquote_node
from headrace.model.tables import Column, Database, Table
from headrace.model.trees import NewSeries, TemplateSeries
from headrace.model.types import DataType

_UNSTORABLE: Final = re.compile(r"[^\w\u2E80-\u9FFF]")
Allocation = dict[tuple[str, DataType], Column]


def allocate_columns(
    table: Table, database: Database, series: Sequence[NewSeries | TemplateSeries], context: Context
) -> Allocation:
    """Return the column of each measurement and type, adding to the Delta table what it lacks."""
    columns: Allocation = {}
    for new in series:
        key = (new.measurement, new.type)
        if key not in columns:
            columns[key] = find_column(table, *key) or add_column(
                replace(table, columns=(*table.columns, *columns.values())), database, key, context
            )
    return columns


def find_column(table: Table, measurement: str, type_: DataType) -> Column | None:
    """Return the column that holds a measurement of a type, if there is one."""
    return next((column for column in table.columns if (column.comment, column.type) == (measurement, type_)), None)


def add_column(table: Table, database: Database, key: tuple[str, DataType], context: Context) -> Column:
    """Add a column under the first free name. One of that name and type that only Delta has was left by a crash."""
    measurement, type_ = key
    taken = {column.name.lower() for column in table.columns} | {table.series_key}
    for name in candidates(measurement):
        if name.lower() in taken:
            continue
        column = Column(name, type_, comment=measurement)
        try:
            context.tables.columns.add(table, database, [column])
        except (TypeMismatchError, ExistsError):
            continue
        return column
    raise AssertionError("names do not end")


def candidates(measurement: str) -> Iterable[str]:
    """Yield names for the column of a measurement, the best first."""
    base = _UNSTORABLE.sub("_", unquote_node(measurement))
    base = f"m{base}" if not base or base.startswith("_") else base
    yield base
    number = 2
    while True:
        yield f"{base}_{number}"
        number += 1
