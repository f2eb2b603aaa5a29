"""Reads the changes of a virtual table from those of its origins.

A micro-batch reads what has changed in each origin, and compares the rows of the virtual table at the touched instants before and
after. All changes of a micro-batch are one write: commits of different tables have no order among each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Scan
from headrace.context import Context
from headrace.model.positions import Offsets, SourceId, source_id
from headrace.model.tables import Table, TableId
from headrace.storage import Bounds
from headrace.storage.delta.change_columns import changes_schema
from headrace.streams.sources.reader import ChangeReader
from headrace.streams.sources.tags import with_tags
from headrace.streams.sources.virtual_comparison import VirtualComparison
from headrace.streams.sources.virtual_parts import compare_in_parts
from headrace.streams.sources.virtual_rows import origin_tables, scan_origin, stored_columns, virtual_schema
from headrace.streams.windows.change_batch import Changes, LargeCommit


class VirtualReader:
    """Reads the changes of the rows of a virtual table. `readers` are those of its origins."""

    def __init__(self, context: Context, scan: Scan, readers: Mapping[SourceId, ChangeReader]) -> None:
        self.context = context
        self.scan = scan
        self.references = scan.references_read
        self.tables = origin_tables(context, self.references)
        self.comparison = VirtualComparison(scan, self.tables)
        self.readers = readers

    def latest(self) -> Offsets:
        return {source: version for reader in self.readers.values() for source, version in reader.latest().items()}

    def read_after(self, offsets: Offsets, tags: tuple[str, ...], last: Offsets | None = None) -> Changes | None:
        reached, writes = dict(offsets), dict[TableId, list[Changes]]()
        for origin in self.tables:
            source = source_id(origin.database, origin.name)
            parts = list(self._read_origin(source, offsets, last))
            if parts:
                reached[source] = parts[-1].offsets[source]
                writes[origin] = parts
        if not writes:
            return None
        return Changes(reached, self._changes(writes, reached, tags), is_one_write=True)

    def empty_batch(self, offsets: Offsets, tags: tuple[str, ...]) -> Changes:
        rows = changes_schema(virtual_schema(self.scan)).empty_table()
        return Changes(offsets, with_tags(self.context.tables, self.scan.table, rows, tags), is_one_write=True)

    def pending(self, offsets: Offsets) -> tuple[int, int | None]:
        """See `Reader`. Counts the changes of the origins."""
        counts = [reader.pending(offsets) for reader in self.readers.values()]
        return sum(rows for rows, _ in counts), min((since for _, since in counts if since is not None), default=None)

    def known_pending(self, offsets: Offsets) -> int:
        return sum(reader.known_pending(offsets) for reader in self.readers.values())

    def committed_at(self, source: SourceId, version: int) -> int | None:
        return self.readers[source].committed_at(source, version)

    def sync(self) -> None:
        for reader in self.readers.values():
            reader.sync()

    def _read_origin(self, source: SourceId, offsets: Offsets, last: Offsets | None) -> Iterator[Changes]:
        """Yield the next batch of an origin, or all batches up to `last`."""
        position = {source: offsets[source]}
        while (changes := self.readers[source].read_after(position, (), last)) is not None:
            yield changes
            if last is None:
                return
            position = dict(changes.offsets)

    def _changes(
        self, writes: Mapping[TableId, Sequence[Changes]], reached: Offsets, tags: tuple[str, ...]
    ) -> pa.Table | LargeCommit:
        """Return the changes of the virtual rows; they are compared in parts if they are many."""
        count = sum(part.count for parts in writes.values() for part in parts)
        add_tags = partial(with_tags, self.context.tables, self.scan.table, tags=tags)
        if count > self.context.settings.driver_rows:
            stream = partial(compare_in_parts, self.context, self.comparison, writes, reached, count)
            return LargeCommit(self.scan.table.series_key, count, stream, add_tags=add_tags)
        changes = {
            origin: pa.concat_tables(
                [self.comparison.own_changes(self.tables[origin], part.rows) for part in parts], promote_options="default"
            )
            for origin, parts in writes.items()
        }
        return add_tags(self.comparison.compare(changes, partial(self._find_rows, reached)))

    def _find_rows(self, reached: Offsets, table: Table, keys: pa.Table) -> pa.Table:
        """Return the stored rows of the series of some keys, from the first to the last of their instants."""
        if keys.num_rows == 0:
            schema = self.context.tables.schema(table, self.scan.database)
            return pa.schema([schema.field(name) for name in stored_columns(table, self.references)]).empty_table()
        times = pc.min_max(keys[table.timestamp.name].cast(pa.int64()))
        return scan_origin(
            self.context,
            table,
            self.references,
            reached,
            series=pc.unique(keys[table.series_key]).to_pylist(),
            bounds=Bounds(times["min"].as_py(), times["max"].as_py()),
        )
