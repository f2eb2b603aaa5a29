"""Rows of series of trees as Arrow tables, aligned by time or kept by device, as `compute.evaluation.series_rows` has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.arrays import refuse
from headrace.compute.columnar.columns import Arrays, evaluate_all, take, to_arrays
from headrace.compute.columnar.frames import passing, to_table
from headrace.compute.columnar.over import SortedRows
from headrace.compute.columnar.runs import Int64s, Runs, marks, to_numpy
from headrace.compute.evaluation.series_rows import COLUMNS, GROUP, RANK
from headrace.compute.nodes import TIME, Column, Node, either
from headrace.compute.plan import WEND, WSTART, Plan
from headrace.compute.plan_sources import SLOT, Regrouping, RowGroup, Scan, SeriesRows
from headrace.compute.windows.segments import key_columns
from headrace.model.windows import copies

DEVICE: Final = "device"
MAX_COPIES: Final = 5_000_000
MAX_CELLS: Final = 100_000_000
"""Cells of a table at most, of rows and columns: a row that is aligned by time has a cell for each series."""


def series_table(source: SeriesRows, read: Callable[[Scan], pa.Table]) -> pa.Table:
    """Return `time`, `device` unless rows are aligned, and the columns of the source; rows without any value are left out."""
    projections = source.projections or ((),) * len(source.scans)
    sides = [side(source, *own, read) for own in zip(source.scans, source.columns, projections, strict=True)]
    schema = merged_schema([table.schema for table in sides])
    refuse(sum(table.num_rows for table in sides) * len(schema) > MAX_CELLS, "too many cells")
    rows = pa.concat_tables([table.cast(schema) for table in sides])
    names = [name for _, name in source.columns[0]]
    if source.aligned and len(source.devices) > 1:
        rows = aligned(rows, names)
    elif source.aligned:
        rows = rows.drop_columns([DEVICE])
    return with_values(rows, names)


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
    return filtered(rows, either(*(Column(name).is_not_null() for name in names))) if names else rows


def filtered(rows: pa.Table, condition: Node) -> pa.Table:
    return to_table(passing(to_arrays(rows), rows.num_rows, condition)[0])


def side(
    source: SeriesRows,
    scan: Scan,
    columns: Sequence[tuple[Node, str]],
    projection: Sequence[tuple[Node, str]],
    read: Callable[[Scan], pa.Table],
) -> pa.Table:
    rows = read(scan)
    arrays, size = to_arrays(rows), rows.num_rows
    if scan.condition is not None:
        arrays, size = passing(arrays, size, scan.condition)
    time, key = scan.table.timestamp.name, scan.table.series_key
    if projection:
        arrays, time, key = evaluate_all({name: node for node, name in projection}, arrays, size), TIME, DEVICE
    if source.slots > 1:
        arrays, size = with_slots(arrays, size, source.slots)
    if source.groups:
        arrays, size, key = *with_groups(arrays, key, source.groups), GROUP
    return to_table(evaluate_all({TIME: Column(time), DEVICE: Column(key), **{name: node for node, name in columns}}, arrays, size))


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
    encoded = arrays[key] if isinstance(arrays[key], pa.DictionaryArray) else arrays[key].dictionary_encode()
    own = [of_device.get(device, []) for device in encoded.dictionary.to_pylist()]
    devices = to_numpy(encoded.indices).astype(np.int64)
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


def aligned(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return one row for each instant, with the value that a row has then in each column."""
    ordered = rows.sort_by(TIME)
    ticks = to_numpy(ordered[TIME].combine_chunks().cast(pa.int64()))
    runs = Runs.of(marks([ticks], len(ticks)))
    sorted_rows = SortedRows(runs, "", ignores_nulls=False)
    columns = {TIME: ordered[TIME].take(pa.array(runs.starts))}
    for name in names:
        values = ordered[name].combine_chunks()
        is_valid = to_numpy(values.is_valid()).astype(np.bool_)
        columns[name] = sorted_rows.take(values, sorted_rows.earliest(is_valid)).take(pa.array(runs.starts))
    return pa.table(columns)


def regrouped(regrouping: Regrouping, rows: pa.Table) -> pa.Table:
    """Filter and copy rows, and return the columns of the copies; copies without any value are left out."""
    arrays, size = to_arrays(rows), rows.num_rows
    if regrouping.filter is not None:
        arrays, size = passing(arrays, size, regrouping.filter)
    arrays, size = with_slots(arrays, size, regrouping.slots)
    nodes = {TIME: regrouping.time, **{name: node for node, name in regrouping.columns}}
    return with_values(to_table(evaluate_all(nodes, arrays, size)), [name for _, name in regrouping.columns])


def empty_windows(plan: Plan, source: SeriesRows, ends: tuple[Int64s, Int64s] | None) -> tuple[Arrays, int]:
    """Return keys and ends of all windows of all devices, and their number; `ends` are those of the windows of one device."""
    keys = key_columns(plan)
    devices, count = len(source.devices) if keys else 1, 1 if ends is None else len(ends[0])
    refuse(devices * count > MAX_COPIES or devices * count * len(plan.partials) > MAX_CELLS, "too many windows")
    columns: Arrays = {}
    if keys:
        columns[keys[0]] = pa.array(source.devices, pa.string()).take(pa.array(np.repeat(np.arange(devices), count)))
    if ends is not None:
        columns |= {name: pa.array(np.tile(values, devices)) for name, values in zip((WSTART, WEND), ends, strict=True)}
    return columns, devices * count
