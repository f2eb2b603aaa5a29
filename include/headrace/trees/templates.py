"""Device templates: their measurements, the paths that they are set to, and the devices that use them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from headrace.context import Context
from headrace.errors import ExistsError, TypeMismatchError
from headrace.model.failpoints import failpoint
from headrace.model.paths import PathPattern, join_path, split_path
from headrace.model.tables import Database
from headrace.model.tree_status import TreeStatus
from headrace.model.tree_types import WIDER_KINDS, type_name
from headrace.model.trees import TREE_TABLE, Device, DeviceSeries, DeviceTemplate, NewSeries
from headrace.trees.columns import allocate_columns, clear_series
from headrace.trees.schema_statements import alter_template, device_log, logged, set_template, unset_template

TEMPLATES_LOCK: Final = "device templates"
"""Name of the lock for changes of device templates and their devices. Take it before the lock of a database."""


def use_templates(
    context: Context, database: Database, devices: Sequence[DeviceSeries], templates: Mapping[str, tuple[str, DeviceTemplate]]
) -> None:
    """Extend templates by the measurements that they lack, and create devices from them; `templates` has those of some devices.

    Raises:
        TypeMismatchError: A template has a measurement with a type that the values of a series cannot have.
    """
    by_name: dict[str, list[DeviceSeries]] = defaultdict(list)
    for device in devices:
        if device.path in templates:
            by_name[templates[device.path][1].name].append(device)
    for own in by_name.values():
        template = templates[own[0].path][1]
        series = {one.measurement: one for one in template.series}
        for path, new in ((device.path, new) for device in own for new in device.series):
            check_template_type(path, new, template.name, series.setdefault(new.measurement, new))
        extend_template(context, template.name, list(series.values()), if_not_exists=True)
        activate_devices(context, database, [device.path for device in own], template.name, is_logged=False)


def check_template_type(device: str, new: NewSeries, template: str, series: NewSeries) -> None:
    """Raise `TypeMismatchError` if a template's measurement has a type that values of a new series cannot have."""
    if series.type.kind not in (new.type.kind, *WIDER_KINDS.get(new.type.kind, ())):
        raise TypeMismatchError(
            f"device template {template} has {new.measurement} with type {type_name(series.type)}, "
            f"to which {device} cannot get values of type {type_name(new.type)}",
            hint="write to another measurement, or cast the values",
        )


def extend_template(context: Context, name: str, series: Sequence[NewSeries], *, if_not_exists: bool = False) -> None:
    """Add measurements to a device template and its devices, with the columns that they need in each database."""
    catalog = context.catalog
    with catalog.lock(TEMPLATES_LOCK), ExitStack() as locks:
        template = catalog.templates.get(name)
        missing = [one for one in series if template.find(one.measurement) is None]
        if len(missing) < len(series) and not if_not_exists:
            raise ExistsError(f"device template {name} has a measurement already", hint="SHOW NODES IN DEVICE TEMPLATE lists them")
        if not missing:
            return
        columns = {}
        for database_name in catalog.templates.used_databases(name):
            locks.enter_context(catalog.lock(f"ddl {database_name}"))
            table, database = catalog.tables.get(database_name, TREE_TABLE), catalog.databases.get(database_name)
            allocation = allocate_columns(table, database, missing, context)
            columns[database_name] = {one.measurement: allocation[one.measurement, one.type] for one in missing}
        failpoint("service.tree.template")
        statements = [] if if_not_exists else [logged(context, alter_template(name, missing))]
        catalog.templates.extend(name, missing, columns, statements)


def devices_below(path: str, database: str, context: Context) -> list[Device]:
    """Return the device of a path and those below it."""
    nodes = split_path(path)
    candidates = context.catalog.trees.matching(database, [PathPattern(nodes)])
    return [device for device in candidates if device.nodes[: len(nodes)] == nodes]


def refuse_series_below(path: str, database: str, template: str, context: Context) -> None:
    """Raise `ExistsError` if a path is a series, or a device or ancestor of series."""
    *ancestors, measurement = split_path(path)
    parent = join_path(ancestors)
    owner = context.catalog.trees.find(database, [parent]).get(parent)
    if devices_below(path, database, context) or (owner is not None and owner.find(measurement) is not None):
        error = ExistsError(
            f"Cannot set device template [{template}] to path [{path}] since there's timeseries under path [{path}].",
            hint=f"delete the series of {path}.** first, or set the template to another path",
        )
        raise error.with_status(TreeStatus.TEMPLATE_INCOMPATIBLE)


def assign_template(context: Context, database: Database, path: str, name: str | None) -> None:
    """Set a device template to a path, or remove it from there."""
    templates = context.catalog.templates
    with context.catalog.lock(TEMPLATES_LOCK):
        if name is None:
            present = templates.paths().get(path)
            change = None if present is None else unset_template(present, path)
            templates.unset(path, [] if change is None else [logged(context, change, database.name)])
        else:
            refuse_series_below(path, database.name, name, context)
            templates.set(name, database.name, path, [logged(context, set_template(name, path), database.name)])


def activate_devices(
    context: Context, database: Database, paths: Sequence[str], template_name: str, *, is_logged: bool = True
) -> None:
    """Create those devices that do not exist, with the series of their template; `is_logged` unless rows create them."""
    catalog, name = context.catalog, database.name
    with catalog.lock(TEMPLATES_LOCK), catalog.lock(f"ddl {name}"):
        present = catalog.trees.find(name, paths)
        missing = [path for path in paths if path not in present]
        if not missing:
            return
        template = catalog.templates.get(template_name)
        columns = allocate_columns(catalog.tables.get(name, TREE_TABLE), database, template.series, context)
        failpoint("service.tree.columns")
        series = tuple(one.stored(columns[one.measurement, one.type].name) for one in template.series)
        devices = [Device(name, path, series, template.aligned, template=template.name) for path in missing]
        log = device_log(context, name) if is_logged else None
        catalog.trees.change(name, missing, lambda _: devices, list(columns.values()), log)


def deactivate_devices(context: Context, database: Database, paths: Sequence[str]) -> None:
    """Clear the values of devices that use a template, then remove the devices."""
    catalog, name = context.catalog, database.name
    with catalog.lock(TEMPLATES_LOCK):
        devices = catalog.trees.find(name, paths)
        columns = tuple((path, tuple(series.column for series in device.series)) for path, device in devices.items())
        clear_series(context, database, columns)
        log = device_log(context, name)
        catalog.trees.change(
            name, paths, lambda stored: [replace(own, series=(), template=None) for own in stored.values()], [], log
        )
