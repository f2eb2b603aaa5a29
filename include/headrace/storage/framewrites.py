"""Results as DataFrames: written by executors, committed by the driver under the same guard as small ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import DeltaTable

from headrace.model.tables import Database, Table
from headrace.storage import bulk, staging
from headrace.storage.commits import Commit, Standing, Written, standing
from headrace.storage.files import StagedFile
from headrace.storage.handles import Handle, Handles
from headrace.storage.types import rows_schema
from headrace.storage.writes import Writer, record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MERGE: Final = Written(-1)


class FrameWriter:
    """Replaces rows of tables by those of DataFrames.

    Executors write the rows as data files first. Where none of the keys exists, these files are then added by one commit of delta-rs,
    a compare-and-set like any other. Else Spark merges them, under the table's lock, after the guard was verified under it. Should
    the lock be lost meanwhile (a connection to the catalog that broke), Delta's conflict detection protects: the merge has read
    the stream's app transaction, which `fence` writes anew, so that it fails when a fence came in between.
    """

    def __init__(self, handles: Handles, writer: Writer) -> None:
        self._handles = handles
        self._writer = writer

    def replace(
        self,
        spark: SparkSession,
        table: Table,
        database: Database,
        upserts: DataFrame | None,
        deletes: DataFrame | None,
        commit: Commit | None,
        fresh: bool,
    ) -> Written | None:
        schema, uri = rows_schema(table, database), self._handles.writer(table).uri
        files = [] if upserts is None else bulk.stage_frame(upserts, uri, table, schema)
        gone = [] if deletes is None else bulk.stage_frame(deletes, uri, table, schema)
        kept = False
        try:
            with self._writer.exclusive(self._writer.lock_name(table)):
                written = self._add(table, schema, files, gone, commit, fresh)
                kept = written is not None and written is not _MERGE
                return self._merge(spark, table, schema, files, gone, commit) if written is _MERGE else written
        finally:
            staging.discard(uri, gone if kept else [*files, *gone])

    def _add(
        self, table: Table, schema: pa.Schema, files: list[StagedFile], gone: list[StagedFile], commit: Commit | None, fresh: bool
    ) -> Written | None:
        """Adds the files; `_MERGE` where that is not enough, None where the commit is recorded."""

        def work(handle: Handle, delta: DeltaTable) -> Written | None:
            if standing(delta, commit) is Standing.RECORDED:
                return None
            if not files and not gone:
                return record(delta, commit)
            if gone or not (fresh or not staging.shares_keys(handle, delta, table, schema, files)):
                return _MERGE
            return staging.add(delta, files, commit)

        return self._writer.attempts(self._handles.writer(table), work)

    def _merge(
        self,
        spark: SparkSession,
        table: Table,
        schema: pa.Schema,
        files: list[StagedFile],
        gone: list[StagedFile],
        commit: Commit | None,
    ) -> Written:
        uri = self._handles.writer(table).uri
        parts = []
        if files:
            parts.append(bulk.marked(bulk.staged_frame(spark, uri, files), bulk.UPSERT))
        if gone:
            keys = [bulk.ticked(name) for name in table.primary_key]
            doomed = bulk.staged_frame(spark, uri, gone).dropDuplicates(list(table.primary_key))
            if files:
                doomed = doomed.join(bulk.staged_frame(spark, uri, files).select(*keys), list(table.primary_key), "left_anti")
            parts.append(bulk.marked(doomed.select(*(bulk.ticked(name) for name in schema.names)), bulk.DELETE))
        rows = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
        bounds = staging.bounds_of_all([*files, *gone])
        merged = bulk.merge(spark, uri, rows, table, schema, bounds, None, commit, whole=True)
        return self._ended(table, merged, commit)

    def _ended(self, table: Table, merged: Written, commit: Commit | None) -> Written:
        """The merge with its version; a commit that changed nothing is recorded all the same."""

        def work(_: Handle, delta: DeltaTable) -> Written:
            if commit is not None and standing(delta, replace(commit, expected=None)) is Standing.NEW:
                return record(delta, commit)
            return replace(merged, version=delta.version())

        return self._writer.attempts(self._handles.writer(table), work)
