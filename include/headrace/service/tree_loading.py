"""Load files into trees: the devices and series that they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.errors import ExistsError, TypeMismatchError
from headrace.model.tables import Column, Database, Table
from headrace.model.tree_types import TREE_TYPES, type_name
from headrace.model.trees import TREE_TABLE, Device, DeviceTemplate, NewSeries, TemplateSeries
from headrace.model.types import DataType
from headrace.queries.columns import Allocation, allocate_columns, candidates, find_column
from headrace.queries.templates import TEMPLATES_LOCK, activate_devices, covering_templates, extend_template
from headrace.queries.trees import with_series
from headrace.runtime.context import Context
from headrace.service.topics.trees.loads import LoadTree
from headrace.storage.loading.tree_loader import TreeLoadOptions
from headrace.storage.loading.tree_rows import SeriesColumns


def load_tree(stage: LoadTree, context: Context) -> int:
    """Load files into a tree and return the number of rows written.

    Raises:
        DataError: A value is invalid; nothing is written.
    """
    catalog, database = context.catalog, context.catalog.databases.get(stage.database.name)
    loader = context.tables.tree_loader(context.spark, catalog.tables.get(database.name, TREE_TABLE), database)
    loaded = loader.load(
        stage.files,
        CatalogSeries(context, database, stage.aligned),
        lambda _, read: stage.progress(read, stage.bytes),
        TreeLoadOptions(format=stage.format, device=stage.device, now=context.clock.now()),
    )
    return loaded.inserted + loaded.updated


@dataclass(frozen=True, slots=True)
class CatalogSeries:
    """The series of a tree in the catalog; see `SeriesStore`."""

    context: Context
    database: Database
    aligned: bool

    def plan(self, series: pa.Table) -> SeriesColumns:
        """Return the columns that series have or would get."""
        table = self.context.catalog.tables.get(self.database.name, TREE_TABLE)
        series = self.with_template_types(series)
        present = self.devices(series)
        missing = missing_series(series, present)
        columns = planned_columns(table, missing)
        table = replace(table, columns=(*table.columns, *(column for column in columns.values() if column not in table.columns)))
        return series_columns(table, series, present, columns)

    def create(self, series: pa.Table) -> SeriesColumns:
        """Create the series that are missing, and return the columns that series have.

        Below device templates these are extended and activated, as by INSERT; all other series are created in one transaction.
        """
        catalog, name = self.context.catalog, self.database.name
        with catalog.lock(TEMPLATES_LOCK), catalog.lock(f"ddl {name}"):
            typed = self.with_template_types(series)
            missing = missing_series(typed, self.devices(typed))
            templates = covering_templates(missing, self.context)
            self.use_templates(templates, missing)
            self.create_own({path: new for path, new in missing.items() if path not in templates})
            return self.plan(series)

    def create_own(self, missing: Mapping[str, Sequence[NewSeries]]) -> None:
        """Create series of devices that have no template."""
        if not missing:
            return
        catalog, name = self.context.catalog, self.database.name
        table = catalog.tables.get(name, TREE_TABLE)
        every = list(dict.fromkeys(new for group in missing.values() for new in group))
        self.add_planned_columns(table, missing)
        columns = allocate_columns(table, self.database, every, self.context)
        catalog.trees.change(
            name, list(missing), lambda present: self.with_missing(present, missing, columns), list(columns.values())
        )

    def use_templates(self, templates: Mapping[str, DeviceTemplate], missing: Mapping[str, Sequence[NewSeries]]) -> None:
        """Extend templates by the measurements that they lack, and create devices from them; `templates` has those of devices."""
        for template in {template.name: template for template in templates.values()}.values():
            paths = [path for path, own in templates.items() if own.name == template.name]
            series = {new.measurement: TemplateSeries(new.measurement, new.type) for path in paths for new in missing[path]}
            extend_template(self.context, template.name, list(series.values()), if_not_exists=True)
            activate_devices(self.context, self.database, paths, template.name)

    def with_template_types(self, series: pa.Table) -> pa.Table:
        """Return series with the types of device templates: those of a template's measurements, or one for each new one."""
        templates = covering_templates(series["device"].unique().to_pylist(), self.context)
        if not templates:
            return series
        types = {(template.name, one.measurement): one.type for template in templates.values() for one in template.series}
        named = []
        for device, measurement, type_ in series_rows(series):
            template = templates.get(device)
            named.append(type_ if template is None else types.setdefault((template.name, measurement), type_))
        return series.set_column(series.column_names.index("type"), "type", pa.array(map(type_name, named), pa.string()))

    def add_planned_columns(self, table: Table, missing: Mapping[str, Sequence[NewSeries]]) -> None:
        """Add the columns that series are likely to get in one commit; those that are taken get other names afterwards."""
        planned = [column for column in planned_columns(table, missing).values() if column not in table.columns]
        with suppress(TypeMismatchError, ExistsError):
            self.context.tables.columns.add(table, self.database, planned)

    def with_missing(
        self, present: Mapping[str, Device], missing: Mapping[str, Sequence[NewSeries]], columns: Allocation
    ) -> list[Device]:
        """Return devices with the series that they lack."""
        return [
            with_series(present.get(path) or Device(self.database.name, path, (), self.aligned), new, columns)
            for path, new in missing.items()
        ]

    def devices(self, series: pa.Table) -> dict[str, Device]:
        """Return those devices of series that exist."""
        return self.context.catalog.trees.find(self.database.name, series["device"].unique().to_pylist())


def existing_columns(devices: Iterable[Device]) -> dict[tuple[str, str], str]:
    """Return the stored column of each series, by device and by measurement or alias."""
    columns: dict[tuple[str, str], str] = {}
    for device in devices:
        for series in device.series:
            columns[device.path, series.measurement] = series.column
            alias = device.labels_of(series.measurement).alias
            if alias:
                columns.setdefault((device.path, alias), series.column)
    return columns


def series_rows(series: pa.Table) -> Iterator[tuple[str, str, DataType]]:
    """Yield device, measurement and type of each series."""
    devices, measurements, names = (series[name].to_pylist() for name in ("device", "measurement", "type"))
    return zip(devices, measurements, (TREE_TYPES[name] for name in names), strict=True)


def missing_series(series: pa.Table, present: Mapping[str, Device]) -> dict[str, list[NewSeries]]:
    """Return the series that do not exist, by device."""
    existing = existing_columns(present.values())
    missing: dict[str, list[NewSeries]] = {}
    for device, measurement, type_ in series_rows(series):
        if (device, measurement) not in existing:
            missing.setdefault(device, []).append(NewSeries(measurement, type_))
    return missing


def planned_columns(table: Table, missing: Mapping[str, Sequence[NewSeries]]) -> Allocation:
    """Return the column that each new measurement and type is likely to get."""
    columns: dict[tuple[str, DataType], Column] = {}
    taken = {column.name.lower() for column in table.columns} | {table.series_key}
    for new in (new for group in missing.values() for new in group):
        key = (new.measurement, new.type)
        if key in columns:
            continue
        columns[key] = find_column(table, *key) or Column(
            next(name for name in candidates(new.measurement) if name.lower() not in taken), new.type, comment=new.measurement
        )
        taken.add(columns[key].name.lower())
    return columns


def series_columns(table: Table, series: pa.Table, present: Mapping[str, Device], columns: Allocation) -> SeriesColumns:
    """Return the position of the column of each series."""
    positions = {column.name: position for position, column in enumerate(table.columns)}
    existing = existing_columns(present.values())
    columns_of = [
        positions[existing.get((device, measurement)) or columns[measurement, type_].name]
        for device, measurement, type_ in series_rows(series)
    ]
    return SeriesColumns(table, series.select(["device", "measurement"]).append_column("column", pa.array(columns_of, pa.int32())))
