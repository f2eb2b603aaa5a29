"""Writes DataFrames: executors write the files, the driver commits them under the same guard as small writes.

Points of trees are staged in the order of keys: the driver sees the rows of one staged file at a time, and as many stored ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from headrace.model.tables import Database, Table
from headrace.storage.delta import merging, spark_writes, staging
from headrace.storage.delta.commits import Commit, WriteMetrics, is_recorded
from headrace.storage.delta.data_files import read_batches, read_data_files
from headrace.storage.delta.handles import Handle
from headrace.storage.delta.keys import anti_join, keep_last_per_key, semi_join
from headrace.storage.delta.merging import mark_operation
from headrace.storage.delta.points import Key, PointChunk, ReplacedPoints, Replacement
from headrace.storage.delta.pruning import as_stored_integers, key_filter, prune_files
from headrace.storage.delta.staged_files import ROW_GROUP_ROWS, StagedFile
from headrace.storage.delta.table_handles import Handles
from headrace.storage.delta.writer import Writer, commit_transactions
from headrace.storage.object_store import file_system
from headrace.storage.types import rows_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DataFrameWriter:
    """Replaces rows of tables with those of DataFrames, and writes points of trees from them.

    Executors write staged files. If none of the keys exists, one commit adds these files; otherwise delta-rs merges them in the
    driver as a stream. Either is a compare-and-set on the version at which the guard was verified, so that a driver that has lost
    its lease cannot commit. (Spark's MERGE cannot guarantee that: it commits on top of versions that it has not read.)
    """

    def __init__(self, handles: Handles, writer: Writer) -> None:
        self._handles = handles
        self._writer = writer

    def replace(
        self, table: Table, database: Database, upserts: DataFrame | None, deletes: DataFrame | None, commit: Commit | None
    ) -> WriteMetrics | None:
        """Do what `Writer.replace` does for results that should not pass through the driver: executors write them.

        `upserts` has one row per key. Raises what `replace` does, and `OperationalError` or `ConflictError` if Spark fails.
        """
        schema, uri = rows_schema(table, database), self._handles.writer(table).uri
        files = [] if upserts is None else spark_writes.stage_frame(upserts, uri, table, schema)
        deleted_files = [] if deletes is None else spark_writes.stage_frame(deletes, uri, table, schema)
        staged = staging.StagedFileCleanup(uri, [*files, *deleted_files])

        def work(handle: Handle, delta: DeltaTable) -> WriteMetrics | None:
            if is_recorded(handle, delta, commit):
                return None
            if not files and not deleted_files:
                return commit_transactions(delta, commit)
            if not deleted_files and not staging.has_stored_keys(handle, delta, table, schema, files):
                return staging.add_files(delta, staged.hand_over(files), commit)
            rows = _mark_rows(uri, table, schema, files, deleted_files)
            written = merging.replace(delta, table, schema, rows, staging.staged_scope([*files, *deleted_files]), commit)
            return written if written.rows else commit_transactions(delta, commit)

        with staged:
            written = self._writer.commit(table, work)
        return None if written is None else self._writer.noted(table, written)

    def write_points(
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


def _mark_rows(
    uri: str, table: Table, schema: pa.Schema, files: list[StagedFile], deleted_files: list[StagedFile]
) -> pa.RecordBatchReader:
    """Return staged rows as the input of a merge; a key to delete and upsert is upserted."""
    deletes = mark_operation(_rows_to_delete(uri, table, schema, files, deleted_files), merging.DELETE)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in staging.read_batches(uri, files, schema) if files else ():
            yield from mark_operation(pa.Table.from_batches([batch]), merging.UPSERT).to_batches()
        yield from deletes.to_batches()

    return pa.RecordBatchReader.from_batches(merging.operations_schema(schema), batches())


def _rows_to_delete(
    uri: str, table: Table, schema: pa.Schema, files: list[StagedFile], deleted_files: list[StagedFile]
) -> pa.Table:
    """Return rows to delete, one per key, without those to upsert."""
    if not deleted_files:
        return schema.empty_table()
    key = list(table.primary_key)
    rows = keep_last_per_key(staging.read_batches(uri, deleted_files, schema).read_all(), key)
    kept = read_data_files(uri, [file.path for file in files], schema, key, None)
    return anti_join(rows, kept, key).select(schema.names)


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
