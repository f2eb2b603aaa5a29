"""The one way in which points are written to series: INSERT, loads, INTO and continuous queries all call `write_points`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from headrace.context import Context
from headrace.model.trees import TIME_COLUMN, TREE_TABLE, Device, DeviceSeries
from headrace.storage.delta.commits import WriteMetrics
from headrace.storage.delta.points import ReplacedPoints
from headrace.trees.series import resolve_series

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEVICE: Final = "device"
Commit = Callable[[], WriteMetrics]


@dataclass(frozen=True, slots=True)
class StoredPoints:
    """Points of one database, in the columns of its table, and points that give way to them.

    The rows are in memory, or executors write them (each of a key of its own), or they are what commits rows in staged files.
    """

    rows: Sequence[pa.Table] | DataFrame | Commit
    replaced: ReplacedPoints | None = None


class Points(Protocol):
    """Points to write."""

    @property
    def series(self) -> Sequence[DeviceSeries]:
        """The series that they are of; those that are missing are created."""

    def stored(self, devices: Mapping[str, Device]) -> Mapping[str, StoredPoints]:
        """Return them by database; `devices` has those of the series. Raises an error if a series cannot have its values."""


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """Rows of one device: `time` as stored, and a column for each measurement of `series`, in the type of its series."""

    series: tuple[DeviceSeries]
    rows: pa.Table

    def stored(self, devices: Mapping[str, Device]) -> Mapping[str, StoredPoints]:
        """See `Points`."""
        if not self.rows.num_rows:
            return {}
        device = devices[self.series[0].path]
        columns = {TIME_COLUMN: self.rows.column(0), DEVICE: pa.repeat(pa.scalar(device.path), self.rows.num_rows)}
        for measurement in self.rows.column_names[1:]:
            series = device.find(measurement)
            assert series is not None
            columns[series.column] = self.rows[measurement]
        return {device.database: StoredPoints([pa.table(columns)])}


def write_points(context: Context, points: Sequence[Points], check: Callable[[], None] = lambda: None) -> dict[str, WriteMetrics]:
    """Write points in one commit for each database; of points at the same instant the last are kept.

    Those with replaced points, and those that are not rows in memory, have to be alone. `check` is called before each commit;
    what it raises prevents the commit.

    Raises:
        Error: Of `Context.authorize_points`; nothing is created or written. Or a series cannot have its values.
    """
    series = [one for own in points for one in own.series]
    context.authorize_points(series)
    devices = resolve_series(context, series)
    parts: dict[str, list[StoredPoints]] = defaultdict(list)
    for own in points:
        for name, stored in own.stored(devices).items():
            parts[name].append(stored)
    # All values are valid here and nothing is written yet, so what may refuse a write is here, and what follows one below.
    return {name: commit(context, name, stored, check) for name, stored in parts.items()}


def commit(context: Context, name: str, parts: Sequence[StoredPoints], check: Callable[[], None]) -> WriteMetrics:
    """Write the points of one database."""
    table, database = context.catalog.tables.get(name, TREE_TABLE), context.catalog.databases.get(name)
    tables, max_rows, first = context.tables, context.settings.driver_rows, parts[0]
    if callable(first.rows):
        return first.rows()
    if not isinstance(first.rows, Sequence):
        return tables.frames.write_points(table, database, first.rows, first.replaced, max_rows=max_rows, check=check)
    nothing = tables.schema(table, database).empty_table().select([TIME_COLUMN, DEVICE])
    rows = [row for part in parts if isinstance(part.rows, Sequence) for row in part.rows]
    combined = pa.concat_tables([nothing, *rows], promote_options="default")
    return tables.writer.write_points(table, database, combined, first.replaced, max_rows=max_rows, check=check)
