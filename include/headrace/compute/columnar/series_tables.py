"""Rows of series of trees as Arrow tables, aligned by time or kept by device, as `compute.evaluation.series_rows` has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import refuse
from headrace.compute.columnar.columns import Arrays, evaluate_all, take, to_arrays
from headrace.compute.columnar.device_groups import DEVICE
from headrace.compute.columnar.frames import KeyValues, gathered, passing, to_table
from headrace.compute.columnar.over import array_of
from headrace.compute.columnar.runs import Int64s, stable_order, to_numpy
from headrace.compute.evaluation.series_rows import COLUMNS, GROUP, RANK
from headrace.compute.nodes import TIME, Column, columns_of
from headrace.compute.plan import WEND, WSTART, Plan
from headrace.compute.plan_sources import SLOT, Regrouping, RowGroup, Scan, SeriesRows
from headrace.compute.windows.ranges import RangeGrid
from headrace.compute.windows.segments import key_columns
from headrace.model.windows import copies
from headrace.storage.types import row_types

INSTANT: Final = "\x00time"
SERIES: Final = "\x00device"
MAX_COPIES: Final = 5_000_000
MAX_CELLS: Final = 50_000_000
"""Cells of a table at most, of rows and columns: a row that is aligned by time has a cell for each series."""
Reader = Callable[[Scan], Iterable[pa.Table]]


def series_batches(source: SeriesRows, read: Reader) -> Iterator[pa.Table]:
    """Yield `time`, `device` unless rows are aligned, and the columns of the source; rows without any value are left out.

    There is at least one batch. Devices are dictionary-encoded.
    """
    sides = [Side(source, number) for number in range(len(source.scans))]
    names = [name for _, name in source.columns[0]]
    schema = merged_schema([side.select(empty(side.scan)).schema for side in sides])
    if source.aligned and len(source.devices) > 1:
        yield with_values(aligned([SortedSide.read(side, read) for side in sides], schema), names)
        return
    for side in sides:
        for batch in read(side.scan):
            rows = side.select(batch)
            pairs = zip(rows.columns, schema.types, strict=True)
            typed = pa.table([values if values.type == type_ else values.cast(type_) for values, type_ in pairs], schema=schema)
            yield with_values(typed.drop_columns([DEVICE]) if source.aligned else typed, names)


def empty(scan: Scan, columns: Sequence[str] | None = None) -> pa.Table:
    """Return no rows of some columns of a scan, all by default, in stored types."""
    types = row_types(scan.table, scan.database.precision)
    return pa.schema([(name, types[name]) for name in columns or scan.columns]).empty_table()


def merged_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the types of columns, of which some may be NULL alone."""
    fields = []
    for parts in zip(*schemas, strict=True):
        types = list(dict.fromkeys(part.type for part in parts if not pa.types.is_null(part.type)))
        refuse(len(types) > 1, "a column of several types")
        fields.append(pa.field(parts[0].name, types[0] if types else pa.null()))
    return pa.schema(fields)


def with_values(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Keep the rows with a value in one of some columns."""
    if not names or any(rows[name].null_count == 0 for name in names):
        return rows
    return rows.filter(reduce(pc.or_, (rows[name].is_valid() for name in names)))


@dataclass(frozen=True)
class Side:
    """The rows of one scan of a source, and the columns that they fill."""

    source: SeriesRows
    number: int
    evaluated: KeyValues = field(default_factory=dict, compare=False)

    @property
    def scan(self) -> Scan:
        """The scan."""
        return self.source.scans[self.number]

    def prepare(self, rows: pa.Table) -> tuple[Arrays, int]:
        """Return the columns of the rows of the source's devices, with their instants and devices, and how many they are."""
        arrays, size = to_arrays(rows), rows.num_rows
        if self.scan.condition is not None:
            arrays, size = passing(arrays, size, self.scan.condition, self.evaluated)
        time, key = self.scan.table.timestamp.name, self.scan.table.series_key
        if self.source.projections and (projection := self.source.projections[self.number]):
            arrays, time, key = evaluate_all({name: node for node, name in projection}, arrays, size), TIME, DEVICE
        if self.source.slots > 1:
            arrays, size = with_slots(arrays, size, self.source.slots)
        if self.source.groups:
            arrays, size, key = *with_groups(arrays, key, self.source.groups), GROUP
        return arrays | {INSTANT: arrays[time], SERIES: encoded(arrays[key])}, size

    def select(self, rows: pa.Table) -> pa.Table:
        """Return `time`, `device` and the columns of the source."""
        arrays, size = self.prepare(rows)
        nodes = {TIME: Column(INSTANT), DEVICE: Column(SERIES), **{name: node for node, name in self.source.columns[self.number]}}
        return pa.table(evaluate_all(nodes, arrays, size))


def encoded(values: pa.Array) -> pa.DictionaryArray:
    return values if isinstance(values, pa.DictionaryArray) else values.dictionary_encode()


@dataclass(frozen=True)
class SortedSide:
    """The rows of a side in the order of their devices, with the first row and the number of rows of each device."""

    side: Side
    arrays: Arrays
    ranges: Mapping[str, tuple[int, int]]

    @classmethod
    def read(cls, side: Side, read: Reader) -> SortedSide:
        """Read all rows of a side."""
        arrays = to_arrays(gathered(pa.table(side.prepare(batch)[0]) for batch in read(side.scan)))
        devices = to_numpy(arrays[SERIES].indices).astype(np.int64)
        order = stable_order(devices)
        names = arrays[SERIES].dictionary.to_pylist()
        starts = np.searchsorted(devices[order], np.arange(len(names) + 1))
        ranges = {name: (int(start), int(count)) for name, start, count in zip(names, starts, np.diff(starts), strict=False)}
        return cls(side, take(arrays, order), ranges)

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.arrays[INSTANT])

    def values(self, number: int) -> tuple[pa.Array, Int64s]:
        """Return the values of a column of the source, and the rows that have them."""
        node, _ = self.side.source.columns[self.side.number][number]
        table = self.side.scan.table.id
        owners = {origin.device for origin in self.side.source.origins[number] if origin.table == table}
        # Only the rows of its device have values of a series.
        first, count = (0, self.size) if len(owners) != 1 or "" in owners else self.ranges.get(owners.pop(), (0, 0))
        values = array_of(node, {name: self.arrays[name].slice(first, count) for name in columns_of(node)}, count)
        return values.drop_null(), first + np.flatnonzero(to_numpy(values.is_valid()))


def aligned(sides: Sequence[SortedSide], schema: pa.Schema) -> pa.Table:
    """Return one row for each instant, with the value that a row has then in each column."""
    ticks = [to_numpy(side.arrays[INSTANT].cast(pa.int64())) for side in sides]
    instants, places = np.unique(np.concatenate(ticks), return_inverse=True)
    names = [name for name in schema.names if name not in (TIME, DEVICE)]
    refuse(len(instants) * (len(names) + 1) > MAX_CELLS, "too many cells")
    rows_of = np.split(places, np.cumsum([len(own) for own in ticks])[:-1])
    columns = {TIME: pa.array(instants).cast(schema.field(TIME).type)}
    for number, name in enumerate(names):
        parts = [(*side.values(number), own) for side, own in zip(sides, rows_of, strict=True)]
        stored = pa.concat_arrays([pa.array([], schema.field(name).type), *(values for values, *_ in parts if len(values))])
        index = np.full(len(instants), -1, np.int64)
        rows = np.concatenate([own[chosen] for _, chosen, own in parts])
        index[rows[::-1]] = np.arange(len(rows))[::-1]
        columns[name] = stored.take(pa.array(index, mask=index < 0))
    return pa.table(columns)


def with_slots(arrays: Arrays, size: int, slots: int) -> tuple[Arrays, int]:
    """Return copies of each row, numbered."""
    refuse(size * slots > MAX_COPIES or size * slots * len(arrays) > MAX_CELLS, "too many copies of rows")
    repeated = take(arrays, np.repeat(np.arange(size), slots))
    return repeated | {SLOT: pa.array(np.tile(np.arange(slots, dtype=np.int32), size))}, size * slots


def with_groups(arrays: Arrays, key: str, groups: Sequence[RowGroup]) -> tuple[Arrays, int]:
    """Return a copy of each row for each group of its device."""
    of_device: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        of_device.setdefault(group.device, []).append(number)
    own = [of_device.get(device, []) for device in encoded(arrays[key]).dictionary.to_pylist()]
    devices = to_numpy(encoded(arrays[key]).indices).astype(np.int64)
    counts = np.array([len(numbers) for numbers in own], np.int64)[devices] if own else np.empty(0, np.int64)
    total = int(counts.sum())
    refuse(total > MAX_COPIES or total * len(arrays) > MAX_CELLS, "too many copies of rows")
    row, within = copies(counts)
    first = np.concatenate(([0], np.cumsum([len(numbers) for numbers in own])))[:-1].astype(np.int64)
    flat = np.array([number for numbers in own for number in numbers], np.int64)
    chosen = pa.array(flat[first[devices[row]] + within] if len(row) else np.empty(0, np.int64))
    listing = {
        GROUP: pa.array([group.group for group in groups], pa.string()),
        COLUMNS: pa.array([list(group.columns) for group in groups], pa.list_(pa.string())),
        RANK: pa.array([group.rank for group in groups], pa.int64()),
    }
    return take(arrays, row) | {name: values.take(chosen) for name, values in listing.items()}, len(row)


def regrouped(regrouping: Regrouping, rows: pa.Table) -> pa.Table:
    """Filter and copy rows, and return the columns of the copies; copies without any value are left out."""
    arrays, size = to_arrays(rows), rows.num_rows
    if regrouping.filter is not None:
        arrays, size = passing(arrays, size, regrouping.filter)
    arrays, size = with_slots(arrays, size, regrouping.slots)
    nodes = {TIME: regrouping.time, **{name: node for node, name in regrouping.columns}}
    return with_values(to_table(evaluate_all(nodes, arrays, size)), [name for _, name in regrouping.columns])


def all_windows(
    plan: Plan, source: SeriesRows, windows: RangeGrid | None, groups: pa.Table, no_rows: Mapping[str, Any]
) -> pa.Table:
    """Return the windows of all devices in the order of devices and time; those without rows have the partials of none."""
    keys, starts = key_columns(plan), np.zeros(1, np.int64) if windows is None else windows.starts
    devices, arrays = pa.array(source.devices if keys else [""], pa.string()), to_arrays(groups)
    refuse(len(devices) * len(starts) * len(plan.partials) > MAX_CELLS, "too many windows")
    numbers = np.zeros(groups.num_rows, np.int64) if windows is None else np.searchsorted(starts, to_numpy(arrays[WSTART]))
    if keys:
        ranks = pc.index_in(arrays[keys[0]], devices)
        refuse(bool(ranks.null_count), "groups that are no devices")
        numbers = numbers + to_numpy(ranks).astype(np.int64) * len(starts)
    index = np.full(len(devices) * len(starts), groups.num_rows, np.int64)
    index[numbers] = np.arange(groups.num_rows)
    absent = pa.table([pa.array([no_rows.get(field.name)], field.type) for field in groups.schema], schema=groups.schema)
    columns = dict(zip(groups.column_names, pa.concat_tables([groups, absent]).take(pa.array(index)).columns, strict=True))
    if keys:
        columns[keys[0]] = devices.take(pa.array(np.repeat(np.arange(len(devices)), len(starts))))
    if windows is not None:
        columns |= {name: pa.array(np.tile(ends, len(devices))) for name, ends in ((WSTART, starts), (WEND, windows.ends))}
    return pa.table(columns, schema=groups.schema)
