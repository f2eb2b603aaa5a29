"""Replacing points of a tree: what a computation wrote to its range before gives way to what it writes now.

New rows come in chunks of adjoining ranges of keys, and stored rows in batches, so that memory has only some of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Table
from headrace.storage.delta import merging
from headrace.storage.delta.data_files import read_batches
from headrace.storage.delta.keys import anti_join, keep_last_values_per_key, semi_join
from headrace.storage.delta.merging import MAX_NAMES_IN_PREDICATE, MergeScope, mark_operation, operations_schema
from headrace.storage.delta.pruning import Bounds, key_filter, prune_files, time_bounds
from headrace.storage.types import with_all_columns

MapRows = Callable[[Callable[[Iterator[pa.Table]], Any]], Iterator[Any]]
"""Applies a function to parts of rows in Spark's tasks, and yields what it returns for each part."""
Instants = npt.NDArray[np.int64]
Key = tuple[str, int]
"""A device and a time, as stored."""


@dataclass(frozen=True, slots=True)
class ReplacedPoints:
    """Points of a tree that make room for new ones: devices, their columns that lose their values, and the range of times.

    Times are as stored. `selects` returns which of some instants are meant; None for all within the bounds.
    """

    columns: tuple[tuple[str, tuple[str, ...]], ...]
    bounds: Bounds
    selects: Callable[[Instants], npt.NDArray[np.bool_]] | None = None


@dataclass(frozen=True, slots=True)
class PointChunk:
    """New rows, one for each key, all of the range of keys `[first, end)`, in which None is unbounded.

    `load` returns the rows, with all stored columns. Without rows there are no `times`.
    """

    load: Callable[[], pa.Table]
    times: Bounds | None
    first: Key | None = None
    end: Key | None = None


@dataclass(frozen=True, slots=True)
class PointChanges:
    """Rows to write as a whole, and the keys of rows that are left without any value. `is_stored`: they change stored rows."""

    upserts: pa.Table
    deletes: pa.Table
    is_stored: bool = True

    @property
    def rows(self) -> int:
        """The number of changed rows."""
        return int(self.upserts.num_rows + self.deletes.num_rows)


def devices_by_columns(columns: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[tuple[str, ...], list[str]]]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for device, names in columns:
        if names:
            groups.setdefault(tuple(sorted(set(names))), []).append(device)
    return list(groups.items())


@dataclass(frozen=True, slots=True)
class Replacement:
    """New points of a tree and the stored ones that give way to them, at one version of its table.

    The `files` and the `schema` are those of the version. The ranges of the chunks together have all keys. At most `max_rows`
    stored rows are in memory at a time.
    """

    uri: str
    files: pa.Table
    table: Table
    schema: pa.Schema
    chunks: Sequence[PointChunk]
    replaced: ReplacedPoints
    max_rows: int

    def changes_stored_rows(self) -> bool:
        return any(changes.is_stored and changes.rows for chunk in self.chunks for changes in self.changes(chunk))

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield all changes as the input of a merge."""
        for changes in (changes for chunk in self.chunks for changes in self.changes(chunk)):
            deletes = with_all_columns(changes.deletes, self.schema)
            for rows, operation in ((changes.upserts, merging.UPSERT), (deletes, merging.DELETE)):
                yield from mark_operation(rows, operation).to_batches()

    def reader(self) -> pa.RecordBatchReader:
        """Return all changes as the input of a merge."""
        return pa.RecordBatchReader.from_batches(operations_schema(self.schema), self.read())

    def scope(self) -> MergeScope:
        """Return the times of all changes, and their devices if they are few."""
        times = [self.replaced.bounds, *(chunk.times for chunk in self.chunks if chunk.times is not None)]
        names = self.devices(self.chunks[0], self.chunks[0].load()) if len(self.chunks) == 1 else []
        bounds = Bounds(min(own.low for own in times), max(own.high for own in times))
        return MergeScope(bounds, tuple(names) if 0 < len(names) <= MAX_NAMES_IN_PREDICATE else None)

    def changes(self, chunk: PointChunk) -> Iterator[PointChanges]:
        """Yield the changes of a chunk's range: those of stored rows, batch by batch, then the new rows."""
        key, new = list(self.table.primary_key), chunk.load()
        for stored in self.stored_rows(chunk, new):
            own = semi_join(new, stored.select(key), key)
            yield change_rows(stored, own, self.table, self.replaced)
            new = anti_join(new, own, key)
        yield PointChanges(new.select(self.schema.names), new.slice(0, 0).select(key), is_stored=False)

    def stored_rows(self, chunk: PointChunk, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield the stored rows of a chunk's range that may change, in batches."""
        devices = self.devices(chunk, rows)
        times = [self.replaced.bounds, *([chunk.times] if chunk.times is not None else [])]
        bounds = Bounds(min(own.low for own in times), max(own.high for own in times))
        paths = prune_files(self.files, self.table, self.schema, bounds, devices)["path"].to_pylist() if devices else []
        if not paths:
            return
        pushed = key_filter(self.table, self.schema, bounds, devices)
        series = (self.table.series_key, devices)
        for batch in read_batches(
            self.uri, paths, self.schema, self.schema.names, pushed, series, encoded=False, max_rows=self.max_rows
        ):
            stored = within(pa.Table.from_batches([batch]).cast(self.schema), self.table, chunk)
            if stored.num_rows:
                yield stored

    def devices(self, chunk: PointChunk, rows: pa.Table) -> list[str]:
        """Return the devices of which stored rows in a chunk's range may change."""
        replaced = {
            device
            for device, _ in self.replaced.columns
            if (chunk.first is None or chunk.first[0] <= device) and (chunk.end is None or device <= chunk.end[0])
        }
        return sorted(replaced.union(pc.unique(rows[self.table.series_key]).to_pylist()))


def change_rows(stored: pa.Table, rows: pa.Table, table: Table, replaced: ReplacedPoints) -> PointChanges:
    """Return the changes of stored rows, given new rows with keys of theirs."""
    key = list(table.primary_key)
    cleared, changed = clear_values(stored, table, replaced)
    touched = semi_join(cleared.filter(pc.invert(changed)), rows.select(key), key).select(stored.column_names)
    combined = keep_last_values_per_key(pa.concat_tables([cleared.filter(changed), touched, rows.select(stored.column_names)]), key)
    empty = pc.equal(count_values(combined, [name for name in combined.column_names if name not in key]), 0)
    return PointChanges(combined.filter(pc.invert(empty)), combined.filter(empty).select(key))


def in_memory(rows: pa.Table, table: Table) -> PointChunk:
    return PointChunk(lambda: rows, time_bounds(rows, table.timestamp.name) if rows.num_rows else None)


def within(rows: pa.Table, table: Table, chunk: PointChunk) -> pa.Table:
    """Return the rows whose key lies in a chunk's range."""
    devices, times = rows[table.series_key], rows[table.timestamp.name].cast(pa.int64())

    def from_key(key: Key) -> pa.ChunkedArray:
        same = pc.and_(pc.equal(devices, key[0]), pc.greater_equal(times, key[1]))
        return pc.or_(pc.greater(devices, key[0]), same)

    if chunk.first is not None:
        rows = rows.filter(from_key(chunk.first))
        devices, times = rows[table.series_key], rows[table.timestamp.name].cast(pa.int64())
    return rows if chunk.end is None else rows.filter(pc.invert(from_key(chunk.end)))


def clear_values(stored: pa.Table, table: Table, replaced: ReplacedPoints) -> tuple[pa.Table, pa.Array]:
    """Return the rows without the values that give way, and which of the rows have lost one."""
    times = stored[table.timestamp.name].cast(pa.int64()).to_numpy()
    inside = (times >= replaced.bounds.low) & (times <= replaced.bounds.high)
    selected = pa.array(inside if replaced.selects is None else inside & replaced.selects(times))
    changed = pa.array(np.zeros(len(times), bool))
    for names, devices in devices_by_columns(replaced.columns):
        own = pc.and_(selected, pc.is_in(stored[table.series_key], pa.array(devices, pa.string())).combine_chunks())
        for name in names:
            lost = pc.and_(own, pc.is_valid(stored[name]).combine_chunks())
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
