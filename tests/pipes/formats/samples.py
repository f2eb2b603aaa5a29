"""Rows and messages for tests of formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.model.time import Precision
from headrace.model.types import BIGINT, BOOL, DOUBLE, VARCHAR, DataType, TypeKind
from headrace.pipes.events import DeviceRows, Measurement
from headrace.pipes.formats.messages import Decoded

TYPES = {
    pa.bool_(): BOOL,
    pa.int64(): BIGINT,
    pa.float64(): DOUBLE,
    pa.string(): VARCHAR,
    pa.binary(): DataType(TypeKind.VARBINARY),
    pa.date32(): DataType(TypeKind.DATE),
}
Point = tuple[str, int, str, Any]


def device_rows(
    times: Sequence[int], devices: Sequence[str], precision: Precision = Precision.MILLISECOND, **columns: Any
) -> DeviceRows:
    """Return rows with columns of lists or arrays, whose names are those of the measurements."""
    arrays = {name: pa.array(values) for name, values in columns.items()}
    rows = pa.table({"time": pa.array(times, pa.int64()), "device": pa.array(devices).dictionary_encode(), **arrays})
    return DeviceRows(rows, {name: Measurement(name, TYPES[array.type]) for name, array in arrays.items()}, precision, "root.sg")


def messages(*values: str | None, keys: Sequence[str | None] = ()) -> pa.Table:
    """Return messages with these values."""
    return pa.table(
        {
            "id": pa.array(range(len(values)), pa.int64()),
            "key": pa.array(keys or [None] * len(values), pa.string()),
            "value": pa.array(values, pa.string()),
        }
    )


def points(decoded: Decoded | Sequence[DeviceRows]) -> list[Point]:
    """Return all points in order: device, time, measurement and value."""
    parts = decoded.data if isinstance(decoded, Decoded) else decoded
    return [
        (row["device"], row["time"], data.columns[name].name, value)
        for data in parts
        for row in data.rows.to_pylist()
        for name, value in row.items()
        if name in data.columns and value is not None
    ]
