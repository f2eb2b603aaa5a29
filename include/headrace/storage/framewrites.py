"""Results as DataFrames: written by executors, committed by the driver under the same guard as small ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from headrace.model.tables import Database, Table
from headrace.storage import bulk, merging, staging
from headrace.storage.commits import Commit, Standing, Written, standing
from headrace.storage.datafiles import read_files
from headrace.storage.files import StagedFile
from headrace.storage.handles import Handle, Handles
from headrace.storage.keys import last_of_each_key, without
from headrace.storage.merging import mark
from headrace.storage.types import rows_schema
from headrace.storage.writes import Writer, record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FrameWriter:
    """Replaces rows of tables by those of DataFrames.

    Executors write the rows as data files that no commit names yet. Where none of the keys exists, these very files are then added
    by one commit; else delta-rs merges them in the driver, streaming. Either is a compare-and-set on the version at which the guard
    was verified, like every other commit, so that a driver that lost its lease can commit as little here as there. (A merge by
    Spark could not promise that: it commits on top of versions that it has not seen.)
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
        fresh: bool,
    ) -> Written | None:
        schema, uri = rows_schema(table, database), self._handles.writer(table).uri
        files = [] if upserts is None else bulk.stage_frame(upserts, uri, table, schema)
        gone = [] if deletes is None else bulk.stage_frame(deletes, uri, table, schema)
        staged = staging.Sweep(uri, [*files, *gone])

        def work(handle: Handle, delta: DeltaTable) -> Written | None:
            if standing(delta, commit) is Standing.RECORDED:
                return None
            if not files and not gone:
                return record(delta, commit)
            if not gone and (fresh or not staging.shares_keys(handle, delta, table, schema, files)):
                return staging.add(delta, staged.handed(files), commit)
            rows = _marked(uri, table, schema, files, gone)
            written = merging.replace(delta, table, schema, rows, staging.scope([*files, *gone]), commit)
            return written if written.rows else record(delta, commit)

        with staged:
            return self._writer.commit(table, work)


def _marked(uri: str, table: Table, schema: pa.Schema, files: list[StagedFile], gone: list[StagedFile]) -> pa.RecordBatchReader:
    """Staged rows as a merge takes them; keys that are to be deleted and upserted are upserted."""
    deletes = mark(_doomed(uri, table, schema, files, gone), merging.DELETE)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in staging.reader(uri, files, schema) if files else ():
            yield from mark(pa.Table.from_batches([batch]), merging.UPSERT).to_batches()
        yield from deletes.to_batches()

    return pa.RecordBatchReader.from_batches(merging.marked_schema(schema), batches())


def _doomed(uri: str, table: Table, schema: pa.Schema, files: list[StagedFile], gone: list[StagedFile]) -> pa.Table:
    """Rows to be deleted, one a key, of which none is upserted."""
    if not gone:
        return schema.empty_table()
    key = list(table.primary_key)
    rows = last_of_each_key(staging.reader(uri, gone, schema).read_all(), key)
    kept = read_files(uri, [file.path for file in files], schema, key, None)
    return without(rows, kept, key).select(schema.names)
