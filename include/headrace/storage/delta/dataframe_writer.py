"""Writes DataFrames: executors write the files, the driver commits them under the same guard as small writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from headrace.model.tables import Database, Table
from headrace.storage.delta import merging, spark_writes, staging
from headrace.storage.delta.commits import Commit, CommitStatus, WriteMetrics, commit_status
from headrace.storage.delta.data_files import read_data_files
from headrace.storage.delta.handles import Handle, Handles
from headrace.storage.delta.keys import anti_join, keep_last_per_key
from headrace.storage.delta.merging import mark_operation
from headrace.storage.delta.staged_files import StagedFile
from headrace.storage.delta.writer import Writer, commit_transactions
from headrace.storage.types import rows_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DataFrameWriter:
    """Replaces rows of tables with those of DataFrames.

    Executors write staged files. If none of the keys exists, one commit adds these files; otherwise delta-rs merges them in the
    driver as a stream. Either is a compare-and-set on the version at which the guard was verified, so that a driver that has lost
    its lease cannot commit. (Spark's MERGE cannot guarantee that: it commits on top of versions that it has not read.)
    """

    def __init__(self, handles: Handles, writer: Writer) -> None:
        self._handles = handles
        self._writer = writer

    def replace(
        self,
        table: Table,
        database: Database,
        upserts: DataFrame | None,
        deletes: DataFrame | None,
        commit: Commit | None,
    ) -> WriteMetrics | None:
        """Do what `Writer.replace` does for results that should not pass through the driver: executors write them.

        `upserts` has one row per key. Raises what `replace` does, and `OperationalError` or `ConflictError` if Spark fails.
        """
        schema, uri = rows_schema(table, database), self._handles.writer(table).uri
        files = [] if upserts is None else spark_writes.stage_frame(upserts, uri, table, schema)
        deleted_files = [] if deletes is None else spark_writes.stage_frame(deletes, uri, table, schema)
        staged = staging.StagedFileCleanup(uri, [*files, *deleted_files])

        def work(handle: Handle, delta: DeltaTable) -> WriteMetrics | None:
            if commit_status(handle, delta, commit) is CommitStatus.RECORDED:
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
