"""What a processor keeps of series, one row for each: in memory as NumPy arrays, and as Arrow tables when it is made durable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.model.types import DataType, TypeKind
from headrace.pipes.events import Measurement, encode
from headrace.pipes.plugins import Tables
from headrace.pipes.processors.grouping import Array, Integers

VALUE: Final = None
"""The type of a field that holds a value of the series."""
PARAMETERS: Final = "parameters"
FINGERPRINT: Final = "fingerprint"
MIN_CAPACITY: Final = 64


class ColumnState:
    """The state of the series of a column: a slot for each device, and arrays with a field of all slots.

    A field may have more than one value for each slot (its width): then the values of slot `i` begin at `i * width`.
    """

    def __init__(self, arrow: pa.DataType, fields: Mapping[str, Any], width: int = 1) -> None:
        """Create the state of no series."""
        self.arrow, self.width = arrow, width
        self._arrow = {name: arrow if dtype is VALUE else pa.from_numpy_dtype(dtype) for name, dtype in fields.items()}
        self._types = {name: storage_type(arrow) if dtype is VALUE else np.dtype(dtype) for name, dtype in fields.items()}
        self._slots: dict[str, int] = {}
        self._names = pa.array([], pa.string())
        self._fields = {name: unset(MIN_CAPACITY, dtype) for name, dtype in self._types.items()}

    def __len__(self) -> int:
        return len(self._slots)

    def find(self, devices: Sequence[str]) -> Integers:
        """Return the slots of devices; -1 for those that have none."""
        return np.fromiter(map(self._slots.get, devices, repeat(-1)), np.int64, len(devices))

    def ensure(self, devices: Sequence[str], slots: Integers) -> Integers:
        """Return the slots of devices, which differ from each other, after those without a slot (-1) got one.

        The fields of a new slot are zero, or NULL.
        """
        missing = np.flatnonzero(slots < 0)
        if not len(missing):
            return slots
        first = len(self._slots)
        slots = slots.copy()
        slots[missing] = np.arange(first, first + len(missing))
        new = devices if len(missing) == len(devices) else [devices[index] for index in missing.tolist()]
        self._slots.update(zip(new, range(first, first + len(missing)), strict=True))
        self._reserve(len(self._slots) * self.width)
        return slots

    def _reserve(self, size: int) -> None:
        for name, values in self._fields.items():
            if len(values) < size:
                larger = unset(max(size, 2 * len(values), MIN_CAPACITY), values.dtype)
                larger[: len(values)] = values
                self._fields[name] = larger

    def __getitem__(self, field: str) -> Array:
        """Return the array of a field, which has room for at least all slots."""
        return self._fields[field]

    def devices(self, slots: Integers) -> list[str]:
        """Return the devices of slots."""
        names = list(self._slots)
        return [names[slot] for slot in slots.tolist()]

    def values(self, field: str, slots: Integers) -> pa.Array:
        """Return a field of some slots as values of the series."""
        return as_arrow(self._fields[field][slots], self.arrow)

    def put(self, field: str, slots: Integers, values: pa.Array) -> None:
        """Set a field of some slots to values of the series."""
        self._fields[field][slots] = as_numpy(values)

    def to_table(self) -> pa.Table:
        """Return the state with a row for each value of each slot; `device` is there once for each of them."""
        size = len(self._slots) * self.width
        if len(self._names) < len(self._slots):
            self._names = pa.array(list(self._slots), pa.string())
        devices = pa.array(np.repeat(np.arange(len(self._slots)), self.width))
        columns = {"device": pa.DictionaryArray.from_arrays(devices, self._names)}
        for name, values in self._fields.items():
            columns[name] = as_arrow(values[:size].copy(), self._arrow[name])
        return pa.table(columns)

    def load(self, table: pa.Table) -> None:
        """Take the state from a table."""
        self._names = pa.array([], pa.string())
        self._slots = {device: slot for slot, device in enumerate(table.column("device").to_pylist()[:: self.width])}
        for name, dtype in self._types.items():
            self._fields[name] = as_numpy(table.column(name).combine_chunks()).astype(dtype)


class SeriesStates:
    """The states of all series of a processor, by what their columns hold. There is one row for each series (times the width)."""

    def __init__(self, fields: Mapping[str, Any], fingerprint: str, width: int = 1) -> None:
        """Create empty states.

        Args:
            fields: The NumPy type of each field, or `VALUE`.
            fingerprint: Identifies the parameters. A state that was kept under other ones is not restored.
            width: How many values each field has for each series.
        """
        self._fields, self._fingerprint, self._width = fields, fingerprint, width
        self._columns: dict[Measurement, ColumnState] = {}

    def column(self, measurement: Measurement, arrow: pa.DataType) -> ColumnState:
        """Return the state of the series of a column."""
        if measurement not in self._columns:
            self._columns[measurement] = ColumnState(arrow, self._fields, self._width)
        return self._columns[measurement]

    def __iter__(self) -> Iterator[tuple[Measurement, ColumnState]]:
        return iter(self._columns.items())

    def to_tables(self) -> dict[str, pa.Table]:
        """Return the states as tables: one for each type, and one with the fingerprint and a NULL of each type."""
        parts: dict[str, list[pa.Table]] = {}
        types: dict[str, pa.Array] = {}
        for measurement, state in self._columns.items():
            table = state.to_table()
            name = pa.DictionaryArray.from_arrays(np.zeros(len(table), np.int32), pa.array([measurement.name]))
            parts.setdefault(type_name(measurement.type), []).append(table.append_column("measurement", name))
            types[type_name(measurement.type)] = pa.nulls(1, state.arrow)
        tables = {name: pa.concat_tables(group).unify_dictionaries() for name, group in parts.items()}
        return {**tables, PARAMETERS: pa.table({FINGERPRINT: [self._fingerprint], **types})}

    def restore(self, tables: Tables) -> bool:
        """Continue from tables; return False, and keep nothing, if they belong to other parameters."""
        self._columns = {}
        if PARAMETERS not in tables or tables[PARAMETERS].column(FINGERPRINT).to_pylist() != [self._fingerprint]:
            return False
        types = tables[PARAMETERS].schema
        for name, table in tables.items():
            if name != PARAMETERS:
                self._load(type_of(name), table, types.field(name).type if name in types.names else pa.null())
        return True

    def _load(self, type_: DataType, table: pa.Table, arrow: pa.DataType) -> None:
        names = encode(table.column("measurement"))
        codes = names.indices.to_numpy(zero_copy_only=False)
        value = next((table.schema.field(field).type for field, dtype in self._fields.items() if dtype is VALUE), arrow)
        bounds = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1), len(codes)] if len(codes) else []
        for start, end in pairwise(bounds):
            measurement = Measurement(names[start].as_py(), type_)
            self.column(measurement, value).load(table.slice(start, end - start))


def type_name(type_: DataType) -> str:
    """Return the name of the table of a type."""
    return ":".join("" if part is None else str(part) for part in (type_.kind.value, type_.length, type_.scale))


def type_of(name: str) -> DataType:
    """Return the type of a table's name."""
    kind, length, scale = name.split(":")
    return DataType(TypeKind(kind), int(length) if length else None, int(scale) if scale else None)


def unset(size: int, dtype: np.dtype[Any]) -> Array:
    """Return an array of zeros, or of None if its values are no numbers."""
    return np.full(size, None, object) if dtype == np.dtype(object) else np.zeros(size, dtype)


def storage_type(arrow: pa.DataType) -> np.dtype[Any]:
    """Return the NumPy type in which values are kept."""
    is_number = pa.types.is_integer(arrow) or pa.types.is_floating(arrow)
    return np.dtype(arrow.to_pandas_dtype()) if is_number else np.dtype(object)


def as_numpy(values: pa.Array) -> Array:
    """Return values as they are kept: numbers as such, others as objects."""
    if storage_type(values.type) != np.dtype(object):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    if pa.types.is_boolean(values.type):
        return np.asarray(values.to_numpy(zero_copy_only=False), dtype=object)
    objects = np.empty(len(values), object)
    objects[:] = values.to_pylist()
    return objects


def as_arrow(values: Array, arrow: pa.DataType) -> pa.Array:
    """Return values that were kept."""
    return pa.array(values, arrow)
