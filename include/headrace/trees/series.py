"""Series of trees: in the catalog, with their columns in the Delta tables.

Columns come to the Delta table first: one that only the Delta table has is passed over by all, so a crash between the two is
completed by the same statement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.context import Context
from headrace.errors import ExistsError, NotFoundError
from headrace.model.failpoints import failpoint
from headrace.model.tables import Database
from headrace.model.trees import TREE_TABLE, Device, DeviceSeries, NewSeries
from headrace.trees.columns import Allocation, allocate_columns, clear_series
from headrace.trees.databases import make_tree
from headrace.trees.schema_statements import device_log
from headrace.trees.templates import TEMPLATES_LOCK, use_templates


def resolve_series(context: Context, wanted: Sequence[DeviceSeries]) -> dict[str, Device]:
    """Return devices with all of the series, by path; databases, devices and series that are missing are created."""
    by_database: dict[str, dict[str, DeviceSeries]] = defaultdict(dict)
    for one in wanted:
        devices = by_database[one.database.name]
        devices[one.path] = one if one.path not in devices else devices[one.path].joined(one)
    resolved: dict[str, Device] = {}
    for devices in by_database.values():
        resolved |= resolve_devices(context, list(devices.values()))
    return resolved


def resolve_devices(context: Context, wanted: Sequence[DeviceSeries]) -> dict[str, Device]:
    trees, database, paths = context.catalog.trees, wanted[0].database, [one.path for one in wanted]
    present = trees.find(database.name, paths)
    incomplete = [one for one in wanted if one.path not in present or one.missing(present[one.path])]
    if not incomplete:
        return present
    if database.name not in trees.databases():
        make_tree(context, database, if_not_exists=True)
    create_series(context, incomplete, if_not_exists=True)
    return trees.find(database.name, paths)


def create_series(context: Context, devices: Sequence[DeviceSeries], *, if_not_exists: bool = False) -> None:
    """Create series of different devices of one database, and missing devices, with the columns they need, in one transaction.

    A series that exists stays as it is. Below a device template, the template is extended and activated. The log of schema changes
    gets the creation unless `if_not_exists`: that is the case of rows, which create their series wherever they are written.

    Raises:
        ExistsError: A series exists and `if_not_exists` is False; nothing is created.
    """
    catalog, database, name = context.catalog, devices[0].database, devices[0].database.name
    with catalog.lock(TEMPLATES_LOCK), catalog.lock(f"ddl {name}"):
        templates = catalog.templates.covering([wanted.path for wanted in devices])
        use_templates(context, database, devices, templates)
        own = {wanted.path: wanted for wanted in devices if wanted.path not in templates}
        present = catalog.trees.find(name, list(own))
        missing = {path: missing_series(wanted, present.get(path), if_not_exists) for path, wanted in own.items()}
        missing = {path: series for path, series in missing.items() if series}
        if not missing:
            return
        table = catalog.tables.get(name, TREE_TABLE)
        columns = allocate_columns(table, database, [new for series in missing.values() for new in series], context)
        failpoint("service.tree.columns")

        def change(stored: dict[str, Device]) -> list[Device]:
            return [
                with_series(stored.get(path) or Device(name, path, (), own[path].aligned), own[path], series, columns)
                for path, series in missing.items()
            ]

        log = None if if_not_exists else device_log(context, name)
        catalog.trees.change(name, list(missing), change, list(columns.values()), log)


def missing_series(wanted: DeviceSeries, present: Device | None, if_not_exists: bool) -> list[NewSeries]:
    """Return the series that a device lacks; raise `ExistsError` if it has some and `if_not_exists` is False."""
    missing = wanted.missing(present)
    if len(missing) < len(wanted.series) and not if_not_exists:
        raise ExistsError(f"a series of {wanted.path} already exists", hint="SHOW TIMESERIES lists what there is")
    return missing


def with_series(device: Device, wanted: DeviceSeries, series: Sequence[NewSeries], columns: Allocation) -> Device:
    more = tuple(new.stored(columns[new.measurement, new.type].name) for new in series)
    labels = {new.measurement: wanted.labels[new.measurement] for new in series if new.measurement in wanted.labels}
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
    catalog.trees.change(
        name,
        list(removed),
        lambda stored: [without_series(device, removed[path]) for path, device in stored.items()],
        [],
        device_log(context, name),
    )


def without_series(device: Device, measurements: Sequence[str]) -> Device:
    kept = tuple(series for series in device.series if series.measurement not in measurements)
    labels = {name: labels for name, labels in device.labels.items() if name not in measurements}
    return replace(device, series=kept, labels=labels)


def change_device(context: Context, database: Database, path: str, change: Callable[[Device], Device]) -> None:
    """Change what is attached to a device's series; `change` makes the new device of the present one."""

    def change_all(devices: dict[str, Device]) -> list[Device]:
        if path not in devices:
            raise NotFoundError(f"device {path} does not exist", hint="SHOW DEVICES lists what there is")
        return [change(devices[path])]

    context.catalog.trees.change(database.name, [path], change_all, [], device_log(context, database.name))
