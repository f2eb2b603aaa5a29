"""Reads the changes of a virtual table from those of its origins.

A micro-batch reads what has changed in each origin, and compares the rows of the virtual table at the touched instants before and
after. Rows of origins that have not changed are the same before and after, so they are read once, and only where they are needed.
All changes of a micro-batch are one write: commits of different tables have no order among each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Scan
from headrace.model.positions import Offsets, SourceId, source_id
from headrace.model.tables import Table, TableId
from headrace.storage import Bounds
from headrace.storage.delta.changes import COMMIT_VERSION, changes_schema
from headrace.storage.delta.log import CHANGE_TYPE
from headrace.storage.row_matching import anti_join, match_rows, row_ids
from headrace.streams.context import Context
from headrace.streams.sources.reader import ChangeReader
from headrace.streams.sources.tags import with_tags
from headrace.streams.sources.virtual_rows import align, origin_tables, scan_origin, stored_columns, virtual_schema
from headrace.streams.windows.change_batch import Changes

OLD_VALUES = ["delete", "update_preimage"]
ONLY_VERSION = 0
"""The version of all changes of a micro-batch."""


@dataclass(frozen=True, slots=True)
class OriginChanges:
    """The rows of one stored table that a micro-batch changes, before and after it."""

    before: pa.Table
    after: pa.Table


class VirtualReader:
    """Reads the changes of the rows of a virtual table. `readers` are those of its origins."""

    def __init__(self, context: Context, scan: Scan, readers: Mapping[SourceId, ChangeReader]) -> None:
        self.context = context
        self.scan = scan
        self.references = scan.references_read
        self.tables = origin_tables(context, self.references)
        self.readers = readers
        self.key = [scan.table.series_key, scan.table.timestamp.name]

    def latest(self) -> Offsets:
        """See `Reader`."""
        return {source: version for reader in self.readers.values() for source, version in reader.latest().items()}

    def read_after(self, offsets: Offsets, tags: tuple[str, ...], last: Offsets | None = None) -> Changes | None:
        """See `Reader`."""
        reached, changes = dict(offsets), dict[TableId, OriginChanges]()
        for origin, table in self.tables.items():
            source = source_id(origin.database, origin.name)
            parts = list(self._read_origin(source, offsets, last))
            if parts:
                reached[source] = parts[-1].offsets[source]
                changes[origin] = self._changed_rows(
                    table, pa.concat_tables([part.rows for part in parts], promote_options="default")
                )
        if reached == dict(offsets):
            return None
        rows = self._virtual_changes(changes, reached)
        return Changes(reached, with_tags(self.context.tables, self.scan.table, rows, tags), is_one_write=True)

    def empty_batch(self, offsets: Offsets, tags: tuple[str, ...]) -> Changes:
        """See `Reader`."""
        rows = changes_schema(virtual_schema(self.scan)).empty_table()
        return Changes(offsets, with_tags(self.context.tables, self.scan.table, rows, tags), is_one_write=True)

    def pending(self, offsets: Offsets) -> tuple[int, int | None]:
        """See `Reader`. Counts the changes of the origins."""
        counts = [reader.pending(offsets) for reader in self.readers.values()]
        return sum(rows for rows, _ in counts), min((since for _, since in counts if since is not None), default=None)

    def committed_at(self, source: SourceId, version: int) -> int | None:
        """See `Reader`."""
        return self.readers[source].committed_at(source, version)

    def _read_origin(self, source: SourceId, offsets: Offsets, last: Offsets | None) -> Iterator[Changes]:
        """Yield the next batch of an origin, or all batches up to `last`."""
        position = {source: offsets[source]}
        while (changes := self.readers[source].read_after(position, (), last)) is not None:
            yield changes
            if last is None:
                return
            position = dict(changes.offsets)

    def _changed_rows(self, table: Table, changes: pa.Table) -> OriginChanges:
        """Return the rows of the referenced series of an origin before its first and after its last change."""
        references = [reference for reference in self.references if reference.origin == table.id]
        series = pa.array(sorted({reference.origin_series for reference in references}), pa.string())
        columns = stored_columns(table, references)
        own = changes.filter(pc.is_in(changes[table.series_key], series)).select([*columns, CHANGE_TYPE, COMMIT_VERSION])
        (ids,) = row_ids([own], [table.series_key, table.timestamp.name])
        is_old = np.asarray(pc.is_in(own[CHANGE_TYPE], pa.array(OLD_VALUES)))
        order = np.lexsort((~is_old, np.asarray(own[COMMIT_VERSION]), ids))
        starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
        ends = np.append(starts[1:], len(order)) - 1 if len(starts) else starts
        first, last = order[starts], order[ends]
        rows = own.select(columns)
        return OriginChanges(rows.take(pa.array(first[is_old[first]])), rows.take(pa.array(last[~is_old[last]])))

    def _virtual_changes(self, changes: Mapping[TableId, OriginChanges], reached: Offsets) -> pa.Table:
        """Return the changes of the virtual rows at all instants that changes of origins touch."""
        both = {origin: pa.concat_tables([change.before, change.after]) for origin, change in changes.items()}
        touched = align(self.scan, both, self.tables, self.references).select(self.key)
        unchanged = {
            origin: self._unchanged_rows(table, touched, both.get(origin), reached) for origin, table in self.tables.items()
        }
        before = self._align(unchanged, {origin: change.before for origin, change in changes.items()})
        after = self._align(unchanged, {origin: change.after for origin, change in changes.items()})
        return difference(before, after, self.key)

    def _align(self, unchanged: Mapping[TableId, pa.Table], changed: Mapping[TableId, pa.Table]) -> pa.Table:
        """Return the virtual rows made of unchanged and of changed rows of origins."""
        parts = {
            origin: pa.concat_tables([rows, changed[origin]]) if origin in changed else rows for origin, rows in unchanged.items()
        }
        return align(self.scan, parts, self.tables, self.references)

    def _unchanged_rows(self, table: Table, touched: pa.Table, changed: pa.Table | None, reached: Offsets) -> pa.Table:
        """Return the rows of an origin at touched instants that it has not changed itself."""
        key = [table.series_key, table.timestamp.name]
        wanted = self._stored_keys(table, touched)
        if changed is not None:
            wanted = anti_join(wanted, changed.select(key), key)
        if wanted.num_rows == 0:
            schema = self.context.tables.schema(table, self.scan.database)
            return pa.schema([schema.field(name) for name in stored_columns(table, self.references)]).empty_table()
        times = pc.min_max(wanted[table.timestamp.name].cast(pa.int64()))
        rows = scan_origin(
            self.context,
            self.scan,
            table,
            self.references,
            reached,
            series=pc.unique(wanted[table.series_key]).to_pylist(),
            bounds=Bounds(times["min"].as_py(), times["max"].as_py()),
        )
        return rows.filter(pa.array(match_rows(rows, wanted, key) >= 0))

    def _stored_keys(self, table: Table, touched: pa.Table) -> pa.Table:
        """Return the series and instants of an origin that touched virtual rows are made of, each once."""
        series_key, timestamp = self.key
        pairs = sorted({(one.series, one.origin_series) for one in self.references if one.origin == table.id})
        keys = [touched.slice(0, 0).rename_columns([table.series_key, table.timestamp.name])]
        for series, stored in pairs:
            times = touched.filter(pc.equal(touched[series_key], series))[timestamp]
            names = pa.repeat(pa.scalar(stored), len(times))
            keys.append(pa.table([names, times], keys[0].schema.names))
        return pa.concat_tables(keys).group_by(keys[0].schema.names).aggregate([])


def difference(before: pa.Table, after: pa.Table, key: list[str]) -> pa.Table:
    """Return the changes that turn rows into others, as a change feed has them."""
    index = match_rows(after, before, key)
    is_in_both = index >= 0
    kept_before, kept_after = before.take(pa.array(index[is_in_both])), after.filter(pa.array(is_in_both))
    is_updated = pa.array(~are_equal(kept_before, kept_after))
    is_deleted = np.ones(before.num_rows, np.bool_)
    is_deleted[index[is_in_both]] = False
    kinds = {
        "insert": after.filter(pa.array(~is_in_both)),
        "delete": before.filter(pa.array(is_deleted)),
        "update_preimage": kept_before.filter(is_updated),
        "update_postimage": kept_after.filter(is_updated),
    }
    schema = changes_schema(after.schema)
    return pa.concat_tables([as_changes(rows, kind, schema) for kind, rows in kinds.items()])


def are_equal(rows: pa.Table, others: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each row whether it equals the other row at its place; NULL equals NULL."""
    equal = np.ones(rows.num_rows, np.bool_)
    for one, other in zip(rows.columns, others.columns, strict=True):
        same = pc.fill_null(pc.equal(one, other), False)
        equal &= np.asarray(pc.or_(same, pc.and_(pc.is_null(one), pc.is_null(other))))
    return equal


def as_changes(rows: pa.Table, kind: str, schema: pa.Schema) -> pa.Table:
    """Return rows as changes of one kind."""
    count = rows.num_rows
    bookkeeping = [pa.repeat(pa.scalar(kind), count), pa.repeat(pa.scalar(ONLY_VERSION, pa.int64()), count)]
    return pa.table([*rows.columns, *bookkeeping], names=schema.names).cast(schema)
