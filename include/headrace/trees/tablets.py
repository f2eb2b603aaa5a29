"""The tablets that triggers get of a write: one for each device and table of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.code.triggers import TabletRows
from headrace.model.time import Precision
from headrace.model.tree_types import type_name
from headrace.model.trees import TIME_COLUMN, Device, Timeseries
from headrace.storage.delta.points import MapRows
from headrace.storage.values.scalars import stored_units_per_tick

DEVICE: Final = "device"


@dataclass(slots=True)
class DeviceTablets:
    """Rows of one device, in the columns of its table, and the tablets with some of its series. Triggers share them."""

    device: Device
    precision: Precision
    rows: pa.Table
    _columns: dict[str, pa.ChunkedArray | None] = field(default_factory=dict)
    _tablets: dict[tuple[str, ...], TabletRows] = field(default_factory=dict)

    def tablet(self, series: Iterable[Timeseries]) -> TabletRows | None:
        """Return the rows with those of these series that have values, as triggers get them; None if none has."""
        written = [one for one in series if self._ticks(one.column) is not None]
        if not written:
            return None
        key = tuple(one.column for one in written)
        if key not in self._tablets:
            self._tablets[key] = self._build(written)
        return self._tablets[key]

    def _build(self, series: Sequence[Timeseries]) -> TabletRows:
        columns = {TIME_COLUMN: self._ticks(TIME_COLUMN)} | {one.measurement: self._ticks(one.column) for one in series}
        types = tuple(type_name(one.type) for one in series)
        return TabletRows(self.device.path, self.device.database, self.precision.value, types, pa.table(columns))

    def _ticks(self, column: str) -> pa.ChunkedArray | None:
        """Return a column with its instants in ticks; None if it has no values."""
        if column not in self._columns:
            values = self.rows[column] if column in self.rows.column_names else None
            has_values = values is not None and values.null_count < len(values)
            self._columns[column] = as_ticks(values, self.precision) if has_values else None
        return self._columns[column]


@dataclass(slots=True)
class WrittenTablets:
    """The tablets of rows of one database.

    Attributes:
        devices: The devices of the rows.
        precision: That of the database.
        batches: Reads the rows.
        is_in_memory: Whether tablets may be kept, since the rows are in memory anyway.
        map_in_tasks: Applies a function to parts of the rows in Spark's tasks, if the rows are there.
    """

    devices: Mapping[str, Device]
    precision: Precision
    batches: Callable[[], Iterator[pa.Table]]
    is_in_memory: bool
    map_in_tasks: MapRows | None = None
    _kept: list[DeviceTablets] = field(default_factory=list)

    def __iter__(self) -> Iterator[DeviceTablets]:
        """Yield the tablets of each device and table."""
        if not self.is_in_memory:
            return self._read()
        if not self._kept:
            self._kept = list(self._read())
        return iter(self._kept)

    def _read(self) -> Iterator[DeviceTablets]:
        for table in self.batches():
            for path, rows in rows_by_device(table):
                yield DeviceTablets(self.devices[path], self.precision, rows)


def rows_by_device(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each device, in their order."""
    encoded = table[DEVICE].combine_chunks().dictionary_encode()
    paths = encoded.dictionary.to_pylist()
    if len(paths) < 2:
        yield from ((path, table) for path in paths)
        return
    numbers = encoded.indices.to_numpy()
    if not np.all(numbers[:-1] <= numbers[1:]):
        order = np.argsort(numbers, kind="stable")
        table, numbers = table.take(pa.array(order)), numbers[order]
    first, after = (np.searchsorted(numbers, np.arange(len(paths)), side) for side in ("left", "right"))
    for number, path in enumerate(paths):
        yield path, table.slice(first[number], after[number] - first[number])


def as_ticks(column: pa.ChunkedArray, precision: Precision) -> pa.ChunkedArray:
    """Return a column with its instants in ticks; values of other types stay."""
    if not pa.types.is_timestamp(column.type):
        return column
    stored, unit = column.cast(pa.int64()), stored_units_per_tick(precision)
    return stored if unit == 1 else pc.divide(stored, unit)
