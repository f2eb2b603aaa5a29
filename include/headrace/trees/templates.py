"""Device templates: their measurements, the paths that they are set to, and the devices that use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from headrace.model.trees import TREE_TABLE, Device, DeviceSeries, DeviceTemplate, NewSeries, TemplateSeries, Timeseries
from headrace.trees.columns import allocate_columns, clear_series

TEMPLATES_LOCK: Final = "device templates"
"""Name of the lock for changes of device templates and their devices. Take it before the lock of a database."""


def use_templates(
    context: Context, database: Database, devices: Sequence[DeviceSeries], templates: Mapping[str, DeviceTemplate]
) -> None:
    """Extend templates by the measurements that they lack, and create devices from them; `templates` has those of devices.

    Raises:
        TypeMismatchError: A template has a measurement with a type that the values of a series cannot have.
    """
    for template in {own.name: own for own in templates.values()}.values():
        own = [device for device in devices if templates[device.path].name == template.name]
        series = {one.measurement: one for one in template.series}
        for path, new in ((device.path, new) for device in own for new in device.series):
            added = TemplateSeries(new.measurement, new.type, new.encoding, new.compression)
            check_template_type(path, new, template.name, series.setdefault(new.measurement, added))
        extend_template(context, template.name, list(series.values()), if_not_exists=True)
        activate_devices(context, database, [device.path for device in own], template.name)


def check_template_type(device: str, new: NewSeries, template: str, series: TemplateSeries) -> None:
    """Raise `TypeMismatchError` if a template's measurement has a type that values of a new series cannot have."""
    if series.type.kind not in (new.type.kind, *WIDER_KINDS.get(new.type.kind, ())):
        raise TypeMismatchError(
            f"device template {template} has {new.measurement} with type {type_name(series.type)}, "
            f"to which {device} cannot get values of type {type_name(new.type)}",
            hint="write to another measurement, or cast the values",
        )


def extend_template(context: Context, name: str, series: Sequence[TemplateSeries], *, if_not_exists: bool = False) -> None:
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
        catalog.templates.extend(name, missing, columns)


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


def assign_template(context: Context, database: Database, path: str, name: str | None) -> None:
    """Set a device template to a path, or remove it from there."""
    templates = context.catalog.templates
    with context.catalog.lock(TEMPLATES_LOCK):
        if name is None:
            templates.unset(path)
        else:
            refuse_series_below(path, database.name, name, context)
            templates.set(name, database.name, path)


def covering_templates(paths: Iterable[str], context: Context) -> dict[str, DeviceTemplate]:
    """Return the templates that are set to paths of devices, or to paths above them, by the device's path."""
    names = context.catalog.templates.paths()
    if not names:
        return {}
    above = {path: next((name for prefix in prefixes(path) if (name := names.get(prefix))), None) for path in paths}
    templates = {name: context.catalog.templates.get(name) for name in {*above.values()} if name is not None}
    return {path: templates[name] for path, name in above.items() if name is not None}


def prefixes(path: str) -> Iterator[str]:
    """Yield a path and those above it."""
    nodes = split_path(path)
    return (join_path(nodes[:length]) for length in range(len(nodes), 0, -1))


def activate_devices(context: Context, database: Database, paths: Sequence[str], template_name: str) -> None:
    """Create those devices that do not exist, with the series of their template."""
    catalog, name = context.catalog, database.name
    with catalog.lock(TEMPLATES_LOCK), catalog.lock(f"ddl {name}"):
        present = catalog.trees.find(name, paths)
        missing = [path for path in paths if path not in present]
        if not missing:
            return
        template = catalog.templates.get(template_name)
        columns = allocate_columns(catalog.tables.get(name, TREE_TABLE), database, template.series, context)
        failpoint("service.tree.columns")
        series = tuple(
            Timeseries(one.measurement, one.type, columns[one.measurement, one.type].name, one.encoding, one.compression)
            for one in template.series
        )
        devices = [Device(name, path, series, template.aligned, template=template.name) for path in missing]
        catalog.trees.change(name, missing, lambda _: devices, list(columns.values()))


def deactivate_devices(context: Context, database: Database, paths: Sequence[str]) -> None:
    """Clear the values of devices that use a template, then remove the devices."""
    catalog, name = context.catalog, database.name
    with catalog.lock(TEMPLATES_LOCK):
        devices = catalog.trees.find(name, paths)
        columns = tuple((path, tuple(series.column for series in device.series)) for path, device in devices.items())
        clear_series(context, database, columns)

        def change(present: dict[str, Device]) -> list[Device]:
            return [replace(device, series=(), template=None) for device in present.values()]

        catalog.trees.change(name, paths, change, [])
