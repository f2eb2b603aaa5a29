"""Where in time a table's rows lie, file by file, from the statistics of its log."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Database, Table
from headrace.model.time import Precision
from headrace.storage.datafiles import read_files
from headrace.storage.pruning import file_bounds, stored_integers
from headrace.storage.tables import Tables
from headrace.storage.types import rows_schema

Extent = tuple[int, int, int]
"""First and last instant (ticks, both inclusive, never narrower than the rows), and how many rows."""

MICROSECONDS_A_TICK: Final = {Precision.MILLISECOND: 1_000, Precision.MICROSECOND: 1, Precision.NANOSECOND: 1}


def extents(tables: Tables, table: Table, database: Database, version: int) -> list[Extent]:
    """One extent for each data file with rows at a version; only files without statistics are read, their timestamps alone."""
    handle = tables._handles.reader(table)
    delta = handle.at(version)
    files = pa.table(delta.get_add_actions(flatten=True))
    schema = rows_schema(table, database)
    known = file_bounds(files, table.timestamp.name, schema) if files.num_rows else None
    if known is None:
        return _measured(handle.uri, files, table, schema, database.precision)
    least, greatest = known
    unit = MICROSECONDS_A_TICK[database.precision]
    told = pc.and_kleene(pc.is_valid(least), pc.and_kleene(pc.is_valid(greatest), pc.is_valid(files["num_records"])))
    columns = [column.filter(told).to_pylist() for column in (least, greatest, files["num_records"])]
    found = [(low // unit, high // unit, rows) for low, high, rows in zip(*columns, strict=True) if rows]
    return found + _measured(handle.uri, files.filter(pc.invert(told)), table, schema, database.precision)


def _measured(uri: str, files: pa.Table, table: Table, schema: pa.Schema, precision: Precision) -> list[Extent]:
    """Extents of files that tell nothing of themselves."""
    unit = MICROSECONDS_A_TICK[precision]
    found = []
    for path in files["path"].to_pylist() if files.num_rows else []:
        times = stored_integers(read_files(uri, [path], schema, [table.timestamp.name], None)[table.timestamp.name])
        if len(times):
            ends = pc.min_max(times)
            found.append((ends["min"].as_py() // unit, ends["max"].as_py() // unit, len(times)))
    return found
