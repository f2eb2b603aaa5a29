"""The entry point to Delta tables: create, write, read, changes, tags, load, maintain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from headrace.model.positions import Position, SourceId
from headrace.model.tables import Column, Database, Table
from headrace.model.windows import WindowGrid
from headrace.storage.delta import changes, creation, scans, spark_reads
from headrace.storage.delta.changes import CommitSize, InsertedRows
from headrace.storage.delta.commits import Commit, WriteMetrics, committed_position
from headrace.storage.delta.dataframe_writer import DataFrameWriter
from headrace.storage.delta.evolution import Evolution
from headrace.storage.delta.handles import Handles, normalize_root, rows_uri, stored_schema
from headrace.storage.delta.maintenance import Maintenance
from headrace.storage.delta.outbox import Outbox
from headrace.storage.delta.points import ReplacedPoints
from headrace.storage.delta.points_frame import PointsFrameWriter
from headrace.storage.delta.pruning import Bounds
from headrace.storage.delta.share_planning import Division, Footers
from headrace.storage.delta.shares import ALL_SERIES, SeriesRange, Share, with_tags
from headrace.storage.delta.subtable_names import SubtableNames
from headrace.storage.delta.tags import Tags
from headrace.storage.delta.writer import Lock, Ranges, Writer
from headrace.storage.loading.loader import Loader, LoadMetrics, LoadOptions
from headrace.storage.loading.tree_loader import SeriesStore, TreeLoader, TreeLoadOptions
from headrace.storage.object_store import delta_options
from headrace.storage.types import field, rows_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Tables:
    """All Delta tables below one URI. Thread-safe; create one per process and settings.

    Args:
        uri: Root of the tables.
        lock: Mutual exclusion among processes, by name.
        small_write_rows: Rows up to which a load is written by delta-rs rather than by Spark.
    """

    def __init__(self, uri: str, lock: Lock, small_write_rows: int) -> None:
        self.uri = normalize_root(uri)
        self.small_write_rows = small_write_rows
        self._handles = Handles(self.uri)
        self._writer = Writer(self._handles, lock)
        self._tags = Tags(self._handles, self._writer, SubtableNames(self._handles))
        self._evolution = Evolution(self._handles, self._writer)
        self._maintenance = Maintenance(self._handles, self._writer)
        self._footers = Footers(self._handles)

    def create(self, table: Table, database: Database) -> None:
        """Create a table's Delta tables: its rows, and for a supertable its tags. An empty table of the same columns may exist.

        Raises:
            ExistsError: Other columns, or rows, are stored there.
            LimitError: A type or column name cannot be stored.
        """
        creation.create_table(self.uri, table, database)

    def check(self, table: Table, database: Database) -> None:
        """Raise `LimitError` if the table has types or column names that cannot be stored; `create` does so too."""
        creation.check_storable(table, database)

    def drop(self, table: Table) -> None:
        """Remove a table with all its files, if it exists."""
        self._handles.forget(table)
        creation.drop_table(self.uri, table)

    def add_columns(self, table: Table, database: Database, columns: Sequence[Column]) -> None:
        """Add the columns that a table lacks; idempotent. Readers and writers that do not know them ignore them, or write NULL.

        Raises:
            TypeMismatchError: A column of that name has another type.
            ExistsError: A column of that name was dropped.
            TransientError: The table is being loaded.
        """
        self._evolution.add(table, database, columns)

    def drop_column(self, table: Table, name: str, record: Callable[[], None]) -> None:
        """Mark a column as dropped, and `record` that: the Delta table keeps it, and the name cannot be used again."""
        self._evolution.retire(table, name, record)

    def rename_column(self, table: Table, database: Database, column: Column, new: str, record: Callable[[], None]) -> None:
        """Rename a column, which copies its values, and `record` that: the old one is then a dropped column."""
        self._evolution.rename(table, database, column, new, record)

    def modify_column(self, table: Table, column: Column) -> None:
        """Record the declared type of a column or tag whose stored type stays the same."""
        self._evolution.retype(table, column)

    def add_tag(self, table: Table, database: Database, tag: Column) -> None:
        """Add a tag, NULL for all subtables, also when a column of that name is left from an unfinished change."""
        self._tags.add(table, field(tag, database.precision))

    def drop_tag(self, table: Table, name: str) -> None:
        """Remove a tag with its values; one that does not exist is no error."""
        self._tags.remove(table, name)

    def rename_tag(self, table: Table, old: str, new: str, rename: Callable[[], None]) -> None:
        """Rename a tag. `rename` is called while both names have its values; the old name goes afterwards."""
        self._tags.rename(table, old, new, rename)

    def exists(self, table: Table) -> bool:
        """Return whether the table's Delta table exists."""
        return DeltaTable.is_deltatable(rows_uri(self.uri, table), storage_options=delta_options(self.uri))

    def schema(self, table: Table, database: Database) -> pa.Schema:
        """Return the stored columns of a table: the declared ones, then `tbname`; field metadata has the declared type."""
        return rows_schema(table, database)

    def write(
        self,
        table: Table,
        database: Database,
        rows: pa.Table,
        *,
        update_columns: Collection[str] | None = None,
        commit: Commit | None = None,
    ) -> WriteMetrics:
        """Insert rows, or update those whose key exists, in one commit.

        Args:
            table: The table.
            database: Its database.
            rows: Stored columns and `tbname`; a missing column is NULL. The last row of a key wins.
            update_columns: Columns that an update replaces; None for all.
            commit: Transaction to record. Nothing is written if it is recorded already, or if there are no rows.
        """
        return self._schedule_maintenance(table, self._writer.write(table, database, rows, update_columns, commit))

    def replace(
        self,
        table: Table,
        database: Database,
        upserts: pa.Table | None,
        deletes: pa.Table | None,
        commit: Commit | None,
        *,
        is_update: bool = False,
    ) -> WriteMetrics | None:
        """Upsert whole rows and delete keys in one commit, which is recorded even if no row changes.

        Rows that would not change are left out of the change feed. A key in both arguments is upserted.

        Args:
            table: The table.
            database: Its database.
            upserts: Stored columns and `tbname`.
            deletes: `tbname`, timestamp[, key].
            commit: Transaction to record.
            is_update: Most of the keys exist, so the table need not be searched for them before the merge.

        Returns:
            None if `commit` is recorded already.

        Raises:
            FencedError: The guard of `commit` does not hold; nothing is written.
            StaleReadError: The table has changed since `commit.read_version`; nothing is written.
        """
        written = self._writer.replace(table, database, upserts, deletes, commit, is_update)
        return None if written is None else self._schedule_maintenance(table, written)

    def fence(self, table: Table, job_id: str, epoch: int) -> None:
        """Make commits of drivers of a stream with an older epoch fail; raise `FencedError` if a newer one is recorded."""
        self._writer.fence(table, job_id, epoch)

    def retire(self, table: Table, job_id: str) -> None:
        """Make all later commits of a job to its target fail, those of its drivers and of its backfills. Idempotent."""
        self._writer.retire(table, job_id)

    def advance(self, table: Table, job_id: str) -> None:
        """Make commits fail that build on the present version, so that their writers check again whether they may commit."""
        self._writer.advance(table, job_id)

    def delete(
        self,
        table: Table,
        database: Database,
        *,
        tbnames: Collection[str] | None = None,
        ranges: Ranges | None = None,
        where: str | None = None,
    ) -> int:
        """Delete rows and return how many; commit only if there are some.

        Args:
            table: The table.
            database: Its database.
            tbnames: Subtables; None for all.
            ranges: Ranges of ticks, both ends inclusive; None for all times.
            where: A further condition, SQL of delta-rs over stored columns.
        """
        return self._schedule_maintenance(table, self._writer.delete(table, database, tbnames, ranges, where)).deleted

    def clear(
        self, table: Table, database: Database, columns: Sequence[tuple[str, Sequence[str]]], ranges: Ranges | None = None
    ) -> int:
        """Delete values of a tree and return the number of changed rows; rows without any value are deleted.

        Args:
            table: The tree's table.
            database: The tree's database.
            columns: Devices, and the columns to delete values from.
            ranges: Ranges of ticks, both ends inclusive; None for all times.
        """
        return self._schedule_maintenance(table, self._writer.clear(table, database, columns, ranges)).rows

    def write_points(
        self,
        table: Table,
        database: Database,
        rows: pa.Table,
        replaced: ReplacedPoints | None = None,
        *,
        max_rows: int,
        check: Callable[[], None] = lambda: None,
    ) -> WriteMetrics:
        """Write points of a tree in one commit, in place of others.

        Args:
            table: The tree's table.
            database: The tree's database.
            rows: Stored columns and the device; NULL is no point.
            replaced: Points that are removed unless the rows have them; None for none.
            max_rows: Stored rows that are in the driver's memory at a time, at most; 0 for the default.
            check: Called at the version that the commit builds on. What it raises prevents the commit.
        """
        return self._schedule_maintenance(table, self._writer.write_points(table, database, rows, replaced, max_rows, check))

    def write_points_frame(
        self,
        table: Table,
        database: Database,
        rows: DataFrame,
        replaced: ReplacedPoints | None = None,
        *,
        max_rows: int,
        check: Callable[[], None] = lambda: None,
    ) -> WriteMetrics:
        """Do what `write_points` does for points that should not pass through the driver at once: executors write them.

        `rows` has one row per key, and `max_rows` is about new rows too. Raises `OperationalError` too if Spark fails.
        """
        written = PointsFrameWriter(self._handles, self._writer).write(table, database, rows, replaced, max_rows, check)
        return self._schedule_maintenance(table, written)

    def upsert_tags(self, table: Table, rows: pa.Table) -> None:
        """Set the tags of subtables: `tbname` and a column a tag. Tags that `rows` lacks stay as they are, NULL in new rows.

        Raises:
            TransientError: A tag of `rows` was dropped or renamed meanwhile.
        """
        self._tags.upsert(table, rows)

    def drop_tags(self, table: Table, tbnames: Collection[str]) -> None:
        """Remove the tags of subtables."""
        self._tags.drop(table, tbnames)

    def read_tags(self, table: Table) -> pa.Table:
        """Return `tbname` and one column per tag, a row for each subtable that has tags."""
        return self._tags.read(table)

    def read_subtables(self, table: Table) -> pa.Table:
        """What `read_tags` returns, and a row of NULLs for each subtable that has rows but no tags."""
        return self._tags.of_subtables(table)

    def without_tags(self, table: Table, tbnames: Collection[str]) -> list[str]:
        """Those of some subtables that have no row in the tags table."""
        return self._tags.missing(table, tbnames)

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

    def bounds(self, table: Table) -> Bounds | None:
        """Return the least and greatest stored timestamp, from statistics; possibly wider than the rows. None if empty."""
        return scans.read_bounds(self._handles.reader(table), table)

    def rows(self, table: Table) -> int:
        """Return the number of rows, from statistics."""
        return scans.count_rows(self._handles.reader(table))

    def size(self, table: Table) -> int:
        """Return the size of the data files in bytes, from the log."""
        return scans.count_bytes(self._handles.reader(table))

    def changes(self, table: Table, first: int, last: int) -> pa.Table:
        """Return the changes of versions `first` to `last`, both inclusive: stored columns, `_change_type`, `_commit_version`.

        Ordered by version. `_change_type` is insert, update_preimage, update_postimage or delete.

        Raises:
            HistoryGoneError: The changes of some of the versions have been removed.
        """
        return changes.read_changes(self._handles.reader(table), first, last)

    def stream_changes(self, table: Table, version: int) -> Iterator[pa.Table]:
        """Yield the rows of `changes` of a version, about a million at a time."""
        return changes.stream_changes(self._handles.reader(table), version)

    def inserted_rows(self, table: Table, version: int) -> InsertedRows | None:
        """Return the rows of a version for reading in pieces; None unless it has only inserted rows."""
        return changes.find_inserted_rows(self._handles.reader(table), table, version)

    def change_rows(self, table: Table, first: int, last: int) -> int:
        """Return the number of rows of `changes`, from the log without reading data files."""
        return changes.count_changes(self._handles.reader(table), first, last)

    def commit_size(self, table: Table, version: int) -> CommitSize:
        """Return the number of rows of a version, from the log without reading data files."""
        return changes.commit_size(self._handles.reader(table), version)

    def committed_at(self, table: Table, version: int) -> int | None:
        """Return when a version was committed, in epoch ms by its writer's clock; None if its log does not say, or was removed."""
        return changes.committed_at(self._handles.reader(table), version)

    def scan(
        self,
        table: Table,
        database: Database,  # noqa: ARG002 - the table itself knows its stored types
        *,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        version: int | None = None,
        tbnames: Collection[str] | None = None,
        bounds: Bounds | None = None,
    ) -> pa.Table:
        """Rows as stored, now or as of a version: `columns`, by default the declared ones and `tbname`.

        A column that was added after the version is NULL. `bounds` (as stored, inclusive) and `tbnames` choose files by their
        statistics, and rows; `filter` chooses rows further.
        """
        return scans.scan_rows(self._handles.reader(table), table, columns, filter, version, tbnames, bounds)

    def batches(
        self, table: Table, columns: Sequence[str], tbnames: Collection[str], bounds: Bounds | None
    ) -> Iterator[pa.RecordBatch]:
        """Return rows as stored in batches, the series key as a dictionary; other rows may come too, as files are only pruned."""
        return scans.scan_batches(self._handles.reader(table), table, columns, tbnames, bounds)

    def count_scanned(self, table: Table, tbnames: Collection[str], bounds: Bounds | None) -> int | None:
        """Return the number of rows of the files that `batches` reads, from statistics; None if they are missing."""
        return scans.count_scanned_rows(self._handles.reader(table), table, tbnames, bounds)

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
        """Divide the rows of a table among tasks that read them from the data files with Arrow; raises what `Footers.plan` does.

        Args:
            table: The table.
            columns: Stored columns, series key and tags that the tasks will read.
            tasks: Number of tasks that run at the same time.
            version: The version; None for the newest.
            bounds: Range of stored timestamps, inclusive; None for all times.
            series: Range of series.
            by_series: Whether each share has all rows of its series; if not, it has some row groups, or all rows of some `windows`.
            windows: Windows that do not overlap; None to divide the table without regard to them.
            paths: The data files to read; None for those of the version.
        """
        tags = self.read_tags(table) if table.tags else None
        names = tags[table.series_key].to_pylist() if tags is not None else []
        shares = self._footers.plan(table, version, bounds, Division(tasks, series, names, by_series, windows), paths)
        return shares if tags is None else with_tags(shares, tags, [name for name in columns if table.is_tag(name)])

    def frame(self, spark: SparkSession, table: Table, *, version: int | None = None) -> DataFrame:
        """Rows as stored, as a DataFrame, now or as of a version: the declared columns and `tbname`; tags are not joined."""
        with self._handles.reader(table).latest() as delta:
            schema = scans.declared_schema(table, stored_schema(delta))
        return spark_reads.read_frame(spark, rows_uri(self.uri, table), schema, version)

    def changes_frame(self, spark: SparkSession, table: Table, first: int, last: int) -> DataFrame:
        """Return what `changes` does as a DataFrame, in no order."""
        return spark_reads.read_changes_frame(spark, rows_uri(self.uri, table), first, last)

    def replace_frame(
        self,
        spark: SparkSession,  # noqa: ARG002 - the frames know their session
        table: Table,
        database: Database,
        upserts: DataFrame | None,
        deletes: DataFrame | None,
        commit: Commit | None,
    ) -> WriteMetrics | None:
        """Do what `replace` does for results that should not pass through the driver: executors write them.

        `upserts` has one row per key. Raises what `replace` does, and `OperationalError` or `ConflictError` if Spark fails.
        """
        written = DataFrameWriter(self._handles, self._writer).replace(table, database, upserts, deletes, commit)
        return None if written is None else self._schedule_maintenance(table, written)

    def load(
        self,
        spark: Callable[[], SparkSession],
        files: Sequence[Path],
        table: Table,
        database: Database,
        progress: Callable[[int, int], None] | None = None,
        *,
        options: LoadOptions | None = None,
        announce: Callable[[pa.Table], None] | None = None,
    ) -> LoadMetrics:
        """Load files of CSV, Parquet or NDJSON, all or none of them. The last row of a key wins.

        Args:
            spark: Starts the session; called only for large files.
            files: The files, all of one format.
            table: The table.
            database: Its database.
            progress: Called with the rows and bytes read so far.
            options: The format, the subtable of all rows, and what `now` means.
            announce: Called once all values are validated and before anything is written, with the files' subtables: `tbname` and
                those tags that have a column. An exception from it ends the load.

        Raises:
            DataError: A value is invalid: names the file, row, column, what is allowed, and how many more there are.
        """
        return self.loader(spark, table, database).load(files, progress, options or LoadOptions(), announce)

    def loader(self, spark: Callable[[], SparkSession], table: Table, database: Database) -> Loader:
        """Return what loads files and DataFrames into a table; `spark` starts the session, and is called only for large ones."""
        return Loader(self._handles, self._writer, self.small_write_rows, spark, table, database)

    def load_tree(
        self,
        spark: Callable[[], SparkSession],
        files: Sequence[Path],
        table: Table,
        database: Database,
        series: SeriesStore,
        progress: Callable[[int, int], None] | None = None,
        *,
        options: TreeLoadOptions | None = None,
    ) -> LoadMetrics:
        """Load files into a tree, all or none of them, with the rules of its INSERT: the last value at an instant wins.

        Args:
            spark: Starts the session; called only for large files.
            files: The files; their names decide on the format.
            table: The tree's table.
            database: Its database.
            series: Finds the columns of series, and writes the values once all are validated.
            progress: Called with the rows and bytes read so far.
            options: The format, the device of all rows, and what `now` means.

        Raises:
            DataError: A value is invalid.
        """
        loader = TreeLoader(self._handles, self._writer, self.small_write_rows, spark, table, database)
        return loader.load(files, progress, options or TreeLoadOptions(), series)

    def compact(self, table: Table, bounds: Bounds | None = None) -> int:
        """Compact small files that may have rows within bounds, without effect on others; return how many were replaced."""
        return self._maintenance.compact(table, bounds=bounds)

    def vacuum(self, table: Table, retention_hours: int, oldest: int | None = None) -> int:
        """Remove files that no version of the last `retention_hours` needs, and return how many.

        Older versions and changes are gone then, except those that a reader at the offset `oldest` has yet to read.
        """
        return self._maintenance.vacuum(table, retention_hours, oldest)

    def outbox(self, job_id: str) -> Outbox:
        """Return a job's outbox; it may not exist yet."""
        return Outbox(self.uri, job_id, self._writer)

    def close(self) -> None:
        """End background compaction."""
        self._maintenance.close()

    def _schedule_maintenance(self, table: Table, written: WriteMetrics) -> WriteMetrics:
        if written.rows:
            self._maintenance.committed(table, written.version)
        return written
