"""Trees of devices: what a database of the IoTDB language holds.

All devices of a database share one table (`TREE_TABLE`). Each pair of a measurement and a type has a column of its own there, so
that a measurement may have different types on different devices; the column's comment is the measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.model.paths import join_path, split_path
from headrace.model.tables import Column, Database, Table, TableKind
from headrace.model.types import TIMESTAMP, DataType

TREE_TABLE: Final = "devices"
TIME_COLUMN: Final = "time"


@dataclass(frozen=True, slots=True)
class Timeseries:
    """One series of a device: its measurement, a canonical node, and the column of the tree's table that holds its values."""

    measurement: str
    type: DataType
    column: str
    encoding: str = ""
    compression: str = ""


@dataclass(frozen=True, slots=True)
class NewSeries:
    """A series to be created, or one that devices of a template have. `encoding` and `compression` are empty for the defaults."""

    measurement: str
    type: DataType
    encoding: str = ""
    compression: str = ""

    def stored(self, column: str) -> Timeseries:
        """Return the series with the column that holds its values."""
        return Timeseries(self.measurement, self.type, column, self.encoding, self.compression)


@dataclass(frozen=True, slots=True)
class DeviceTemplate:
    """A list of series that devices of any database can share."""

    name: str
    series: tuple[NewSeries, ...] = ()
    aligned: bool = False

    def find(self, measurement: str) -> NewSeries | None:
        """Return the series of a measurement."""
        return next((series for series in self.series if series.measurement == measurement), None)


@dataclass(frozen=True, slots=True)
class SeriesLabels:
    """What users have attached to a series."""

    alias: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)


NO_LABELS: Final = SeriesLabels()


@dataclass(frozen=True, slots=True)
class DeviceSeries:
    """Series of a device that are to exist, with the labels of those that are new; `aligned` is what a new device is to be."""

    database: Database
    path: str
    series: tuple[NewSeries, ...]
    aligned: bool = False
    labels: Mapping[str, SeriesLabels] = field(default_factory=dict)

    def missing(self, present: Device | None) -> list[NewSeries]:
        """Return the series that a device lacks, under their names and as aliases; all of them if it does not exist."""
        if present is None:
            return list(self.series)
        names = {name for one in present.series for name in (one.measurement, present.labels_of(one.measurement).alias)}
        return [new for new in self.series if new.measurement not in names]

    def joined(self, other: DeviceSeries) -> DeviceSeries:
        """Return the series of both, which are of one device."""
        series = {new.measurement: new for new in (*other.series, *self.series)}
        return replace(self, series=tuple(series.values()))


@dataclass(frozen=True, slots=True)
class Device:
    """A device with its series in the order of their creation.

    Attributes:
        path: Dotted canonical nodes, with the database's.
        number: Place in the order of creation within the database.
        labels: By measurement, of the series that have some.
        template: The device template that defines its series, if one does. Such a device may have none.
    """

    database: str
    path: str
    series: tuple[Timeseries, ...]
    aligned: bool = False
    number: int = 0
    labels: Mapping[str, SeriesLabels] = field(default_factory=dict)
    template: str | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """The path node by node."""
        return split_path(self.path)

    def labels_of(self, measurement: str) -> SeriesLabels:
        """Return what is attached to a series."""
        return self.labels.get(measurement, NO_LABELS)

    def find(self, measurement: str) -> Timeseries | None:
        """Return the series of a measurement or alias."""
        for series in self.series:
            if measurement in (series.measurement, self.labels_of(series.measurement).alias):
                return series
        return None

    def series_path(self, measurement: str) -> str:
        """Return the full path of a series."""
        return join_path((self.path, measurement))


@dataclass(frozen=True, slots=True)
class SeriesRef:
    """One series of one device, with the alias by which a query names it, if it does."""

    device: Device
    series: Timeseries
    alias: str | None = None

    @property
    def name(self) -> str:
        """The measurement, or the alias."""
        return self.alias or self.series.measurement

    @property
    def path(self) -> str:
        """The full path, with the alias if the query does."""
        return self.device.series_path(self.name)

    @property
    def type(self) -> DataType:
        """The type of its values."""
        return self.series.type


def tree_table(database: str) -> Table:
    """Return the table of a database without devices."""
    return Table(database, TREE_TABLE, (Column(TIME_COLUMN, TIMESTAMP),), kind=TableKind.TREE)
