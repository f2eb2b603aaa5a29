"""Changes of trees: series in the catalog, columns and values in the Delta tables.

Columns come to the Delta table first: one that only the Delta table has is passed over by all, so a crash between the two is
completed by the same statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from headrace.errors import ExistsError, NotFoundError, TypeMismatchError
from headrace.model.failpoints import failpoint
from headrace.model.paths import unquote_node
from headrace.model.tables import Column, Database, Table
from headrace.model.trees import TREE_TABLE, Device, Timeseries, tree_table
from headrace.model.types import DataType
from headrace.runtime.context import Context
from headrace.service.tree_stages import ChangeDevice, ClearSeries, MakeSeries, MakeTree, NewSeries, RemoveSeries, WriteSeries

_UNSTORABLE: Final = re.compile(r"[^\w\u2E80-\u9FFF]")


def make_tree(stage: MakeTree, context: Context) -> None:
    """Create a database with its table, which is empty."""
    catalog, name = context.catalog, stage.database.name
    table = tree_table(name)
    with catalog.lock(f"ddl {name}"):
        created = catalog.databases.create(stage.database, stage.if_not_exists)
        failpoint("service.tree.database")
        if created or not catalog.tables.all(name):
            context.tables.create(table, stage.database)
            catalog.tables.create(table, if_not_exists=True)
        if created and stage.ttl_ms is not None:
            catalog.trees.set_ttl(f"{name}.**", stage.ttl_ms)


def database_of(path: str, context: Context) -> str | None:
    """Return the database that a path lies in, or None."""
    names = context.catalog.trees.databases()
    return next((name for name in names if path == name or path.startswith(name + ".")), None)


def make_series(stage: MakeSeries, context: Context) -> None:
    """Create series of a device, with the columns that they need."""
    catalog, name = context.catalog, stage.database.name
    with catalog.lock(f"ddl {name}"):
        table = catalog.tables.get(name, TREE_TABLE)
        present = catalog.trees.find(name, [stage.device]).get(stage.device)
        missing = [new for new in stage.series if present is None or present.find(new.measurement) is None]
        if len(missing) < len(stage.series) and not stage.if_not_exists:
            raise ExistsError(f"a series of {stage.device} already exists", hint="SHOW TIMESERIES lists what there is")
        if not missing:
            return
        columns = allocate_columns(table, stage.database, missing, context)
        failpoint("service.tree.columns")
        device = with_series(present or Device(name, stage.device, (), stage.aligned, template=stage.template), missing, columns)
        catalog.trees.change(name, [stage.device], lambda _: [device], list(columns.values()))


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


def remove_series(stage: RemoveSeries, context: Context) -> None:
    """Remove series, then their values: a series of the same name that comes later does not see them."""
    catalog, name = context.catalog, stage.database.name
    doomed = dict(stage.series)
    present = catalog.trees.find(name, list(doomed))
    columns = tuple(
        (path, tuple(series.column for series in device.series if series.measurement in doomed[path]))
        for path, device in present.items()
    )
    clear_series(ClearSeries(stage.database, columns, None), context)

    def change(devices: dict[str, Device]) -> list[Device]:
        return [without_series(device, doomed[path]) for path, device in devices.items()]

    catalog.trees.change(name, list(doomed), change, [])


def without_series(device: Device, measurements: Sequence[str]) -> Device:
    """Return a device without some series."""
    kept = tuple(series for series in device.series if series.measurement not in measurements)
    labels = {name: labels for name, labels in device.labels.items() if name not in measurements}
    return replace(device, series=kept, labels=labels)


def change_device(stage: ChangeDevice, context: Context) -> None:
    """Change what is attached to a device's series."""

    def change(devices: dict[str, Device]) -> list[Device]:
        if stage.device not in devices:
            raise NotFoundError(f"device {stage.device} does not exist", hint="SHOW DEVICES lists what there is")
        return [stage.change(devices[stage.device])]

    context.catalog.trees.change(stage.database.name, [stage.device], change, [])


def write_series(stage: WriteSeries, context: Context) -> int:
    """Write the rows of all devices in one commit; return how many there were."""
    catalog, name = context.catalog, stage.database.name
    devices = catalog.trees.find(name, [path for path, _ in stage.rows])
    parts = [stored_rows(devices[path], rows) for path, rows in stage.rows]
    rows = pa.concat_tables(parts, promote_options="default")
    context.tables.write(catalog.tables.get(name, TREE_TABLE), stage.database, rows, update_columns=rows.column_names)
    return sum(part.num_rows for part in parts)


def stored_rows(device: Device, rows: pa.Table) -> pa.Table:
    """Return rows of a device under the names of the stored columns, with the device."""
    columns = {rows.column_names[0]: rows.column(0)}
    for measurement in rows.column_names[1:]:
        series = device.find(measurement)
        if series is None:
            raise NotFoundError(f"timeseries {device.series_path(measurement)} does not exist", hint="it was deleted meanwhile")
        columns[series.column] = rows[measurement]
    return pa.table(columns).append_column("device", pa.repeat(pa.scalar(device.path), rows.num_rows))


def clear_series(stage: ClearSeries, context: Context) -> int:
    """Delete values; a row without any goes."""
    table = context.catalog.tables.get(stage.database.name, TREE_TABLE)
    return context.tables.clear(table, stage.database, stage.columns, stage.ranges)
