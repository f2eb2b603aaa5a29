"""Staged data files: Parquet files that no commit has added yet, with their statistics."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from headrace.model.instants import EPOCH
from headrace.model.tables import Table
from headrace.storage.delta.data_files import read_data_files
from headrace.storage.delta.log_entries import is_local
from headrace.storage.delta.pruning import Bounds
from headrace.storage.delta.row_order import decoded, least_and_greatest, sort_rows
from headrace.storage.object_store import file_system
from headrace.storage.types import MICROSECONDS

ROW_GROUP_ROWS: Final = 131_072
# Up to this many rows, dictionaries and a strong compression take more time than they save.
MAX_PLAIN_ROWS: Final = 8_192
# How many rows far apart, and how many in runs, show whether the values of a column repeat.
SAMPLE_ROWS: Final = 512
SAMPLE_RUNS: Final = 8
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

    def action(self, *, data_change: bool = True) -> AddAction:
        """Return the action by which delta-rs adds the file."""
        return AddAction(self.path, self.size, {}, self.modified, data_change, self.statistics)

    def overlaps(self, other: StagedFile) -> bool:
        """Return whether the two may hold the same key."""
        return self.times.overlaps(other.times) and self.names[0] <= other.names[1] and other.names[0] <= self.names[1]


def write_file(uri: str, rows: pa.Table, table: Table) -> StagedFile:
    """Write one or more rows as a staged data file of a table."""
    path, size = write_parquet(uri, "part-00000-", rows, [tag.name for tag in table.tags])
    return staged_file(path, size, rows, table)


def write_parquet(uri: str, prefix: str, rows: pa.Table, repeated: Collection[str] = ()) -> tuple[str, int]:
    """Write rows as a Parquet file in a folder that exists; return its path below the table, and its size.

    Columns whose names are among `repeated` are written as dictionaries.
    """
    is_small = rows.num_rows <= MAX_PLAIN_ROWS
    codec = "snappy" if is_small else "zstd"
    path = f"{prefix}{uuid.uuid4()}-c000.{codec}.parquet"
    write = partial(
        pq.write_table,
        rows,
        compression=codec,
        use_dictionary=dictionary_columns(rows, repeated, is_small=is_small),
        row_group_size=ROW_GROUP_ROWS,
        write_batch_size=MAX_PLAIN_ROWS,
        # That of Arrow says what is a dictionary. Readers take types from the log.
        store_schema=False,
    )
    system, root = file_system(uri)
    if not is_local(uri):
        write(f"{root}/{path}", filesystem=system)
        return path, int(system.get_file_info(f"{root}/{path}").size)
    try:
        if not is_small:
            write(f"{root}/{path}")
            return path, os.path.getsize(f"{root}/{path}")
        # One call of the operating system, instead of one for each page.
        buffer = pa.BufferOutputStream()
        write(buffer)
        content = buffer.getvalue()
        with open(f"{root}/{path}", "xb") as file:
            file.write(content)
        return path, content.size
    except BaseException:
        with suppress(OSError):
            os.unlink(f"{root}/{path}")
        raise


def dictionary_columns(rows: pa.Table, repeated: Collection[str], *, is_small: bool) -> list[str]:
    """Return the columns to write as dictionaries: those that are, those of `repeated`, and in a large file others that repeat.

    A dictionary of distinct values makes a file larger, and takes most of the time to write it.
    """
    return [
        field.name
        for field in rows.schema
        if pa.types.is_dictionary(field.type) or field.name in repeated or not (is_small or is_distinct(rows[field.name]))
    ]


def is_distinct(column: pa.ChunkedArray) -> bool:
    """Return whether most values of a column are distinct, both among rows far apart and among those that follow each other."""
    count = len(column)
    apart = np.linspace(0, count - 1, min(count, SAMPLE_ROWS)).astype(np.int64)
    starts = apart[:: SAMPLE_ROWS // SAMPLE_RUNS]
    runs = (starts[:, None] + np.arange(min(count, SAMPLE_ROWS // SAMPLE_RUNS))).ravel()
    samples = [column.take(pa.array(positions)) for positions in (apart, runs[runs < count])]
    return all(2 * len(sample.unique()) > len(sample) for sample in samples)


def staged_file(path: str, size: int, keys: pa.Table, table: Table) -> StagedFile:
    """Return the description of a file with the keys of its rows, of which there is one at least."""
    ends = {name: least_and_greatest(keys[name]) for name in table.primary_key}
    times = Bounds(*(ends[table.timestamp.name][end].cast(pa.int64()).as_py() for end in ("min", "max")))
    names = (ends[table.series_key]["min"].as_py(), ends[table.series_key]["max"].as_py())
    return StagedFile(path, size, now_ms(), json.dumps(file_statistics(keys, ends)), keys.num_rows, times, names)


def file_statistics(keys: pa.Table, ends: Mapping[str, pa.StructScalar]) -> dict[str, Any]:
    """Return a file's statistics for the log: rows, and the least and greatest of the key columns, which are known."""
    least, greatest = ({name: _statistic(own[end]) for name, own in ends.items()} for end in ("min", "max"))
    bounded = [name for name, value in greatest.items() if value is not None and len(str(value)) <= MAX_STATISTIC_CHARACTERS]
    return {
        "numRecords": keys.num_rows,
        "minValues": {name: least[name] for name in bounded},
        "maxValues": {name: greatest[name] for name in bounded},
        "nullCount": {name: keys[name].null_count for name in ends},
    }


def _statistic(value: pa.Scalar) -> object:
    """Return a value for statistics: timestamps are rounded down to milliseconds, as readers expect."""
    if value.type == MICROSECONDS and value.is_valid:
        moment = EPOCH + timedelta(milliseconds=value.cast(pa.int64()).as_py() // 1_000)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1_000:03}Z"
    python_value = value.as_py()
    return int(python_value) if isinstance(python_value, Decimal) else python_value


def now_ms() -> int:
    """Return the current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def sorted_rows(rows: pa.Table, table: Table) -> pa.Table:
    """Return rows sorted by key. Their series key may be a dictionary, before and after."""
    if table.key is None:
        return sort_rows(rows, table.series_key, table.timestamp.name)
    return decoded(rows).sort_by([(name, "ascending") for name in table.primary_key])


def stage_rows(rows: pa.Table, table: Table, uri: str) -> StagedFile:
    """Write rows as a staged data file, sorted by subtable and time."""
    return write_file(uri, sorted_rows(rows, table), table)


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
    return staged_file(path, size, keys, table)
