"""Reading rows without Spark: pruning by statistics and pushed-down filters, now or as of a version.

`DeltaTable.scan` of delta-rs takes its filter as SQL text, guarantees no order, and takes 1 ms to find that no file matches, which
each commit of new rows asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Table
from headrace.storage.delta.changes import PIECE_ROWS, READ_ROWS, gather
from headrace.storage.delta.data_files import read_batches, read_data_files
from headrace.storage.delta.handles import Handle, list_files, stored_schema, translate_errors
from headrace.storage.delta.pruning import Bounds, file_bounds, key_filter, prune_files


def scan_rows(
    handle: Handle,
    table: Table,
    columns: Sequence[str] | None,
    where: pc.Expression | None,
    version: int | None,
    tbnames: Collection[str] | None,
    bounds: Bounds | None,
) -> pa.Table:
    """Rows as stored; `read_bounds` and `tbnames` choose files and filter rows, `where` filters further.

    `columns` None: those that the table declares, and `tbname`; others may have been added to the Delta table.
    """
    files, schema = _files(handle, version)
    names = None if tbnames is None else sorted(tbnames)
    chosen = prune_files(files, table, schema, bounds, names)
    paths = [] if names == [] else chosen["path"].to_pylist()
    series = None if names is None else (table.series_key, names)
    declared = declared_schema(table, schema).names
    pushed = key_filter(table, schema, bounds, names)
    with translate_errors(handle.name):
        return read_data_files(handle.uri, paths, schema, list(declared if columns is None else columns), pushed, where, series)


def scan_pieces(
    handle: Handle,
    table: Table,
    columns: Sequence[str],
    where: pc.Expression | None,
    version: int | None,
    tbnames: Collection[str] | None,
    bounds: Bounds | None,
) -> Iterator[pa.Table]:
    """Yield what `scan_rows` returns, about `PIECE_ROWS` rows at a time; `where` may not compare text."""
    files, schema = _files(handle, version)
    names = None if tbnames is None else sorted(tbnames)
    paths = [] if names == [] else prune_files(files, table, schema, bounds, names)["path"].to_pylist()
    if not paths:
        return
    pushed = key_filter(table, schema, bounds, names)
    combined = where if pushed is None else pushed if where is None else where & pushed
    series = (table.series_key, names)
    with translate_errors(handle.name):
        batches = read_batches(
            handle.uri, paths, schema, list(columns), combined, series, encoded=False, max_rows=READ_ROWS, ahead=1
        )
        yield from (piece for piece in gather(batches, PIECE_ROWS) if piece.num_rows)


def read_bounds(handle: Handle, table: Table) -> Bounds | None:
    """Return the least and greatest timestamp from statistics; files without any are read."""
    files, schema = _files(handle, None)
    if files.num_rows == 0:
        return None
    file_times = file_bounds(files, table.timestamp.name, schema)
    if file_times is None or file_times[0].null_count or file_times[1].null_count:
        return _read_bounds(handle, table, files, schema)
    return Bounds(pc.min(file_times[0]).as_py(), pc.max(file_times[1]).as_py())


def count_rows(handle: Handle) -> int:
    """Return the number of rows of all files, from statistics."""
    files, schema = _files(handle, None)
    if files["num_records"].null_count:
        return int(read_data_files(handle.uri, files["path"].to_pylist(), schema, [], None).num_rows)
    return int(pc.sum(files["num_records"]).as_py() or 0)


def count_bytes(handle: Handle) -> int:
    """Return the size of all data files, from the log."""
    files, _ = _files(handle, None)
    return int(pc.sum(files["size_bytes"]).as_py() or 0)


def scan_batches(
    handle: Handle, table: Table, columns: Sequence[str], tbnames: Collection[str], bounds: Bounds | None
) -> Iterator[pa.RecordBatch]:
    """Return rows that may be of some series and times, in batches: `columns` as stored, the series key as a dictionary."""
    files, schema = _files(handle, None)
    paths = prune_files(files, table, schema, bounds, tbnames)["path"].to_pylist()
    with translate_errors(handle.name):
        if paths:
            pushed = key_filter(table, schema, bounds, None)
            yield from read_batches(handle.uri, paths, schema, list(columns), pushed, (table.series_key, tbnames))


def count_scanned_rows(handle: Handle, table: Table, tbnames: Collection[str], bounds: Bounds | None) -> int | None:
    """Return the number of rows in the files that `scan_batches` reads; None if statistics are missing."""
    files, schema = _files(handle, None)
    records = prune_files(files, table, schema, bounds, tbnames)["num_records"]
    return None if records.null_count else int(pc.sum(records).as_py() or 0)


def _read_bounds(handle: Handle, table: Table, files: pa.Table, schema: pa.Schema) -> Bounds | None:
    times = read_data_files(handle.uri, files["path"].to_pylist(), schema, [table.timestamp.name], None)[table.timestamp.name].cast(
        pa.int64()
    )
    return Bounds(pc.min(times).as_py(), pc.max(times).as_py()) if len(times) > times.null_count else None


def declared_schema(table: Table, stored: pa.Schema) -> pa.Schema:
    """The fields of the declared columns in their order, then `tbname`, out of all that a Delta table has."""
    return pa.schema([stored.field(name) for name in (*(column.name for column in table.columns), table.series_key)])


def _files(handle: Handle, version: int | None) -> tuple[pa.Table, pa.Schema]:
    """A version's files (None: the newest) and the newest schema, in which columns added since are NULL in these files."""
    with handle.latest() as delta:
        schema = stored_schema(delta)
        if version is None or version == delta.version():
            return handle.files(delta), schema
    return list_files(handle.at(version)), schema
