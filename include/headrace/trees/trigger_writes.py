"""Rows that triggers insert, as points to write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headrace.context import Context
from headrace.errors import DataError, NotFoundError
from headrace.model.paths import join_path, parse_path, quote_node
from headrace.model.tables import Database
from headrace.model.tree_types import type_name
from headrace.model.trees import TIME_COLUMN, Device, DeviceSeries, NewSeries
from headrace.model.types import BOOL, DOUBLE, VARCHAR, DataType, TypeKind
from headrace.storage.types import arrow_type
from headrace.storage.values.tree_columns import to_stored_times
from headrace.storage.values.tree_scalars import CONVERTERS
from headrace.trees.databases import database_of
from headrace.trigger import Insertion


def inserted_rows(context: Context, insertions: Sequence[Insertion]) -> list[tuple[DeviceSeries, pa.Table]]:
    """Return the series and stored rows of insertions: one table for each device and set of measurements.

    Raises:
        DataError: A path, a time or a value is not valid.
        NotFoundError: A device lies in no database.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[Insertion]] = defaultdict(list)
    for insertion in insertions:
        values = {quote_node(name): value for name, value in insertion.values.items() if value is not None}
        if values:
            groups[device_path(insertion.device_id), tuple(sorted(values))].append(replace(insertion, values=values))
    return [device_rows(context, path, measurements, rows) for (path, measurements), rows in groups.items()]


def device_rows(
    context: Context, path: str, measurements: Sequence[str], rows: Sequence[Insertion]
) -> tuple[DeviceSeries, pa.Table]:
    name = database_of(path, context)
    if name is None:
        raise NotFoundError(f"{path} lies in no database", hint="create the database to which the trigger writes")
    database = context.catalog.databases.get(name)
    present = context.catalog.trees.find(name, [path]).get(path)
    types = {measurement: type_of(measurement, present, rows) for measurement in measurements}
    columns: dict[str, pa.Array] = {TIME_COLUMN: to_stored_times([row.time for row in rows], database.precision)}
    for measurement, type_ in types.items():
        columns[measurement] = stored_values([row.values[measurement] for row in rows], type_, database, f"{path}.{measurement}")
    series = tuple(NewSeries(measurement, type_) for measurement, type_ in types.items())
    return DeviceSeries(database, path, series), pa.table(columns)


def device_path(text: str) -> str:
    """Return the canonical path of a device."""
    nodes = parse_path(text)
    if nodes is None:
        raise DataError(f"{text} is not the path of a device", hint="write a path such as root.alerts.line1")
    return join_path(nodes)


def type_of(measurement: str, present: Device | None, rows: Sequence[Insertion]) -> DataType:
    """Return the type of a series: its own, or for a new one that of the first value, as INSERT infers it."""
    series = None if present is None else present.find(measurement)
    if series is not None:
        return series.type
    match rows[0].values[measurement]:
        case bool():
            return BOOL
        case int() | float():
            return DOUBLE
        case bytes():
            return DataType(TypeKind.VARBINARY)
    return VARCHAR


def stored_values(values: Sequence[Any], type_: DataType, database: Database, path: str) -> pa.Array:
    if type_.kind is TypeKind.TIMESTAMP:
        return to_stored_times([int(value) for value in values], database.precision)
    try:
        return pa.array([CONVERTERS[type_.kind](value) for value in values], arrow_type(type_, database.precision))
    except (ValueError, OverflowError, ArithmeticError) as error:
        raise DataError(f"a trigger inserts {error.args[0]!r} into {path}, which has the type {type_name(type_)}") from None
