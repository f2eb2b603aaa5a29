"""Writes points of trees that executors make: they stage files in the order of keys, and the driver commits them.

The driver sees the rows of one staged file at a time, and as many stored ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from headrace.model.tables import Database, Table
from headrace.storage.delta import merging, spark_writes, staging
from headrace.storage.delta.commits import WriteMetrics
from headrace.storage.delta.data_files import read_batches, read_data_files
from headrace.storage.delta.handles import Handle, Handles
from headrace.storage.delta.keys import semi_join
from headrace.storage.delta.points import Key, PointChunk, ReplacedPoints, Replacement
from headrace.storage.delta.pruning import as_stored_integers, key_filter, prune_files
from headrace.storage.delta.staged_files import ROW_GROUP_ROWS, StagedFile
from headrace.storage.delta.writer import Writer
from headrace.storage.object_store import file_system
from headrace.storage.types import rows_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class PointsFrameWriter:
    """Writes points of trees from DataFrames."""

    def __init__(self, handles: Handles, writer: Writer) -> None:
        self._handles = handles
        self._writer = writer

    def write(
        self,
        table: Table,
        database: Database,
        rows: DataFrame,
        replaced: ReplacedPoints | None = None,
        *,
        max_rows: int,
        check: Callable[[], None] = lambda: None,
    ) -> WriteMetrics:
        """Do what `Writer.write_points` does for points that should not pass through the driver at once: executors write them.

        `rows` has one row per key, and `max_rows` is about new rows too. Raises `OperationalError` too if Spark fails.
        """
        schema, uri, written = rows_schema(table, database), self._handles.writer(table).uri, rows.columns
        file_rows = max_rows or ROW_GROUP_ROWS
        files = spark_writes.stage_sorted(rows, uri, table, schema, file_rows)
        staged = staging.StagedFileCleanup(uri, files)

        def work(handle: Handle, delta: DeltaTable) -> WriteMetrics:
            check()
            staged.keep_none()
            if replaced is not None:
                chunks = key_ranges(uri, files, table, schema)
                replacement = Replacement(uri, handle.files(delta), table, schema, chunks, replaced, file_rows)
                if replacement.changes_stored_rows():
                    return merging.replace(delta, table, schema, replacement.reader(), replacement.scope(), None)
            elif any(has_stored_key(uri, handle.files(delta), table, schema, file, file_rows) for file in files):
                new = staging.read_batches(uri, files, schema)
                return merging.upsert(delta, table, schema, new, staging.staged_scope(files), written, None)
            return staging.add_files(delta, staged.hand_over(files), None) if files else WriteMetrics(delta.version())

        with staged:
            return self._writer.noted(table, self._writer.commit(table, work))


def has_stored_key(uri: str, stored: pa.Table, table: Table, schema: pa.Schema, file: StagedFile, max_rows: int) -> bool:
    """Return whether the table's data files have one of the keys of a staged file. Their keys are read in batches."""
    key = list(table.primary_key)
    keys = read_data_files(uri, [file.path], schema, key, None)
    names = pc.unique(keys[table.series_key]).to_pylist()
    paths = prune_files(stored, table, schema, file.times, names)["path"].to_pylist()
    pushed, series = key_filter(table, schema, file.times, names), (table.series_key, names)
    batches = read_batches(uri, paths, schema, key, pushed, series, encoded=False, max_rows=max_rows)
    return any(semi_join(keys, pa.Table.from_batches([batch]).cast(keys.schema), key).num_rows for batch in batches)


def key_ranges(uri: str, files: Sequence[StagedFile], table: Table, schema: pa.Schema) -> list[PointChunk]:
    """Return files whose keys adjoin each other as chunks; a chunk without rows if there are no files."""
    if not files:
        return [PointChunk(schema.empty_table, None)]
    ordered = sorted((first_key(uri, file, table), file) for file in files)
    firsts: list[Key | None] = [None, *(key for key, _ in ordered[1:]), None]
    return [
        PointChunk(
            lambda path=file.path: read_data_files(uri, [path], schema, None, None).cast(schema),  # type: ignore[misc]
            file.times,
            firsts[number],
            firsts[number + 1],
        )
        for number, (_, file) in enumerate(ordered)
    ]


def first_key(uri: str, file: StagedFile, table: Table) -> Key:
    system, root = file_system(uri)
    with pq.ParquetFile(f"{root}/{file.path}", filesystem=system) as parquet:
        first = next(parquet.iter_batches(batch_size=1, columns=list(table.primary_key)))
    times = as_stored_integers(first.column(table.timestamp.name))
    return first.column(table.series_key)[0].as_py(), times[0].as_py()
