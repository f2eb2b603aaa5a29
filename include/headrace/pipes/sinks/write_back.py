"""The sink `write-back-sink`: writes rows to the trees of this catalog, as INSERT does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.errors import DataError
from headrace.model.tables import Column, Database
from headrace.model.tree_types import type_name
from headrace.model.trees import TIME_COLUMN, Device, DeviceSeries, NewSeries, Timeseries
from headrace.model.types import TypeKind
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DEVICE, TIME, DeviceRows, Event, InsertEvent, Measurement
from headrace.pipes.plugins import Delivery, PipeContext, Sink
from headrace.pipes.plugins import no_checks as validate
from headrace.pipes.sinks.times import times_of_ticks
from headrace.storage.types import arrow_type
from headrace.storage.values.columns import InvalidValues
from headrace.storage.values.scalars import TimeContext
from headrace.storage.values.tree_columns import to_series_values
from headrace.trees.databases import databases_of, new_database
from headrace.trees.owners import as_owner
from headrace.trees.points import Points, StoredPoints, write_points

__all__ = ["create", "validate"]

Mask = npt.NDArray[np.bool_]


def create(_: PipeAttributes, pipe: PipeContext) -> Sink:
    """Create the sink, which writes with the rights of the pipe's owner."""
    return WriteBackSink(as_owner(pipe.context, pipe.owner))


class WriteBackSink(Sink):
    """Writes rows to trees. Databases, devices and series that are missing are created.

    Deleted points and statements are left out: what a source of this catalog reports has happened here already.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def transfer(self, delivery: Delivery) -> None:
        """Write the rows of all events, in one commit for each database."""
        for points in event_points(self._context, delivery.events):
            write_points(self._context, points, drops_expired=True)


def event_points(context: Context, events: Sequence[Event]) -> Iterator[list[Points]]:
    """Yield points to write together: those of events that follow each other, of which the last of an instant counts."""
    for is_insert, group in groupby(events, lambda event: isinstance(event, InsertEvent)):
        if is_insert:
            yield [EventPoints.of(context, event.data) for event in group if isinstance(event, InsertEvent)]


@dataclass(frozen=True, slots=True)
class EventPoints:
    """Rows of an event, as points to write; see `Points`.

    Attributes:
        data: The rows.
        databases: The database of each device.
        series: The series that have values.
        zone: The time zone of texts that become times.
        now: The present, in epoch ms.
    """

    data: DeviceRows
    databases: Mapping[str, Database]
    series: Sequence[DeviceSeries]
    zone: str
    now: int

    @classmethod
    def of(cls, context: Context, data: DeviceRows) -> EventPoints:
        """Return the points of rows. Devices that lie in no database get one."""
        paths = data.devices.dictionary.to_pylist()
        names = databases_of(paths, context)
        databases = {
            path: context.catalog.databases.get(names[path]) if path in names else new_database(path, context) for path in paths
        }
        measured = measurements_by_device(data)
        series = [
            DeviceSeries(databases[path], path, tuple(NewSeries(own.name, own.type) for own in columns), path in data.aligned)
            for path, columns in measured.items()
        ]
        return cls(data, databases, series, context.settings.timezone, context.clock.now())

    def stored(self, devices: Mapping[str, Device]) -> Mapping[str, StoredPoints]:
        """See `Points`."""
        encoded = self.data.devices
        numbers, paths = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
        names = {self.databases[path].name: self.databases[path] for path in paths}
        stored = {}
        for name, database in names.items():
            own = np.array([self.databases[path].name == name for path in paths])
            stored[name] = StoredPoints([self._stored_rows(database, own[numbers], devices)])
        return stored

    def _stored_rows(self, database: Database, own: Mask, devices: Mapping[str, Device]) -> pa.Table:
        """Return the rows of a database, in the columns of its table."""
        data = self.data if own.all() else self.data.with_rows(self.data.rows.filter(pa.array(own)))
        encoded = data.devices
        paths = encoded.dictionary.to_pylist()
        times = times_of_ticks(data.rows[TIME], data.precision, database.precision, TIME_COLUMN)
        columns: dict[str, pa.Array | pa.ChunkedArray] = {TIME_COLUMN: times, DEVICE: encoded.cast(pa.string())}
        for name, measurement in data.columns.items():
            targets = [find_series(devices.get(path), measurement.name) for path in paths]
            for target, mask in masks_by_target(data.rows[name], encoded.indices.to_numpy(), targets):
                values = self._convert(data.rows[name], measurement, target, database)
                values = values if mask.all() else pc.if_else(pa.array(mask), values, pa.scalar(None, values.type))
                columns[target.column] = values if target.column not in columns else pc.coalesce(columns[target.column], values)
        return pa.table(columns)

    def _convert(
        self, values: pa.ChunkedArray, measurement: Measurement, target: Timeseries, database: Database
    ) -> pa.Array | pa.ChunkedArray:
        """Return values in the stored type of a series; raise `DataError` for one that it cannot have."""
        if target.type.kind is TypeKind.TIMESTAMP and pa.types.is_integer(values.type):
            return times_of_ticks(values, self.data.precision, database.precision, target.measurement)
        if measurement.type == target.type:
            return values.cast(arrow_type(target.type, database.precision))
        invalid = InvalidValues()
        context = TimeContext(self.now, self.zone, database.precision)
        stored = to_series_values(
            values.combine_chunks(), Column(target.column, target.type), lambda _: target.measurement, context, invalid
        )
        for one in invalid.first():
            raise DataError(
                f"{one.value} is not a valid value of {target.measurement}, which is {type_name(target.type)}",
                hint="convert it with a processor, or write it to another series",
            )
        return stored


def find_series(device: Device | None, measurement: str) -> Timeseries | None:
    return None if device is None else device.find(measurement)


def measurements_by_device(data: DeviceRows) -> dict[str, list[Measurement]]:
    """Return the measurements of which each device has values."""
    encoded = data.devices
    numbers, paths = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
    measured: dict[str, list[Measurement]] = defaultdict(list)
    for name, measurement in data.columns.items():
        valid = pc.is_valid(data.rows[name]).to_numpy()
        for number in np.unique(numbers[valid]).tolist():
            measured[paths[number]].append(measurement)
    return measured


def masks_by_target(
    values: pa.ChunkedArray, numbers: npt.NDArray[np.int32], targets: Sequence[Timeseries | None]
) -> Iterator[tuple[Timeseries, Mask]]:
    """Yield the series' columns that values go to, and which of the rows do."""
    valid = pc.is_valid(values).to_numpy()
    by_column: dict[str, list[int]] = defaultdict(list)
    for number, target in enumerate(targets):
        if target is not None:
            by_column[target.column].append(number)
    for own in by_column.values():
        target = targets[own[0]]
        mask = valid if len(own) == len(targets) else valid & np.isin(numbers, own)
        if target is not None and mask.any():
            yield target, mask
