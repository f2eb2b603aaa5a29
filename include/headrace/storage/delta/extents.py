"""The time range of each data file of a table, from the statistics in its log."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Database, Table
from headrace.model.time import Precision
from headrace.storage.delta.data_files import read_data_files
from headrace.storage.delta.handles import list_files
from headrace.storage.delta.pruning import as_stored_integers, file_bounds
from headrace.storage.tables import Tables
from headrace.storage.types import rows_schema

Extent = tuple[int, int, int]
"""First and last instant (ticks, both inclusive, possibly wider than the rows), and the number of rows."""

MICROSECONDS_A_TICK: Final = {Precision.MILLISECOND: 1_000, Precision.MICROSECOND: 1, Precision.NANOSECOND: 1}


def extents(tables: Tables, table: Table, database: Database, version: int) -> list[Extent]:
    """Return an extent per data file with rows at a version. Only timestamps of files without statistics are read."""
    handle = tables._handles.reader(table)
    files = list_files(handle.at(version))
    schema = rows_schema(table, database)
    file_times = file_bounds(files, table.timestamp.name, schema) if files.num_rows else None
    if file_times is None:
        return _measure(handle.uri, files, table, schema, database.precision)
    least, greatest = file_times
    unit = MICROSECONDS_A_TICK[database.precision]
    has_statistics = pc.and_kleene(pc.is_valid(least), pc.and_kleene(pc.is_valid(greatest), pc.is_valid(files["num_records"])))
    columns = [column.filter(has_statistics).to_pylist() for column in (least, greatest, files["num_records"])]
    extents_found = [(low // unit, high // unit, rows) for low, high, rows in zip(*columns, strict=True) if rows]
    return extents_found + _measure(handle.uri, files.filter(pc.invert(has_statistics)), table, schema, database.precision)


def _measure(uri: str, files: pa.Table, table: Table, schema: pa.Schema, precision: Precision) -> list[Extent]:
    """Measure the extents of files without statistics."""
    unit = MICROSECONDS_A_TICK[precision]
    extents_found = []
    for path in files["path"].to_pylist() if files.num_rows else []:
        times = as_stored_integers(read_data_files(uri, [path], schema, [table.timestamp.name], None)[table.timestamp.name])
        if len(times):
            ends = pc.min_max(times)
            extents_found.append((ends["min"].as_py() // unit, ends["max"].as_py() // unit, len(times)))
    return extents_found
