"""What queries that are evaluated in this process read: rows of tables, virtual tables and trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.positions import source_id
from headrace.model.tables import Table, TableKind
from headrace.queries import running
from headrace.storage.delta.pruning import Bounds
from headrace.storage.types import row_types
from headrace.streams.sources.shares import stored_bounds
from headrace.streams.sources.virtual_rows import origin_tables, scan_virtual

if TYPE_CHECKING:
    from headrace.compute import Scan
    from headrace.context import Context

LONG_TEXT: Final = 1_000
FEW_ROWS: Final = 4_096
"""Rows that are read at a time of columns that may have long texts, which can be small in a file and large in memory."""
BATCH_CELLS: Final = 4_000_000
"""Cells that are read at a time of other columns."""
UNKNOWN_ROWS: Final = 2**63 - 1
"""Counted if statistics do not tell the number of rows: more than any limit."""


@dataclass(frozen=True, slots=True)
class LocalReader:
    """Reads the data files of tables with Arrow."""

    context: Context

    def row_count(self, scan: Scan, first: int | None, last: int | None, series: tuple[str, ...] | None = None) -> int:
        """Return the greatest number of rows that `batches` may return."""
        bounds, tables = stored_bounds(scan, first, last), self.context.tables
        if scan.table.is_virtual:
            counts = [
                tables.count_scanned(origin, None, bounds) for origin in origin_tables(self.context, scan.references_read).values()
            ]
        else:
            counts = [tables.count_scanned(scan.table, series or subtables_read(scan), bounds)]
        return sum(UNKNOWN_ROWS if rows is None else rows for rows in counts)

    def batches(self, scan: Scan, first: int | None, last: int | None, series: tuple[str, ...] | None = None) -> Iterator[pa.Table]:
        """Yield the columns of the scan as stored, with the tags of the rows' subtables."""
        table, tables, bounds = scan.table, self.context.tables, stored_bounds(scan, first, last)
        if table.is_virtual:
            origins = origin_tables(self.context, scan.references_read).values()
            offsets = {source_id(origin.database, origin.name): tables.version(origin) for origin in origins}
            batches = iter((scan_virtual(self.context, scan, offsets, subtables_read(scan), bounds),))
        else:
            batches = self._stored_batches(scan, series or subtables_read(scan), bounds)
        for rows in batches:
            # New series get their tags before their rows, so tags that are read after the rows have those of all of them.
            yield joined_tags(rows, tables.tags.read(table), table.series_key, scan.tags) if scan.tags else rows

    def _stored_batches(self, scan: Scan, series: tuple[str, ...] | None, bounds: Bounds | None) -> Iterator[pa.Table]:
        table, types = scan.table, row_types(scan.table, scan.database.precision)
        names = [name for name in scan.columns if not table.is_joined(name)]
        is_long = any((column.type.length or 0) > LONG_TEXT for column in table.columns if column.name in names)
        max_rows = FEW_ROWS if is_long else max(FEW_ROWS, BATCH_CELLS // len(names))
        batches = self.context.tables.batches(table, names, series, bounds, max_rows=max_rows)
        first = next(batches, None)
        if first is None:
            yield pa.schema([(name, types[name]) for name in names]).empty_table()
            return
        for batch in chain((first,), batches):
            running.check()
            yield pa.Table.from_batches([batch])

    def subtables(self, scan: Scan) -> pa.Table:
        """Return series key and tags of every subtable; a plain table has one, named like itself."""
        return all_subtables(self.context, scan.table)


def subtables_read(scan: Scan) -> tuple[str, ...] | None:
    """Return the only subtable that a scan reads; None if it may read all."""
    return None if scan.subtable is None or scan.table.kind is not TableKind.SUPER else (scan.subtable,)


def joined_tags(rows: pa.Table, tags: pa.Table, key: str, names: Sequence[str]) -> pa.Table:
    """Return rows with some tags of their series, NULL for series without tags; the order of columns is not kept."""
    encoded = rows[key].combine_chunks()
    encoded = encoded if pa.types.is_dictionary(encoded.type) else encoded.dictionary_encode()
    positions = pc.index_in(encoded.dictionary, tags[key].combine_chunks())
    columns = {name: tags[name].combine_chunks().take(positions).take(encoded.indices) for name in names}
    return pa.table({name: rows[name] for name in rows.column_names} | {key: encoded} | columns)


@dataclass
class CountedReader:
    """A reader that counts the rows that it has read."""

    reader: LocalReader
    rows_read: int = 0

    def row_count(self, scan: Scan, first: int | None, last: int | None, series: tuple[str, ...] | None = None) -> int:
        """See `LocalReader`."""
        return self.reader.row_count(scan, first, last, series)

    def batches(self, scan: Scan, first: int | None, last: int | None, series: tuple[str, ...] | None = None) -> Iterator[pa.Table]:
        """See `LocalReader`."""
        running.check()
        for rows in self.reader.batches(scan, first, last, series):
            self.rows_read += rows.num_rows
            yield rows

    def subtables(self, scan: Scan) -> pa.Table:
        """See `LocalReader`."""
        return self.reader.subtables(scan)


def all_subtables(context: Context, table: Table) -> pa.Table:
    """Return series key and tags of every subtable of a table; a plain table has one, named like itself."""
    if table.kind is not TableKind.SUPER:
        return pa.table({table.series_key: [table.name]})
    return context.tables.tags.of_subtables(table)
