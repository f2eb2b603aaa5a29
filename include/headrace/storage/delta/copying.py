"""Copying a column file by file: an update by delta-rs keeps about 500 bytes per row in memory."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from headrace.model.failpoints import failpoint
from headrace.model.tables import Table
from headrace.storage.delta.changes import gather
from headrace.storage.delta.commits import commit_properties
from headrace.storage.delta.data_files import read_batches
from headrace.storage.delta.handles import Handle, refresh, stored_schema
from headrace.storage.delta.rewriting import rows_differ
from headrace.storage.delta.staged_files import ROW_GROUP_ROWS, describe_file, now_ms
from headrace.storage.object_store import file_system


class ColumnCopy:
    """Sets a column to the values of another, in one commit for each file in which they differ.

    The commits are no change of data, as those of compaction: the change feed has no rows of them. Files that are done are
    remembered, so that only new ones are read again after a conflict.
    """

    def __init__(self, table: Table, old: str, new: str) -> None:
        self._table = table
        self._old = old
        self._new = new
        self._done: set[str] = set()

    def run(self, handle: Handle, delta: DeltaTable) -> None:
        """Copy the values of all files; raise `CommitFailedError` if another writer commits meanwhile."""
        while pending := [file for file in handle.files(delta).to_pylist() if file["path"] not in self._done]:
            for file in pending:
                if self._differs(handle, file["path"], stored_schema(delta)):
                    added = self._rewrite(handle, file["path"], stored_schema(delta))
                    removed = RemoveAction(file["path"], False, now_ms(), file["size_bytes"], {})
                    properties = commit_properties(None)
                    delta.create_write_transaction([added, removed], "append", delta.schema(), commit_properties=properties)
                    refresh(delta, handle.uri)
                    failpoint("storage.file.copied")
                    self._done.add(added.path)
                self._done.add(file["path"])

    def _differs(self, handle: Handle, path: str, schema: pa.Schema) -> bool:
        columns = [self._old, self._new]
        batches = read_batches(handle.uri, [path], schema, columns, None, self._all_series, encoded=False, ahead=1)
        tables = (pa.Table.from_batches([batch]) for batch in batches)
        return any(rows_differ(rows.select([0]), rows.select([1]).rename_columns([self._old])).any() for rows in tables)

    def _rewrite(self, handle: Handle, path: str, schema: pa.Schema) -> AddAction:
        system, root = file_system(handle.uri)
        target, plain = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet", schema.remove_metadata()
        position = schema.get_field_index(self._new)
        batches = read_batches(
            handle.uri, [path], schema, schema.names, None, self._all_series, encoded=False, max_rows=ROW_GROUP_ROWS, ahead=1
        )
        with pq.ParquetWriter(f"{root}/{target}", plain, filesystem=system, compression="zstd") as writer:
            for rows in gather(batches, ROW_GROUP_ROWS):
                copied = rows.set_column(position, plain.field(position), rows[self._old])
                writer.write_table(copied.cast(plain), row_group_size=ROW_GROUP_ROWS)
        size = int(system.get_file_info(f"{root}/{target}").size)
        file = describe_file(handle.uri, target, size, self._table, schema)
        return file.action(data_change=False)

    @property
    def _all_series(self) -> tuple[str, None]:
        return self._table.series_key, None
