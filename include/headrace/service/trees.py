"""Changes of trees: series in the catalog, columns and values in the Delta tables.

Columns are added to the Delta table first. Readers ignore a column that only the Delta table has, so the same statement completes
what a crash between the two leaves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final, NoReturn

import pyarrow as pa

from headrace.errors import ExistsError, NotFoundError, NotSupportedError, TypeMismatchError
from headrace.model.failpoints import failpoint
from headrace.model.paths import ROOT, PathPattern, join_path, quote_node, split_path, unquote_node
from headrace.model.spans import Span
from headrace.model.tables import Column, Database, Table
from headrace.model.tree_status import TreeStatus
from headrace.model.tree_types import WIDER_KINDS, type_name
from headrace.model.trees import TREE_TABLE, Device, DeviceTemplate, TemplateSeries, Timeseries, tree_table
from headrace.model.types import DataType
from headrace.runtime.context import Context
from headrace.service.tree_stages import (
    ActivateDevice,
    AssignTemplate,
    ChangeDevice,
    ClearSeries,
    DeactivateDevices,
    ExtendTemplate,
    MakeSeries,
    MakeTree,
    NewSeries,
    RemoveSeries,
    WriteSeries,
)

TEMPLATES_LOCK: Final = "device templates"
"""Name of the lock for changes of device templates and their devices. Take it before the lock of a database."""
_UNSTORABLE: Final = re.compile(r"[^\w\u2E80-\u9FFF]")


def make_tree(stage: MakeTree, context: Context) -> None:
    """Create a database with its table, which is empty."""
    catalog, name = context.catalog, stage.database.name
    tables = table_database(split_path(name), context)
    if tables is not None:
        refuse_table_database(tables)
    table = tree_table(name)
    with catalog.lock(f"ddl {name}"):
        created = catalog.databases.create(stage.database, stage.if_not_exists)
        failpoint("service.tree.database")
        if created or not catalog.tables.all(name):
            context.tables.create(table, stage.database)
            catalog.tables.create(table, if_not_exists=True)
        if created and stage.ttl_ms is not None:
            catalog.trees.set_ttl(f"{name}.**", stage.ttl_ms)


def table_database(nodes: Sequence[str], context: Context) -> str | None:
    """Return the database of the other language that a path is about; None if there is none, or a tree has the name."""
    if len(nodes) <= 1 or nodes[0] != ROOT:
        return None
    root, name = join_path(nodes[:2]), unquote_node(nodes[1])
    if any(tree == root or tree.startswith(root + ".") for tree in context.catalog.trees.databases()):
        return None
    return name if any(database.name == name for database in context.catalog.databases.all()) else None


def refuse_table_database(name: str, span: Span | None = None) -> NoReturn:
    """Raise the error for writing to a database of the other language."""
    raise NotSupportedError(
        f"{join_path((ROOT, quote_node(name)))} is the database {name} of the tdengine dialect, which this dialect only reads",
        hint="write to it with the tdengine dialect, or use another path",
        span=span,
    )


def database_of(path: str, context: Context) -> str | None:
    """Return the database that a path lies in, or None."""
    names = context.catalog.trees.databases()
    return next((name for name in names if path == name or path.startswith(name + ".")), None)


def make_series(stage: MakeSeries, context: Context) -> None:
    """Create series of a device, with the columns that they need; below a device template, extend and activate the template."""
    catalog, name = context.catalog, stage.database.name
    with catalog.lock(TEMPLATES_LOCK), catalog.lock(f"ddl {name}"):
        template = catalog.templates.covering(stage.device)
        if template is not None:
            for new in stage.series:
                check_template_type(stage.device, new, template[1])
            series = tuple(TemplateSeries(new.measurement, new.type, new.encoding, new.compression) for new in stage.series)
            extend_template(ExtendTemplate(template[1].name, series, if_not_exists=True), context)
            activate_device(ActivateDevice(stage.database, stage.device, template[1].name), context)
            return
        table = catalog.tables.get(name, TREE_TABLE)
        present = catalog.trees.find(name, [stage.device]).get(stage.device)
        missing = [new for new in stage.series if present is None or present.find(new.measurement) is None]
        if len(missing) < len(stage.series) and not stage.if_not_exists:
            raise ExistsError(f"a series of {stage.device} already exists", hint="SHOW TIMESERIES lists what there is")
        if not missing:
            return
        columns = allocate_columns(table, stage.database, missing, context)
        failpoint("service.tree.columns")
        device = with_series(present or Device(name, stage.device, (), stage.aligned), missing, columns)
        catalog.trees.change(name, [stage.device], lambda _: [device], list(columns.values()))


def check_template_type(device: str, new: NewSeries, template: DeviceTemplate) -> None:
    """Raise `TypeMismatchError` if a template has a measurement with a type that values of a new series cannot have."""
    series = template.find(new.measurement)
    if series is not None and series.type.kind not in (new.type.kind, *WIDER_KINDS.get(new.type.kind, ())):
        raise TypeMismatchError(
            f"device template {template.name} has {new.measurement} with type {type_name(series.type)}, "
            f"to which {device} cannot get values of type {type_name(new.type)}",
            hint="write to another measurement, or cast the values",
        )


def extend_template(stage: ExtendTemplate, context: Context) -> None:
    """Add measurements to a device template and its devices, with the columns that they need in each database."""
    catalog = context.catalog
    with catalog.lock(TEMPLATES_LOCK), ExitStack() as locks:
        template = catalog.templates.get(stage.name)
        missing = [series for series in stage.series if template.find(series.measurement) is None]
        if len(missing) < len(stage.series) and not stage.if_not_exists:
            raise ExistsError(
                f"device template {stage.name} has a measurement already", hint="SHOW NODES IN DEVICE TEMPLATE lists them"
            )
        if not missing:
            return
        columns = {}
        for name in catalog.templates.used_databases(stage.name):
            locks.enter_context(catalog.lock(f"ddl {name}"))
            table, database = catalog.tables.get(name, TREE_TABLE), catalog.databases.get(name)
            allocation = allocate_columns(table, database, missing, context)
            columns[name] = {series.measurement: allocation[series.measurement, series.type] for series in missing}
        failpoint("service.tree.template")
        catalog.templates.extend(stage.name, missing, columns)


def devices_below(path: str, database: str, context: Context) -> list[Device]:
    """Return the device of a path and those below it."""
    nodes = split_path(path)
    candidates = context.catalog.trees.matching(database, [PathPattern(nodes)])
    return [device for device in candidates if device.nodes[: len(nodes)] == nodes]


def refuse_series_below(path: str, database: str, template: str, context: Context) -> None:
    """Raise `ExistsError` if a path is a series, or a device or ancestor of series."""
    parent, _, measurement = path.rpartition(".")
    owner = context.catalog.trees.find(database, [parent]).get(parent)
    if devices_below(path, database, context) or (owner is not None and owner.find(measurement) is not None):
        error = ExistsError(
            f"Cannot set device template [{template}] to path [{path}] since there's timeseries under path [{path}].",
            hint=f"delete the series of {path}.** first, or set the template to another path",
        )
        raise error.with_status(TreeStatus.TEMPLATE_INCOMPATIBLE)


def assign_template(stage: AssignTemplate, context: Context) -> None:
    """Set a device template to a path, or remove it from there."""
    templates = context.catalog.templates
    with context.catalog.lock(TEMPLATES_LOCK):
        if stage.name is None:
            templates.unset(stage.path)
        else:
            refuse_series_below(stage.path, stage.database.name, stage.name, context)
            templates.set(stage.name, stage.database.name, stage.path)


def activate_device(stage: ActivateDevice, context: Context) -> None:
    """Create a device with the series of its template, unless it exists."""
    catalog, name = context.catalog, stage.database.name
    with catalog.lock(TEMPLATES_LOCK), catalog.lock(f"ddl {name}"):
        if stage.device in catalog.trees.find(name, [stage.device]):
            return
        template = catalog.templates.get(stage.template)
        columns = allocate_columns(catalog.tables.get(name, TREE_TABLE), stage.database, template.series, context)
        failpoint("service.tree.columns")
        series = tuple(
            Timeseries(one.measurement, one.type, columns[one.measurement, one.type].name, one.encoding, one.compression)
            for one in template.series
        )
        device = Device(name, stage.device, series, template.aligned, template=template.name)
        catalog.trees.change(name, [stage.device], lambda _: [device], list(columns.values()))


def deactivate_devices(stage: DeactivateDevices, context: Context) -> None:
    """Clear the values of devices that use a template, then remove the devices."""
    catalog, name = context.catalog, stage.database.name
    with catalog.lock(TEMPLATES_LOCK):
        devices = catalog.trees.find(name, stage.devices)
        columns = tuple((path, tuple(series.column for series in device.series)) for path, device in devices.items())
        clear_series(ClearSeries(stage.database, columns, None), context)

        def change(present: dict[str, Device]) -> list[Device]:
            return [replace(device, series=(), template=None) for device in present.values()]

        catalog.trees.change(name, stage.devices, change, [])


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
    """Clear the values of series, then remove the series: one of the same name that is created later is empty."""
    catalog, name = context.catalog, stage.database.name
    removed = dict(stage.series)
    present = catalog.trees.find(name, list(removed))
    columns = tuple(
        (path, tuple(series.column for series in device.series if series.measurement in removed[path]))
        for path, device in present.items()
    )
    clear_series(ClearSeries(stage.database, columns, None), context)

    def change(devices: dict[str, Device]) -> list[Device]:
        return [without_series(device, removed[path]) for path, device in devices.items()]

    catalog.trees.change(name, list(removed), change, [])


def without_series(device: Device, measurements: Sequence[str]) -> Device:
    """Return a device without some series."""
    kept = tuple(series for series in device.series if series.measurement not in measurements)
    labels = {name: labels for name, labels in device.labels.items() if name not in measurements}
    return replace(device, series=kept, labels=labels)


def change_device(stage: ChangeDevice, context: Context) -> None:
    """Change the labels of a device's series."""

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
