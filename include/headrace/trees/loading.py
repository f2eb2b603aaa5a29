"""Loading files into trees: the columns that their values go to, and the writing of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from headrace.context import Context
from headrace.model.tables import Database
from headrace.model.tree_types import TREE_TYPES
from headrace.model.trees import TREE_TABLE, Device, DeviceSeries, NewSeries
from headrace.model.types import DataType
from headrace.storage.delta.commits import WriteMetrics
from headrace.storage.loading.loader import LoadedRows, LoadMetrics, LoadOptions
from headrace.storage.loading.tree_loader import ColumnsChangedError
from headrace.storage.loading.tree_rows import SeriesColumns
from headrace.trees.columns import plan_columns
from headrace.trees.points import StoredPoints, write_points


def load_tree(
    context: Context,
    database: Database,
    files: Sequence[Path],
    options: LoadOptions,
    *,
    aligned: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> LoadMetrics:
    """Load files into a tree, all or none of them; see `TreeLoader.load`.

    Raises:
        DataError: A value is invalid; nothing is written.
    """
    catalog = context.catalog
    table, database = catalog.tables.get(database.name, TREE_TABLE), catalog.databases.get(database.name)
    series = LoadedTree(context, database, aligned)
    return context.tables.tree_loader(context.spark, table, database).load(files, series, progress, options)


@dataclass(frozen=True, slots=True)
class LoadedTree:
    """The tree that files are loaded into; see `SeriesStore`. Devices that are created are aligned if `aligned`."""

    context: Context
    database: Database
    aligned: bool

    def plan(self, series: pa.Table) -> SeriesColumns:
        """Return the columns that series have or would get."""
        catalog, name = self.context.catalog, self.database.name
        typed = self.with_types(series)
        existing = existing_columns(catalog.trees.find(name, {path for path, _ in typed}).values())
        table = catalog.tables.get(name, TREE_TABLE)
        columns = plan_columns(table, [new for path, new in typed if (path, new.measurement) not in existing])
        table = replace(table, columns=tuple(dict.fromkeys((*table.columns, *columns.values()))))
        positions = {column.name: position for position, column in enumerate(table.columns)}
        names = [existing.get((path, new.measurement)) or columns[new.measurement, new.type].name for path, new in typed]
        column = pa.array([positions[name] for name in names], pa.int32())
        return SeriesColumns(table, series.select(["device", "measurement"]).append_column("column", column))

    def write(self, series: pa.Table, planned: SeriesColumns, rows: LoadedRows) -> WriteMetrics:
        """Create the series that are missing and commit the rows; raise `ColumnsChangedError` if they need other columns."""
        by_device: dict[str, list[NewSeries]] = defaultdict(list)
        for path, new in self.with_types(series):
            by_device[path].append(new)
        wanted = [DeviceSeries(self.database, path, tuple(own), self.aligned) for path, own in by_device.items()]
        points = LoadedPoints(self.database.name, wanted, planned, rows)
        return write_points(self.context, [points])[self.database.name]

    def with_types(self, series: pa.Table) -> list[tuple[str, NewSeries]]:
        """Return series with the types that they get: below a device template, one for each measurement."""
        devices, measurements, names = (series[name].to_pylist() for name in ("device", "measurement", "type"))
        covering = self.context.catalog.templates.covering(dict.fromkeys(devices))
        templates = {path: template.name for path, (_, template) in covering.items()}
        types = {(template.name, one.measurement): one.type for _, template in covering.values() for one in template.series}

        def type_of(device: str, measurement: str, own: DataType) -> DataType:
            return types.setdefault((templates[device], measurement), own) if device in templates else own

        rows = zip(devices, measurements, (TREE_TYPES[name] for name in names), strict=True)
        return [(device, NewSeries(measurement, type_of(device, measurement, own))) for device, measurement, own in rows]


@dataclass(frozen=True, slots=True)
class LoadedPoints:
    """Points of files, converted for the columns that their series are to have; see `Points`."""

    database: str
    series: Sequence[DeviceSeries]
    planned: SeriesColumns
    rows: LoadedRows

    def stored(self, devices: Mapping[str, Device]) -> Mapping[str, StoredPoints]:
        """See `Points`."""
        columns = existing_columns(devices.values())
        if any(columns[series] != name for series, name in self.planned.names()):
            raise ColumnsChangedError
        return {self.database: StoredPoints(self.rows)}


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
