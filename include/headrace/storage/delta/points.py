"""Replacing points of a tree: what a computation wrote to its range before gives way to what it writes now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from headrace.model.tables import Table
from headrace.storage.delta.data_files import read_data_files
from headrace.storage.delta.handles import Handle
from headrace.storage.delta.keys import keep_last_values_per_key, semi_join
from headrace.storage.delta.pruning import Bounds, key_filter, prune_files

Instants = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ReplacedPoints:
    """Points of a tree that make room for new ones.

    Attributes:
        columns: Devices, and their columns that lose their values.
        bounds: The range of times, as stored.
        selects: Returns which of some instants, as stored, are meant; None for all within the bounds.
    """

    columns: tuple[tuple[str, tuple[str, ...]], ...]
    bounds: Bounds
    selects: Callable[[Instants], npt.NDArray[np.bool_]] | None = None


def devices_by_columns(columns: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[tuple[str, ...], list[str]]]:
    """Group devices that lose the same columns."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for device, names in columns:
        if names:
            groups.setdefault(tuple(sorted(set(names))), []).append(device)
    return list(groups.items())


def replacement(
    handle: Handle, delta: DeltaTable, table: Table, schema: pa.Schema, rows: pa.Table, replaced: ReplacedPoints
) -> tuple[pa.Table, pa.Table]:
    """Return the rows to write as a whole, and the keys of those that are left without any value.

    Args:
        handle: The table's handle.
        delta: The version that is read.
        table: The tree's table.
        schema: Its stored columns.
        rows: The new points, with those columns.
        replaced: The points that give way.
    """
    key = list(table.primary_key)
    stored = stored_rows(handle, delta, table, schema, replaced)
    cleared, changed = clear_values(stored, table, replaced)
    touched = semi_join(cleared.filter(pc.invert(changed)), rows.select(key), key)
    combined = keep_last_values_per_key(pa.concat_tables([cleared.filter(changed), touched, rows]), key)
    empty = pc.equal(count_values(combined, [name for name in schema.names if name not in key]), 0)
    return combined.filter(pc.invert(empty)), combined.filter(empty).select(key)


def stored_rows(handle: Handle, delta: DeltaTable, table: Table, schema: pa.Schema, replaced: ReplacedPoints) -> pa.Table:
    """Return the rows of the devices within the bounds."""
    devices = [device for device, _ in replaced.columns]
    files = prune_files(handle.files(delta), table, schema, replaced.bounds, devices)
    if not devices or files.num_rows == 0:
        return schema.empty_table()
    pushed = key_filter(table, schema, replaced.bounds, devices)
    series = (table.series_key, devices)
    return read_data_files(handle.uri, files["path"].to_pylist(), schema, schema.names, pushed, series=series).cast(schema)


def clear_values(stored: pa.Table, table: Table, replaced: ReplacedPoints) -> tuple[pa.Table, pa.Array]:
    """Return the rows without the values that give way, and which of the rows have lost one."""
    times = stored[table.timestamp.name].cast(pa.int64()).to_numpy()
    selected = pa.array(np.ones(len(times), bool) if replaced.selects is None else replaced.selects(times))
    changed = pa.array(np.zeros(len(times), bool))
    for names, devices in devices_by_columns(replaced.columns):
        inside = pc.and_(selected, pc.is_in(stored[table.series_key], pa.array(devices, pa.string())).combine_chunks())
        for name in names:
            lost = pc.and_(inside, pc.is_valid(stored[name]).combine_chunks())
            changed = pc.or_(changed, lost)
            position = stored.schema.get_field_index(name)
            kept = pc.if_else(lost, pa.scalar(None, stored[name].type), stored[name])
            stored = stored.set_column(position, stored.schema.field(position), kept)
    return stored, changed


def count_values(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Return how many of some columns have a value, for each row."""
    counts = np.zeros(rows.num_rows, np.int64)
    for name in names:
        counts += pc.is_valid(rows[name]).to_numpy().astype(np.int64)
    return pa.array(counts)
