"""Changes of trees: series in the catalog, columns in the Delta tables.

Columns come to the Delta table first: one that only the Delta table has is passed over by all, so a crash between the two is
completed by the same statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from headrace.context import Context
from headrace.errors import ExistsError, NotFoundError, NotSupportedError
from headrace.model.failpoints import failpoint
from headrace.model.paths import ROOT, join_path, quote_node, split_path, unquote_node
from headrace.model.spans import Span
from headrace.model.tables import Database
from headrace.model.trees import TREE_TABLE, Device, NewSeries, TemplateSeries, Timeseries, tree_table
from headrace.queries.columns import Allocation, allocate_columns
from headrace.queries.templates import TEMPLATES_LOCK, activate_device, check_template_type, extend_template
from headrace.queries.values import clear_series


def make_tree(context: Context, database: Database, ttl_ms: int | None = None, *, if_not_exists: bool = False) -> None:
    """Create a database with its table, which is empty."""
    catalog, name = context.catalog, database.name
    tables = table_database(split_path(name), context)
    if tables is not None:
        refuse_table_database(tables)
    table = tree_table(name)
    with catalog.lock(f"ddl {name}"):
        created = catalog.databases.create(database, if_not_exists)
        failpoint("service.tree.database")
        if created or not catalog.tables.all(name):
            context.tables.create(table, database)
            catalog.tables.create(table, if_not_exists=True)
        if created and ttl_ms is not None:
            catalog.trees.set_ttl(f"{name}.**", ttl_ms)


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


@dataclass(frozen=True, slots=True)
class DeviceSeries:
    """Series of a device that are to exist, and what the device is to be if it is new."""

    path: str
    series: tuple[NewSeries, ...]
    aligned: bool = False


def make_all_series(context: Context, database: Database, devices: Sequence[DeviceSeries], *, if_not_exists: bool = False) -> None:
    """Create series of devices, and missing devices, with the columns that they need. A series that exists stays as it is.

    Below a device template, the template is extended and activated.

    Raises:
        ExistsError: A series exists and `if_not_exists` is False; nothing is created.
    """
    catalog, name = context.catalog, database.name
    with catalog.lock(TEMPLATES_LOCK), catalog.lock(f"ddl {name}"):
        devices = [wanted for wanted in devices if not use_template(context, database, wanted)]
        table = catalog.tables.get(name, TREE_TABLE)
        present = catalog.trees.find(name, [wanted.path for wanted in devices])
        missing = {wanted.path: missing_series(wanted, present.get(wanted.path), if_not_exists) for wanted in devices}
        if not any(missing.values()):
            return
        columns = allocate_columns(table, database, [new for own in missing.values() for new in own], context)
        failpoint("service.tree.columns")
        changed = [
            with_series(
                present.get(wanted.path) or Device(name, wanted.path, (), wanted.aligned),
                missing[wanted.path],
                columns,
            )
            for wanted in devices
            if missing[wanted.path]
        ]
        catalog.trees.change(name, [device.path for device in changed], lambda _: changed, list(columns.values()))


def use_template(context: Context, database: Database, wanted: DeviceSeries) -> bool:
    """Create series of a device below a path with a device template by means of the template; return False if there is none."""
    covering = context.catalog.templates.covering(wanted.path)
    if covering is None:
        return False
    template = covering[1]
    for new in wanted.series:
        check_template_type(wanted.path, new, template)
    series = tuple(TemplateSeries(new.measurement, new.type, new.encoding, new.compression) for new in wanted.series)
    extend_template(context, template.name, series, if_not_exists=True)
    activate_device(context, database, wanted.path, template.name)
    return True


def missing_series(wanted: DeviceSeries, present: Device | None, if_not_exists: bool) -> list[NewSeries]:
    """Return the series that a device lacks."""
    missing = [new for new in wanted.series if present is None or present.find(new.measurement) is None]
    if len(missing) < len(wanted.series) and not if_not_exists:
        raise ExistsError(f"a series of {wanted.path} already exists", hint="SHOW TIMESERIES lists what there is")
    return missing


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
