"""Events of pipes as plugins of users see them, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from headrace import pipe as api
from headrace.code.inputs import INPUT_TYPES
from headrace.errors import UserCodeError
from headrace.model.paths import join_path, parse_path, quote_node, unquote_node
from headrace.model.remembering import remembered
from headrace.model.time import Precision
from headrace.model.tree_types import TREE_TYPES
from headrace.model.types import DataType
from headrace.pipe.batches import DEVICE, TIME
from headrace.pipes.events import DeleteEvent, DeviceRows, Event, InsertEvent, Measurement, StatementEvent

MAX_CACHED_DEVICES: Final = 65_536


def to_plugin(events: Sequence[Event]) -> list[api.Event]:
    """Return events as plugins see them. Values of types that IoTDB does not have are in the next larger type, or texts."""
    return [_to_plugin(event) for event in events]


def _to_plugin(event: Event) -> api.Event:
    match event:
        case InsertEvent():
            return _batch(event.data)
        case DeleteEvent():
            return api.DeleteEvent(_batch(event.data))
        case StatementEvent():
            return api.SchemaEvent(event.sql, event.category)


def _batch(data: DeviceRows) -> api.TabletBatch:
    columns = {TIME: data.rows[TIME], DEVICE: data.rows[DEVICE].cast(pa.string())}
    schemas = {name: _schema(column) for name, column in data.columns.items()}
    columns |= {name: data.rows[name].cast(schema.type.arrow) for name, schema in schemas.items()}
    return api.TabletBatch(pa.table(columns), schemas, data.precision.value, data.database, data.aligned)


def _schema(measurement: Measurement) -> api.MeasurementSchema:
    return api.MeasurementSchema(measurement.name, INPUT_TYPES.get(measurement.type.kind, api.Type.TEXT))


def from_plugin(events: Iterable[api.Event], plugin: str) -> list[Event]:
    """Return the events of a plugin, which messages call `plugin`.

    Raises:
        UserCodeError: It names a device that is no path.
    """
    return [_from_plugin(event, plugin) for event in events]


def _from_plugin(event: api.Event, plugin: str) -> Event:
    match event:
        case api.TabletBatch():
            return InsertEvent(_rows(event, plugin))
        case api.DeleteEvent():
            return DeleteEvent(_rows(event.points, plugin))
        case api.SchemaEvent():
            return StatementEvent(event.sql, event.category)
    raise TypeError(f"{type(event).__name__} is not an event of a message")


def _rows(batch: api.TabletBatch, plugin: str) -> DeviceRows:
    columns = {name: Measurement(_canonical_node(one.measurement_id), _type(one.type)) for name, one in batch.schemas.items()}
    devices = batch.table[DEVICE].combine_chunks().dictionary_encode()
    if isinstance(devices, pa.ChunkedArray):
        devices = devices.combine_chunks()
    paths = [_device(device, plugin) for device in devices.dictionary.to_pylist()]
    encoded = pa.DictionaryArray.from_arrays(devices.indices, pa.array(paths, pa.string()))
    rows = batch.table.select([TIME, *columns]).add_column(1, DEVICE, encoded)
    aligned = frozenset(_device(device, plugin) for device in batch.aligned)
    return DeviceRows(rows, columns, Precision(batch.timestamp_precision), batch.database, aligned)


def _type(type_: api.Type) -> DataType:
    return TREE_TYPES[type_.value]


def _canonical_node(measurement: str) -> str:
    return quote_node(unquote_node(measurement))


def _device(path: str, plugin: str) -> str:
    canonical = _canonical_path(path)
    if canonical is None:
        raise UserCodeError(f"{plugin} has rows of {path}, which is not the path of a device", hint="write root.database.device")
    return canonical


@remembered(MAX_CACHED_DEVICES)
def _canonical_path(path: str) -> str | None:
    nodes = parse_path(path) if path else None
    return join_path(nodes) if nodes is not None and len(nodes) > 1 else None
