"""Changes of trees: series in the catalog, columns and values in the Delta tables.

Columns come to the Delta table first: one that only the Delta table has is passed over by all, so a crash between the two is
completed by the same statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from headrace.errors import ExistsError, NotFoundError, TypeMismatchError
from headrace.model.failpoints import failpoint
from headrace.model.paths import unquote_node
from headrace.model.tables import Column, Database, Table
from headrace.model.trees import TREE_TABLE, Device, NewSeries, Timeseries, tree_table
from headrace.model.types import DataType
from headrace.storage.delta.writer import Ranges
from headrace.streams.context import Context

_UNSTORABLE: Final = re.compile(r"[^\w\u2E80-\u9FFF]")


def make_tree(context: Context, database: Database, ttl_ms: int | None = None, *, if_not_exists: bool = False) -> None:
    """Create a database with its table, which is empty."""
    catalog, name = context.catalog, database.name
    table = tree_table(name)
    with catalog.lock(f"ddl {name}"):
        created = catalog.databases.create(database, if_not_exists)
        failpoint("service.tree.database")
        if created or not catalog.tables.all(name):
            context.tables.create(table, database)
            catalog.tables.create(table, if_not_exists=True)
        if created and ttl_ms is not None:
            catalog.trees.set_ttl(f"{name}.**", ttl_ms)


def database_of(path: str, context: Context) -> str | None:
    """Return the database that a path lies in, or None."""
    names = context.catalog.trees.databases()
    return next((name for name in names if path == name or path.startswith(name + ".")), None)


@dataclass(frozen=True, slots=True)
class DeviceSeries:
    """Series of a device that are to exist, and what the device is to be if it is new."""

    path: str
    series: tuple[NewSeries, ...]
    aligned: bool = False
    template: str | None = None


def make_all_series(context: Context, database: Database, devices: Sequence[DeviceSeries], *, if_not_exists: bool = False) -> None:
    """Create series of devices, and missing devices, with the columns that they need. A series that exists stays as it is.

    Raises:
        ExistsError: A series exists and `if_not_exists` is False; nothing is created.
    """
    catalog, name = context.catalog, database.name
    with catalog.lock(f"ddl {name}"):
        table = catalog.tables.get(name, TREE_TABLE)
        present = catalog.trees.find(name, [wanted.path for wanted in devices])
        missing = {wanted.path: missing_series(wanted, present.get(wanted.path), if_not_exists) for wanted in devices}
        if not any(missing.values()):
            return
        columns = allocate_columns(table, database, [new for own in missing.values() for new in own], context)
        failpoint("service.tree.columns")
        changed = [
            with_series(
                present.get(wanted.path) or Device(name, wanted.path, (), wanted.aligned, template=wanted.template),
                missing[wanted.path],
                columns,
            )
            for wanted in devices
            if missing[wanted.path]
        ]
        catalog.trees.change(name, [device.path for device in changed], lambda _: changed, list(columns.values()))


def missing_series(wanted: DeviceSeries, present: Device | None, if_not_exists: bool) -> list[NewSeries]:
    """Return the series that a device lacks."""
    missing = [new for new in wanted.series if present is None or present.find(new.measurement) is None]
    if len(missing) < len(wanted.series) and not if_not_exists:
        raise ExistsError(f"a series of {wanted.path} already exists", hint="SHOW TIMESERIES lists what there is")
    return missing


Allocation = dict[tuple[str, DataType], Column]


def allocate_columns(table: Table, database: Database, series: Sequence[NewSeries], context: Context) -> Allocation:
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
            context.tables.add_columns(table, database, [column])
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


def with_series(device: Device, series: Sequence[NewSeries], columns: Allocation) -> Device:
    """Return a device with more series."""
    more = tuple(
        Timeseries(new.measurement, new.type, columns[new.measurement, new.type].name, new.encoding, new.compression)
        for new in series
    )
    labels = {
        new.measurement: new.labels
        for new in series
        if new.labels is not None and (new.labels.alias or new.labels.tags or new.labels.attributes)
    }
    return replace(device, series=(*device.series, *more), labels={**device.labels, **labels})


def remove_series(context: Context, database: Database, measurements: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Remove series, then their values: a series of the same name that comes later does not see them."""
    catalog, name = context.catalog, database.name
    removed = dict(measurements)
    present = catalog.trees.find(name, list(removed))
    columns = tuple(
        (path, tuple(series.column for series in device.series if series.measurement in removed[path]))
        for path, device in present.items()
    )
    clear_series(context, database, columns)

    def change(devices: dict[str, Device]) -> list[Device]:
        return [without_series(device, removed[path]) for path, device in devices.items()]

    catalog.trees.change(name, list(removed), change, [])


def without_series(device: Device, measurements: Sequence[str]) -> Device:
    """Return a device without some series."""
    kept = tuple(series for series in device.series if series.measurement not in measurements)
    labels = {name: labels for name, labels in device.labels.items() if name not in measurements}
    return replace(device, series=kept, labels=labels)


def change_device(context: Context, database: Database, path: str, change: Callable[[Device], Device]) -> None:
    """Change what is attached to a device's series; `change` makes the new device of the present one."""

    def change_all(devices: dict[str, Device]) -> list[Device]:
        if path not in devices:
            raise NotFoundError(f"device {path} does not exist", hint="SHOW DEVICES lists what there is")
        return [change(devices[path])]

    context.catalog.trees.change(database.name, [path], change_all, [])


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
    context.tables.write(catalog.tables.get(name, TREE_TABLE), database, combined, update_columns=combined.column_names)
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
    return context.tables.clear(table, database, columns, ranges)
