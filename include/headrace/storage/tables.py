"""The entry point to Delta tables: create, drop, read, load; its parts write, change columns and tags, and maintain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from headrace.model.positions import Position, SourceId
from headrace.model.tables import Database, Table
from headrace.model.windows import WindowGrid
from headrace.storage.delta import creation, spark_writes, text_folders
from headrace.storage.delta.changes import Changes
from headrace.storage.delta.commits import committed_position
from headrace.storage.delta.dataframe_writer import DataFrameWriter
from headrace.storage.delta.evolution import Evolution
from headrace.storage.delta.external_files import ExternalFile, external_files
from headrace.storage.delta.external_frames import external_frame
from headrace.storage.delta.external_rows import ExternalRows
from headrace.storage.delta.external_source import ExternalSource
from headrace.storage.delta.handles import normalize_root, rows_uri, stored_schema
from headrace.storage.delta.maintenance import Maintenance
from headrace.storage.delta.outbox import Outbox
from headrace.storage.delta.pruning import Bounds
from headrace.storage.delta.scans import Scans, declared_schema, files_at
from headrace.storage.delta.share_planning import Division, Footers
from headrace.storage.delta.shares import ALL_SERIES, SeriesRange, Share, with_tags
from headrace.storage.delta.subtable_names import SubtableNames
from headrace.storage.delta.table_handles import Handles
from headrace.storage.delta.tags import Tags
from headrace.storage.delta.writer import Lock, Writer
from headrace.storage.loading.loader import Loader
from headrace.storage.loading.tree_loader import TreeLoader
from headrace.storage.object_store import delta_options
from headrace.storage.types import rows_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Tables(Scans):
    """All Delta tables below one URI. Thread-safe; create one per process and settings.

    The `lock` excludes other processes, by name. Loads of up to `small_write_rows` rows are written by delta-rs rather than by
    Spark. After commits, `maintenance` also starts compaction in the background. `check_location` raises an error for places of
    external tables that may not be read.
    """

    def __init__(
        self, uri: str, lock: Lock, small_write_rows: int, check_location: Callable[[str], object] = lambda _: None
    ) -> None:
        self.uri = normalize_root(uri)
        self.small_write_rows = small_write_rows
        super().__init__(Handles(self.uri, check_location))
        self._footers = Footers(self._handles)
        self.writer = Writer(self._handles, lock)
        self.frames = DataFrameWriter(self._handles, self.writer)
        self.tags = Tags(self._handles, self.writer, SubtableNames(self._handles))
        self.columns = Evolution(self._handles, self.writer)
        self.changes = Changes(self._handles)
        self.maintenance = Maintenance(self._handles, self.writer)
        self.writer.listeners.add(self.maintenance.committed)

    def create(self, table: Table, database: Database) -> None:
        """Create a table's Delta tables: its rows, and for a supertable its tags. An empty table of the same columns may exist.

        Raises:
            ExistsError: Other columns, or rows, are stored there.
            LimitError: A type or column name cannot be stored.
        """
        creation.create_table(self.uri, table, database)

    def create_external(self, table: Table, source: ExternalSource) -> Table:
        """Create what an external table needs here, the log of files that have none, and return it with the id of its log."""
        if table.external is None or not table.external.format.is_mirrored:
            return table
        schema = text_folders.log_schema(table, table.external) if table.external.format.is_text else source.schema
        table_id = creation.create_mirror(rows_uri(self.uri, table), schema, source.partitions)
        return replace(table, external=replace(table.external, table_id=table_id))

    def external_files(self, table: Table) -> list[ExternalFile]:
        """Return the files of an external table, the newest first, at most `MAX_LISTED_FILES`."""
        assert table.external is not None
        return external_files(self._handles.reader(table), table.external)

    def check(self, table: Table, database: Database) -> None:
        """Raise `LimitError` if the table has types or column names that cannot be stored; `create` does so too."""
        creation.check_storable(table, database)

    def drop(self, table: Table) -> None:
        """Remove a table with all its files, if it exists."""
        self._handles.forget(table)
        creation.drop_table(self.uri, table)

    def has_leftovers(self, database: str, table: str | None = None) -> bool:
        """Return whether there are files below the folder of a database or table, which the catalog does not have."""
        return creation.has_files(self.uri, database, table)

    def drop_leftovers(self, database: str, table: str | None = None) -> None:
        """Remove the folder of a database or table that the catalog does not have, if it exists."""
        creation.drop_folder(self.uri, database, table)

    def remove_dropped(self) -> None:
        """Remove what interrupted drops have left of tables that are dropped."""
        creation.remove_dropped(self.uri)

    def exists(self, table: Table) -> bool:
        """Return whether the table's Delta table exists."""
        return DeltaTable.is_deltatable(rows_uri(self.uri, table), storage_options=delta_options(self.uri))

    def schema(self, table: Table, database: Database) -> pa.Schema:
        """Return the stored columns of a table: the declared ones, then `tbname`; field metadata has the declared type."""
        return rows_schema(table, database)

    def version(self, table: Table) -> int:
        """Return the newest version of a table's rows; cheap enough to poll."""
        return self._handles.reader(table).version()

    def transaction(self, table: Table, app: str) -> int | None:
        """Return the version recorded for an app transaction, or None."""
        handle = self._handles.reader(table)
        with handle.latest() as delta:
            return handle.transaction_version(delta, app)

    def committed_position(self, table: Table, job_id: str, sources: Collection[SourceId]) -> Position | None:
        """Return the position that a table has recorded of a job that writes to it; None if it has no results of it."""
        return committed_position(self._handles.reader(table), job_id, sources)

    def shares(
        self,
        table: Table,
        columns: Sequence[str],
        tasks: int,
        *,
        version: int | None = None,
        bounds: Bounds | None = None,
        series: SeriesRange = ALL_SERIES,
        by_series: bool = True,
        windows: WindowGrid | None = None,
        paths: Sequence[str] | None = None,
    ) -> list[Share]:
        """Divide the rows of a table among tasks that read these stored columns and tags from the data files with Arrow.

        `bounds` are stored timestamps, inclusive; `paths` are data files of the version, by default all. A share has all rows of
        its series; without `by_series` it has some row groups, or all rows of some `windows`, which may not overlap. Raises what
        `Footers.plan` does.
        """
        tags = self.tags.read(table) if table.tags and table.external is None else None
        names = tags[table.series_key].to_pylist() if tags is not None else []
        shares = self._footers.plan(table, version, bounds, Division(tasks, series, names, by_series, windows), paths)
        if tags is None:
            return shares
        # Tags that are read after the files have those of all rows.
        return with_tags(shares, self.tags.read(table), [name for name in columns if table.is_tag(name)])

    def series_ranges(self, table: Table, version: int, rows: int) -> list[tuple[SeriesRange, int]]:
        """Divide the series of a table, as of a version, among ranges of about this many rows; return the rows of each too.

        Raises:
            NotSupportedError: The files do not define the rows alone.
        """
        has_tags = bool(table.tags) and table.external is None
        names = self.tags.read(table)[table.series_key].to_pylist() if has_tags else []
        return self._footers.series_ranges(table, version, names, rows)

    def frame(self, spark: SparkSession, table: Table, *, version: int | None = None) -> DataFrame:
        """Rows as stored, as a DataFrame, now or as of a version: the declared columns and `tbname`.

        Tags are not joined; those of an external table are columns.
        """
        handle = self._handles.reader(table)
        with handle.latest_snapshot() as newest:
            schema = declared_schema(table, newest.schema)
        if isinstance(handle.data, ExternalRows):
            handle.data.check_places(files_at(handle, version)[0]["path"].to_pylist())
            declared = handle.data.declared if version is None else stored_schema(handle.at(version))
            return external_frame(spark, handle.data, version, declared)
        return spark_writes.read_frame(spark, handle.uri, schema, version)

    def loader(self, spark: Callable[[], SparkSession], table: Table, database: Database) -> Loader:
        """Return what loads files and DataFrames into a table; `spark` starts the session, and is called only for large ones."""
        return Loader(self._handles, self.writer, self.small_write_rows, spark, table, database)

    def tree_loader(self, spark: Callable[[], SparkSession], table: Table, database: Database) -> TreeLoader:
        """Return what loads files into a tree; `spark` starts the session, and is called only for large ones."""
        return TreeLoader(self._handles, self.writer, self.small_write_rows, spark, table, database)

    def outbox(self, job_id: str) -> Outbox:
        """Return a job's outbox; it may not exist yet."""
        return Outbox(self.uri, job_id, self.writer)

    def close(self) -> None:
        """End background compaction."""
        self.maintenance.close()
