"""Rows of series of trees, read with Arrow: by device, or aligned by time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import Values, refuse
from headrace.compute.columnar.expressions import evaluate
from headrace.compute.nodes import TIME, Node
from headrace.compute.plan import Plan
from headrace.compute.plan_sources import Scan, SeriesRows
from headrace.compute.window_plans import RangeWindow
from headrace.model.time import Precision
from headrace.storage.types import arrow_type

Array = np.ndarray[Any, Any]
MAX_VALUES: Final = 50_000_000
"""Values that are in memory at most, of rows that are not aggregated; about half a gigabyte."""


class RowReader(Protocol):
    """Reads scans. `first` and `last` are ticks, inclusive, None for no limit; more rows than asked for may be returned."""

    def count(self, scan: Scan, devices: tuple[str, ...], first: int | None, last: int | None) -> int:
        """Return the greatest number of rows that `batches` may return, without reading any."""

    def batches(
        self, scan: Scan, devices: tuple[str, ...], first: int | None, last: int | None
    ) -> Iterator[pa.RecordBatch | pa.Table]:
        """Return the columns of the scan as stored, the series key dictionary-encoded."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of some devices: the number of each row's device, and columns by name."""

    devices: Array
    columns: Mapping[str, Values]

    def filter(self, keep: Array) -> Rows:
        """Return the rows for which a mask is true."""
        count = int(np.count_nonzero(keep))
        if count == len(keep):
            return self
        first = int(keep.argmax())
        if keep[first : first + count].all():
            return self.slice(first, count)
        mask = pa.array(keep)
        return self._select(self.devices[keep], lambda values: values.filter(mask))

    def slice(self, first: int, count: int) -> Rows:
        """Return consecutive rows, without copying them."""
        return self._select(self.devices[first : first + count], lambda values: values.slice(first, count))

    def take(self, positions: Array) -> Rows:
        """Return the rows at some positions."""
        chosen = pa.array(positions)
        return self._select(self.devices[positions], lambda values: values.take(chosen))

    def _select(self, devices: Array, select: Callable[[Values], Values]) -> Rows:
        return Rows(devices, {name: one if isinstance(one, pa.Scalar) else select(one) for name, one in self.columns.items()})


def mask_of(values: Values, length: int) -> Array:
    """Return a condition as a mask; NULL is false."""
    if isinstance(values, pa.Scalar):
        return np.full(length, values.is_valid and values.as_py())
    filled = pc.fill_null(values, False)
    mask: Array = (filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled).to_numpy(zero_copy_only=False)
    return mask


def column_types(plan: Plan, source: SeriesRows, number: int) -> dict[str, pa.DataType]:
    """Return the types of the stored columns of one scan, under the names of the table."""
    scan = source.scans[number]
    declared = {column.name: arrow_type(column.type, plan.precision) for column in scan.table.columns}
    return {name: declared[name] for name in scan.columns if name != scan.table.series_key}


def source_types(source: SeriesRows, precision: Precision) -> dict[str, pa.DataType]:
    types: dict[str, pa.DataType] = {}
    for scan, columns, parts in zip(source.scans, source.columns, source.stored, strict=True):
        declared = {column.name: arrow_type(column.type, precision) for column in scan.table.columns}
        types[TIME] = declared[scan.table.timestamp.name]
        types |= {name: declared[part.column] for (_, name), part in zip(columns, parts, strict=True) if part is not None}
    return types


@dataclass(slots=True)
class SeriesReader:
    """Reads the rows of a source, batch by batch. `max_kept` limits further how many values may be in memory at a time."""

    source: SeriesRows
    reader: RowReader
    first: int | None
    last: int | None
    max_kept: int | None = None
    names: pa.Array = field(init=False)

    def __post_init__(self) -> None:
        self.names = pa.array(self.source.devices, pa.string())

    @property
    def max_values(self) -> int:
        """Values that are in memory at most, of rows that are not aggregated."""
        return MAX_VALUES if self.max_kept is None else min(MAX_VALUES, self.max_kept)

    def count(self) -> int:
        """Return the greatest number of rows that may be read."""
        return sum(self.reader.count(scan, self.source.devices, self.first, self.last) for scan in self.source.scans)

    def stored(self, number: int) -> Iterator[Rows]:
        """Yield the rows of one scan, columns under their stored names and `time`."""
        scan = self.source.scans[number]
        for batch in self.reader.batches(scan, self.source.devices, self.first, self.last):
            devices = self._numbers(batch.column(scan.table.series_key))
            columns = {name: batch.column(name) for name in batch.schema.names if name != scan.table.series_key}
            columns[TIME] = columns.pop(scan.table.timestamp.name)
            yield Rows(devices, columns).filter(devices >= 0)

    def named(self, types: Mapping[str, pa.DataType]) -> Iterator[Rows]:
        """Yield the rows of all scans, columns under the names of the source, without rows that have no value."""
        for number, parts in enumerate(self.source.stored):
            for rows in self.stored(number):
                columns: dict[str, Values] = {TIME: rows.columns[TIME]}
                for (_, name), part in zip(self.source.columns[number], parts, strict=True):
                    columns[name] = pa.scalar(None, types[name]) if part is None else rows.columns[part.column]
                named = Rows(rows.devices, columns)
                yield named.filter(has_value(named))

    def _numbers(self, keys: Any) -> Array:
        """Return the positions of devices among those of the source; -1 for others."""
        column = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        positions = pc.fill_null(pc.index_in(encoded.dictionary.cast(pa.string()), self.names), -1)
        numbers: Array = positions.to_numpy(zero_copy_only=False)[encoded.indices.to_numpy(zero_copy_only=False)]
        return numbers


def has_value(rows: Rows) -> Array:
    """Return a mask of the rows with at least one value."""
    mask = np.zeros(len(rows.devices), np.bool_)
    for name, values in rows.columns.items():
        if name == TIME or isinstance(values, pa.Scalar):
            continue
        if values.null_count == 0:
            return np.ones(len(rows.devices), np.bool_)
        mask |= values.is_valid().to_numpy(zero_copy_only=False)
    return mask


def aligned_rows(reader: SeriesReader, types: Mapping[str, pa.DataType], where: Node | None) -> Rows:
    """Return one row for each instant, in order, with a column for each series. `where` is applied before rows are aligned."""
    source = reader.source
    parts = [
        list(bounded((apply_filter(rows, where) for rows in reader.stored(number)), reader.max_values))
        for number in range(len(source.scans))
    ]
    ticks = [to_integers(rows.columns[TIME]) for batches in parts for rows in batches]
    instants, positions = np.unique(np.concatenate([np.empty(0, np.int64), *ticks]), return_inverse=True)
    width = len(source.columns[0])
    refuse(len(instants) * width > reader.max_values, "too many values to align")
    columns: dict[str, Values] = {TIME: pa.array(instants).cast(types[TIME])}
    offset = 0
    for number, batches in enumerate(parts):
        count = sum(len(rows.devices) for rows in batches)
        columns |= scatter(source, number, batches, positions[offset : offset + count], len(instants), types)
        offset += count
    aligned = Rows(np.zeros(len(instants), np.int64), columns)
    return aligned.filter(has_value(aligned))


def scatter(
    source: SeriesRows, number: int, batches: list[Rows], positions: Array, length: int, types: Mapping[str, pa.DataType]
) -> dict[str, Values]:
    """Return the series of one scan as columns of aligned rows, given the row of each stored row."""
    devices = np.concatenate([np.empty(0, np.int64), *(rows.devices for rows in batches)])
    order = np.argsort(devices, kind="stable")
    starts = np.searchsorted(devices[order], np.arange(len(source.devices) + 1))
    ranks = {path: rank for rank, path in enumerate(source.devices)}
    stored: dict[str, pa.ChunkedArray] = {}
    columns: dict[str, Values] = {}
    for (_, name), part in zip(source.columns[number], source.stored[number], strict=True):
        if part is None:
            continue
        if part.column not in stored:
            stored[part.column] = concatenate([rows.columns[part.column] for rows in batches], types[name])
        rank = ranks[part.device]
        own = order[starts[rank] : starts[rank + 1]]
        indices = np.full(length, -1, np.int64)
        indices[positions[own]] = own
        columns[name] = stored[part.column].take(pa.array(indices, mask=indices < 0))
    return columns


def concat_rows(parts: Sequence[Rows]) -> Rows:
    """Return several batches of rows as one."""
    if len(parts) == 1:
        return parts[0]
    names = parts[0].columns.keys()
    columns = {name: concatenate([full(part, name) for part in parts], parts[0].columns[name].type) for name in names}
    return Rows(np.concatenate([part.devices for part in parts]), columns)


def full(rows: Rows, name: str) -> pa.Array:
    """Return a column as an array, also if it has the same value in all rows."""
    values = rows.columns[name]
    return pa.repeat(values, len(rows.devices)) if isinstance(values, pa.Scalar) else values


def concatenate(arrays: list[Values], type_: pa.DataType) -> pa.Array:
    """Return several arrays as one."""
    flat = [chunk for array in arrays for chunk in (array.chunks if isinstance(array, pa.ChunkedArray) else [array])]
    return pa.concat_arrays(flat) if flat else pa.array([], type_)


def bounded(batches: Iterable[Rows], max_values: int) -> Iterator[Rows]:
    """Yield rows as long as they have no more values; raise `UnsupportedError` if they do."""
    values = 0
    for rows in batches:
        values += len(rows.devices) * len(rows.columns)
        refuse(values > max_values, "too many values")
        yield rows


def apply_filter(rows: Rows, where: Node | None) -> Rows:
    return rows if where is None else rows.filter(mask_of(evaluate(where, rows.columns), len(rows.devices)))


def to_integers(times: Values) -> Array:
    """Return stored timestamps as integers of their unit."""
    integers: Array = pc.cast(times, pa.int64()).to_numpy(zero_copy_only=False)
    return integers


def time_limits(plan: Plan) -> tuple[int | None, int | None]:
    """Return the first and last instant that the plan can use, in ticks."""
    first, last = plan.range
    if isinstance(plan.window, RangeWindow):
        start, end = plan.window.first.at(plan.present), plan.window.end.at(plan.present)
        first = start if first is None else max(first, start)
        last = end if last is None else min(last, end)
    return first, last
