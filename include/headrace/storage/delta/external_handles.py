"""Handles of external tables."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pyarrow as pa
from deltalake import DeltaTable

from headrace.errors import HistoryGoneError
from headrace.model.external_tables import External, ExternalFormat
from headrace.model.tables import Table
from headrace.storage.delta.column_mapping import mapping_mode
from headrace.storage.delta.deletion_vectors import FEATURE, VECTOR
from headrace.storage.delta.external_rows import ExternalRows
from headrace.storage.delta.handles import Handle, list_files
from headrace.storage.delta.iceberg_tables import IcebergTable
from headrace.storage.delta.log_entries import is_local
from headrace.storage.delta.mirrors import Mirror, Source
from headrace.storage.delta.parquet_folders import ParquetFolder
from headrace.storage.delta.snapshots import Snapshot
from headrace.storage.delta.text_folders import TextFolder
from headrace.storage.delta.vector_log import VectorLog


def source_of(uri: str, table: Table, external: External) -> Source:
    """Return what follows files without a Delta log, for the log at a URI."""
    if external.format.is_text:
        return TextFolder(uri, table, external)
    if external.format is ExternalFormat.PARQUET:
        return ParquetFolder(external.location)
    return IcebergTable(external.location, external.catalog)


class ExternalHandle(Handle):
    """A Delta table of another writer, or our own that names the files of another writer."""

    def __init__(self, uri: str, name: str, table: Table, external: External) -> None:
        """Create a handle of a table that is opened on first use."""
        super().__init__(uri, name)
        self._table = table
        self._definition = external
        self._mirror = None
        if external.format.is_mirrored:
            is_near = is_local(external.location) and not external.catalog
            cost = time.thread_time if is_near else time.monotonic
            self._mirror = Mirror(uri, source_of(uri, table, external), cost)
        self._vectors = VectorLog(uri)
        # The files of the last version that was read, and what they are as rows.
        self._converted: tuple[pa.Table, Snapshot] | None = None

    def as_rows(self, snapshot: Snapshot) -> Snapshot:
        """Return a version with the files and columns of the table's rows."""
        if self._converted is None or self._converted[0] is not snapshot.files:
            mode = mapping_mode(snapshot.properties)
            self.data = rows = ExternalRows(self.uri, self._table, self._definition, snapshot.schema, mode)
            converted = replace(snapshot, schema=rows.schema, files=rows.listed(snapshot.files))
            self._converted = (snapshot.files, converted)
        return self._converted[1]

    def list_files(self, delta: DeltaTable) -> pa.Table:
        """See `Handle`: with the deletion vectors of files, as JSON, if there may be any."""
        files = list_files(delta)
        if FEATURE not in (delta.protocol().reader_features or ()):
            return files
        with self._mutex:
            vectors = dict(self._vectors.at(delta.version()))
        texts = [json.dumps(vectors[path]) if path in vectors else None for path in files["path"].to_pylist()]
        return files.append_column(VECTOR, pa.array(texts, pa.string()))

    def _follow_source(self) -> None:
        if self._mirror is not None:
            self._mirror.sync()

    def _check_identity(self, delta: DeltaTable) -> None:
        self._vectors = VectorLog(self.uri)
        if str(delta.metadata().id) != self._definition.table_id:
            self._delta = None
            raise HistoryGoneError(
                f"the table at {self._definition.location} has been made again since {self.name} was created",
                hint="drop the external table and create it again, and its streams",
            )
