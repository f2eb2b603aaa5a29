"""Values of series: writing and clearing them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.context import Context
from headrace.errors import NotFoundError
from headrace.model.tables import Database
from headrace.model.trees import TREE_TABLE, Device
from headrace.storage.delta.writer import Ranges


def write_series(context: Context, database: Database, rows: Sequence[tuple[str, pa.Table]]) -> int:
    """Write rows of devices in one commit; return how many there were.

    Args:
        context: The environment.
        database: The tree's database.
        rows: For each device `time` as stored and a column for each measurement, in the type of its series.
    """
    catalog, name = context.catalog, database.name
    devices = catalog.trees.find(name, [path for path, _ in rows])
    parts = [stored_rows(devices[path], own) for path, own in rows]
    combined = pa.concat_tables(parts, promote_options="default")
    context.tables.writer.write(catalog.tables.get(name, TREE_TABLE), database, combined, update_columns=combined.column_names)
    return int(combined.num_rows)


def stored_rows(device: Device, rows: pa.Table) -> pa.Table:
    """Return rows of a device under the names of the stored columns, with the device."""
    columns = {rows.column_names[0]: rows.column(0)}
    for measurement in rows.column_names[1:]:
        series = device.find(measurement)
        if series is None:
            raise NotFoundError(f"timeseries {device.series_path(measurement)} does not exist", hint="it was deleted meanwhile")
        columns[series.column] = rows[measurement]
    return pa.table(columns).append_column("device", pa.repeat(pa.scalar(device.path), rows.num_rows))


def clear_series(
    context: Context, database: Database, columns: Sequence[tuple[str, Sequence[str]]], ranges: Ranges | None = None
) -> int:
    """Delete values within ranges of ticks, both ends inclusive; a row without any goes. Return the number of changed rows.

    Args:
        context: The environment.
        database: The tree's database.
        columns: Devices, and the stored columns to delete values from.
        ranges: None for all times.
    """
    table = context.catalog.tables.get(database.name, TREE_TABLE)
    return context.tables.writer.clear(table, database, columns, ranges)
