"""Staged data files: Parquet files that no commit has added yet, with their statistics."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from headrace.model.instants import EPOCH
from headrace.model.tables import Table
from headrace.storage.delta.data_files import read_data_files
from headrace.storage.delta.handles import is_local
from headrace.storage.delta.pruning import Bounds, time_bounds
from headrace.storage.delta.row_order import sort_rows
from headrace.storage.object_store import file_system
from headrace.storage.types import MICROSECONDS

ROW_GROUP_ROWS: Final = 131_072
# Up to this many rows, dictionaries and a strong compression take more time than they save.
MAX_PLAIN_ROWS: Final = 8_192
# Every reader parses these statistics, so leave long strings out.
MAX_STATISTIC_CHARACTERS: Final = 256


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A data file to add, as plain values that Spark's workers can return."""

    path: str
    size: int
    modified: int
    statistics: str
    rows: int
    times: Bounds
    names: tuple[str, str]

    def overlaps(self, other: StagedFile) -> bool:
        """Return whether the two may hold the same key."""
        return self.times.overlaps(other.times) and self.names[0] <= other.names[1] and other.names[0] <= self.names[1]


def write_file(uri: str, rows: pa.Table, table: Table, *, data_change: bool = False) -> AddAction:
    """Write rows as a staged data file of a table; return the action that adds it."""
    path, size = write_parquet(uri, "part-00000-", rows)
    return AddAction(path, size, {}, now_ms(), data_change, json.dumps(file_statistics(rows, table)))


def write_parquet(uri: str, prefix: str, rows: pa.Table) -> tuple[str, int]:
    """Write rows as a Parquet file in a folder that exists; return its path below the table, and its size."""
    is_small = rows.num_rows <= MAX_PLAIN_ROWS
    codec = "snappy" if is_small else "zstd"
    path = f"{prefix}{uuid.uuid4()}-c000.{codec}.parquet"
    write = partial(pq.write_table, rows, compression=codec, use_dictionary=not is_small, row_group_size=ROW_GROUP_ROWS)
    system, root = file_system(uri)
    if not is_small or not is_local(uri):
        write(f"{root}/{path}", filesystem=system)
        return path, int(system.get_file_info(f"{root}/{path}").size)
    # One call of the operating system, instead of one for each page.
    buffer = pa.BufferOutputStream()
    write(buffer)
    content = buffer.getvalue()
    with open(f"{root}/{path}", "xb") as file:
        file.write(content)
    return path, content.size


def file_statistics(rows: pa.Table, table: Table) -> dict[str, Any]:
    """Return a file's statistics for the log: rows, and the least and greatest of the key columns."""
    ends = {name: pc.min_max(rows[name]) for name in table.primary_key}
    bounded = {name: end for name, end in ends.items() if end["max"].is_valid and len(str(end["max"])) <= MAX_STATISTIC_CHARACTERS}
    return {
        "numRecords": rows.num_rows,
        "minValues": {name: _statistic(end["min"]) for name, end in bounded.items()},
        "maxValues": {name: _statistic(end["max"]) for name, end in bounded.items()},
        "nullCount": {name: rows[name].null_count for name in table.primary_key},
    }


def _statistic(value: pa.Scalar) -> object:
    """Return a value for statistics: timestamps are rounded down to milliseconds, as readers expect."""
    if value.type == MICROSECONDS:
        moment = EPOCH + timedelta(milliseconds=value.cast(pa.int64()).as_py() // 1_000)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1_000:03}Z"
    python_value = value.as_py()
    return int(python_value) if isinstance(python_value, Decimal) else python_value


def now_ms() -> int:
    """Return the current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def sorted_rows(rows: pa.Table, table: Table) -> pa.Table:
    """Return rows sorted by key."""
    if table.key is None:
        return sort_rows(rows, table.series_key, table.timestamp.name)
    return rows.sort_by([(name, "ascending") for name in table.primary_key])


def stage_rows(rows: pa.Table, table: Table, uri: str) -> StagedFile:
    """Write rows as a staged data file, sorted by subtable and time."""
    rows = sorted_rows(rows, table)
    action = write_file(uri, rows, table, data_change=True)
    names = (rows[table.series_key][0].as_py(), rows[table.series_key][-1].as_py())
    times = time_bounds(rows, table.timestamp.name)
    return StagedFile(action.path, action.size, action.modification_time, action.stats, rows.num_rows, times, names)


def staged_files_in(uri: str, folder: str, table: Table, schema: pa.Schema) -> list[StagedFile]:
    """Return the nonempty Parquet files that another writer has left in a folder of a table."""
    system, root = file_system(uri)
    entries = system.get_file_info(pafs.FileSelector(f"{root}/{folder}", allow_not_found=True))
    files = sorted((info for info in entries if info.base_name.endswith(".parquet")), key=lambda info: str(info.base_name))
    staged = [describe_file(uri, f"{folder}/{info.base_name}", int(info.size), table, schema) for info in files]
    return [file for file in staged if file.rows]


def describe_file(uri: str, path: str, size: int, table: Table, schema: pa.Schema) -> StagedFile:
    """Describe a file to add. Its keys are read, as footers lack some of the statistics."""
    keys = read_data_files(uri, [path], schema, list(table.primary_key), None)
    if not keys.num_rows:
        return StagedFile(path, size, now_ms(), "{}", 0, Bounds(0, 0), ("", ""))
    names = pc.min_max(keys[table.series_key])
    bounded = json.dumps(file_statistics(keys, table))
    times = time_bounds(keys, table.timestamp.name)
    return StagedFile(path, size, now_ms(), bounded, keys.num_rows, times, (names["min"].as_py(), names["max"].as_py()))
