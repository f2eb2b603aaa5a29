"""Reading rows without Spark: files chosen by statistics, filters pushed down into them, now or as of a version."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Table
from headrace.storage.datafiles import read_files
from headrace.storage.handles import Handle, file_list, translated
from headrace.storage.pruning import Bounds, candidates, file_bounds, key_filter


def scan(
    handle: Handle,
    table: Table,
    columns: Sequence[str] | None,
    where: pc.Expression | None,
    version: int | None,
    tbnames: Collection[str] | None,
    bounds: Bounds | None,
) -> pa.Table:
    """Rows as stored; `bounds` and `tbnames` choose files and filter rows, `where` filters further."""
    files, schema = _files(handle, version)
    names = None if tbnames is None else sorted(tbnames)
    chosen = candidates(files, table, schema, bounds, names)
    paths = [] if names == [] else chosen["path"].to_pylist()
    series = None if names is None else (table.series_key, names)
    pushed = key_filter(table, schema, bounds, names)
    with translated(handle.name):
        return read_files(handle.uri, paths, schema, None if columns is None else list(columns), pushed, where, series)


def bounds(handle: Handle, table: Table) -> Bounds | None:
    """Least and greatest timestamp from statistics; files without any are read."""
    files, schema = _files(handle, None)
    if files.num_rows == 0:
        return None
    known = file_bounds(files, table.timestamp.name, schema)
    if known is None or known[0].null_count or known[1].null_count:
        return _read_bounds(handle, table, files, schema)
    return Bounds(pc.min(known[0]).as_py(), pc.max(known[1]).as_py())


def count(handle: Handle) -> int:
    """Rows of all files, from statistics."""
    files, schema = _files(handle, None)
    if files["num_records"].null_count:
        return int(read_files(handle.uri, files["path"].to_pylist(), schema, [], None).num_rows)
    return int(pc.sum(files["num_records"]).as_py() or 0)


def _read_bounds(handle: Handle, table: Table, files: pa.Table, schema: pa.Schema) -> Bounds | None:
    times = read_files(handle.uri, files["path"].to_pylist(), schema, [table.timestamp.name], None)[table.timestamp.name].cast(
        pa.int64()
    )
    return Bounds(pc.min(times).as_py(), pc.max(times).as_py()) if len(times) > times.null_count else None


def _files(handle: Handle, version: int | None) -> tuple[pa.Table, pa.Schema]:
    """A version's files (None: the newest) and the schema they are read with."""
    if version is None:
        with handle.latest() as delta:
            return handle.files(delta), pa.schema(delta.schema().to_arrow())
    delta = handle.at(version)
    return file_list(delta), pa.schema(delta.schema().to_arrow())
