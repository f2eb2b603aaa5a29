"""Reading rows without Spark: pruning by statistics and pushed-down filters, now or as of a version.

`DeltaTable.scan` of delta-rs takes its filter as SQL text, guarantees no order, and takes 1 ms to find that no file matches, which
each commit of new rows asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Database, Table
from headrace.model.time import Precision
from headrace.storage.delta.changes import PIECE_ROWS, READ_ROWS, gather
from headrace.storage.delta.data_files import BATCH_ROWS
from headrace.storage.delta.handles import Handle, translate_errors
from headrace.storage.delta.pruning import Bounds, as_stored_integers, file_bounds, key_filter, prune_files
from headrace.storage.delta.table_handles import Handles
from headrace.storage.types import rows_schema
from headrace.storage.values.scalars import stored_units_per_tick


class Extent(NamedTuple):
    """First and last instant (ticks, both inclusive, possibly wider than the rows), and the number of rows."""

    first: int
    last: int
    rows: int


class Scans:
    """Reads rows and statistics of tables. Versions are of a table; None is the newest."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles

    def scan(
        self,
        table: Table,
        *,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        version: int | None = None,
        tbnames: Collection[str] | None = None,
        bounds: Bounds | None = None,
    ) -> pa.Table:
        """Rows as stored, now or as of a version: `columns`, by default the declared ones and `tbname`.

        A column that was added after the version is NULL. `bounds` (as stored, inclusive) and `tbnames` choose files by their
        statistics, and rows; `filter` chooses rows further.
        """
        handle = self._handles.reader(table)
        paths, schema, names, pushed = _choose(handle, table, version, tbnames, bounds)
        wanted = declared_schema(table, schema).names if columns is None else list(columns)
        with translate_errors(handle.name):
            return handle.data.read(paths, schema, wanted, pushed, filter, series=(table.series_key, names), bounds=bounds)

    def scan_pieces(
        self,
        table: Table,
        columns: Sequence[str],
        *,
        filter: pc.Expression | None = None,
        version: int | None = None,
        tbnames: Collection[str] | None = None,
        bounds: Bounds | None = None,
    ) -> Iterator[pa.Table]:
        """Yield what `scan` returns, about `PIECE_ROWS` rows at a time; `filter` may not compare text."""
        handle = self._handles.reader(table)
        paths, schema, names, pushed = _choose(handle, table, version, tbnames, bounds)
        if not paths:
            return
        series = (table.series_key, names)
        with translate_errors(handle.name):
            batches = handle.data.batches(
                *(paths, schema, list(columns), pushed, series),
                further=filter,
                encoded=False,
                max_rows=READ_ROWS,
                ahead=1,
                bounds=bounds,
            )
            yield from (piece for piece in gather(batches, PIECE_ROWS) if piece.num_rows)

    def batches(
        self,
        table: Table,
        columns: Sequence[str],
        tbnames: Collection[str] | None,
        bounds: Bounds | None,
        max_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Return rows as stored in batches of at most `max_rows`, the series key as a dictionary.

        Other series than the named ones may come too, as files are only pruned.
        """
        handle = self._handles.reader(table)
        files, schema = files_at(handle, None)
        paths = prune_files(files, table, schema, bounds, tbnames)["path"].to_pylist()
        with translate_errors(handle.name):
            if paths:
                pushed = key_filter(table, schema, bounds, None)
                series = (table.series_key, tbnames)
                yield from handle.data.batches(paths, schema, list(columns), pushed, series, max_rows=max_rows, bounds=bounds)

    def count_scanned(self, table: Table, tbnames: Collection[str] | None, bounds: Bounds | None) -> int | None:
        """Return the number of rows of the files that `batches` and `scan` read, from statistics; None if they are missing."""
        files, schema = files_at(self._handles.reader(table), None)
        records = prune_files(files, table, schema, bounds, tbnames)["num_records"]
        return None if records.null_count else int(pc.sum(records).as_py() or 0)

    def bounds(self, table: Table) -> Bounds | None:
        """Return the least and greatest stored timestamp, possibly wider than the rows; files without statistics are read."""
        handle = self._handles.reader(table)
        files, schema = files_at(handle, None)
        if files.num_rows == 0:
            return None
        times = file_bounds(files, table.timestamp.name, schema)
        if times is None or times[0].null_count or times[1].null_count:
            stored = _read_times(handle, files["path"].to_pylist(), table, schema)
            times = (stored, stored) if len(stored) > stored.null_count else None
        return None if times is None else Bounds(pc.min(times[0]).as_py(), pc.max(times[1]).as_py())

    def rows(self, table: Table) -> int:
        """Return the number of rows, from statistics."""
        handle = self._handles.reader(table)
        files, schema = files_at(handle, None)
        if files["num_records"].null_count:
            return len(_read_times(handle, files["path"].to_pylist(), table, schema))
        return int(pc.sum(files["num_records"]).as_py() or 0)

    def size(self, table: Table) -> int:
        """Return the size of the data files in bytes, from the log."""
        return int(pc.sum(files_at(self._handles.reader(table), None)[0]["size_bytes"]).as_py() or 0)

    def extents(self, table: Table, database: Database, version: int) -> list[Extent]:
        """Return an extent per data file with rows at a version. Only timestamps of files without statistics are read."""
        handle = self._handles.reader(table)
        files, schema = files_at(handle, version)[0], rows_schema(table, database)
        times = file_bounds(files, table.timestamp.name, schema) if files.num_rows else None
        if times is None:
            return _measure(handle, files, table, schema, database.precision)
        columns, unit = (*times, files["num_records"]), stored_units_per_tick(database.precision)
        is_known = pc.and_kleene(pc.is_valid(columns[0]), pc.and_kleene(pc.is_valid(columns[1]), pc.is_valid(columns[2])))
        measured = zip(*(column.filter(is_known).to_pylist() for column in columns), strict=True)
        extents = [Extent(low // unit, high // unit, rows) for low, high, rows in measured if rows]
        return extents + _measure(handle, files.filter(pc.invert(is_known)), table, schema, database.precision)


def _choose(
    handle: Handle, table: Table, version: int | None, tbnames: Collection[str] | None, bounds: Bounds | None
) -> tuple[list[str], pa.Schema, list[str] | None, pc.Expression | None]:
    """Return the files that may have rows of some series and times, all stored columns, the series, and the filter of the rows."""
    files, schema = files_at(handle, version)
    names = None if tbnames is None else sorted(tbnames)
    paths = [] if names == [] else prune_files(files, table, schema, bounds, names)["path"].to_pylist()
    return paths, schema, names, key_filter(table, schema, bounds, names)


def _read_times(handle: Handle, paths: list[str], table: Table, schema: pa.Schema) -> pa.ChunkedArray:
    name = table.timestamp.name
    return as_stored_integers(handle.data.read(paths, schema, [name], None)[name])


def _measure(handle: Handle, files: pa.Table, table: Table, schema: pa.Schema, precision: Precision) -> list[Extent]:
    """Measure the extents of files without statistics."""
    unit, extents = stored_units_per_tick(precision), []
    for path in files["path"].to_pylist() if files.num_rows else []:
        times = _read_times(handle, [path], table, schema)
        if len(times):
            ends = pc.min_max(times)
            extents.append(Extent(ends["min"].as_py() // unit, ends["max"].as_py() // unit, len(times)))
    return extents


def declared_schema(table: Table, stored: pa.Schema) -> pa.Schema:
    """The fields of the declared columns in their order, then `tbname`, out of all that a Delta table has.

    Those of an external table include its tags.
    """
    columns = table.columns if table.external is None else (*table.columns, *table.tags)
    return pa.schema([stored.field(name) for name in (*(column.name for column in columns), table.series_key)])


def files_at(handle: Handle, version: int | None) -> tuple[pa.Table, pa.Schema]:
    """A version's files (None: the newest) and the newest schema, in which columns added since are NULL in these files."""
    with handle.latest_snapshot() as newest:
        if version is None or version == newest.number:
            return newest.files, newest.schema
    return handle.data.listed(handle.list_files(handle.at(version))), newest.schema
