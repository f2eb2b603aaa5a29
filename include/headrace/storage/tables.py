"""All access to Delta tables that needs no Spark: create, write, read, changes, tags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from headrace.model.positions import Position, SourceId
from headrace.model.tables import Column, Database, Table
from headrace.storage.delta import changes, creation, scans, spark_reads
from headrace.storage.delta.commits import Commit, WriteMetrics, committed_position
from headrace.storage.delta.dataframe_writer import DataFrameWriter
from headrace.storage.delta.evolution import Evolution
from headrace.storage.delta.handles import Handles, normalize_root, path_segment, rows_uri, stored_schema
from headrace.storage.delta.maintenance import Maintenance
from headrace.storage.delta.outbox import Outbox
from headrace.storage.delta.pruning import Bounds
from headrace.storage.delta.subtable_names import SubtableNames
from headrace.storage.delta.tags import Tags
from headrace.storage.delta.writer import Lock, Ranges, Writer
from headrace.storage.loading.loader import Loader, LoadMetrics, LoadOptions
from headrace.storage.types import field, rows_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUTBOXES: Final = ".outbox"


class Tables:
    """All Delta tables below one URI; one object a process and settings, used from any thread.

    `lock` gives mutual exclusion among processes by name; `small_write_rows` is where a load goes over from delta-rs to Spark;
    `options` are delta-rs's storage options for object stores.
    """

    def __init__(self, uri: str, lock: Lock, small_write_rows: int, options: Mapping[str, str] | None = None) -> None:
        self.uri = normalize_root(uri)
        self.small_write_rows = small_write_rows
        self._handles = Handles(self.uri, options or {})
        self._writer = Writer(self._handles, lock)
        self._tags = Tags(self._handles, self._writer, SubtableNames(self._handles))
        self._evolution = Evolution(self._handles, self._writer)
        self._maintenance = Maintenance(self._handles, self._writer)

    def create(self, table: Table, database: Database) -> None:
        """Make a table's Delta tables: its rows, and for a supertable its tags. An empty table of the same columns may exist.

        Raises:
            ExistsError: other columns, or rows, are already stored there.
            LimitError: types or column names cannot be stored.
        """
        creation.create_table(self.uri, table, database, self._handles.options)

    def check(self, table: Table, database: Database) -> None:
        """`LimitError` when the table has types or column names that cannot be stored; `create` raises it as well."""
        creation.check_storable(table, database)

    def drop(self, table: Table) -> None:
        """Remove a table with all its files; one that does not exist is no error."""
        self._handles.forget(table)
        creation.drop_table(self.uri, table)

    def add_columns(self, table: Table, database: Database, columns: Sequence[Column]) -> None:
        """Add columns to a table's rows; those that it has already are left alone, so racing callers all succeed.

        Readers and writers that do not know the columns go on: they leave them out, or NULL.

        Raises:
            TypeMismatchError: A column of that name has another type.
            ExistsError: A column of that name was dropped.
            TransientError: The table is being loaded.
        """
        self._evolution.add(table, database, columns)

    def drop_column(self, table: Table, name: str) -> None:
        """Mark a column as dropped; the Delta table keeps it, and the name cannot be used again."""
        self._evolution.retire(table, name)

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
        """Whether the table's Delta table exists."""
        return DeltaTable.is_deltatable(rows_uri(self.uri, table), storage_options=dict(self._handles.options) or None)

    def schema(self, table: Table, database: Database) -> pa.Schema:
        """Stored columns of a table: the declared ones, then `tbname`; field metadata `headrace.type` holds the declared type."""
        return rows_schema(table, database)

    def write(
        self,
        table: Table,
        database: Database,
        rows: pa.Table,
        *,
        given: Collection[str] | None = None,
        commit: Commit | None = None,
    ) -> WriteMetrics:
        """Insert rows, or update those whose key exists: there only the columns `given` (None: all) are replaced.

        `rows` has stored columns and `tbname`; one that is missing is NULL. Of rows with equal keys the last counts. One commit, or
        none where there are no rows, or where `commit` is recorded already.
        """
        return self._noted(table, self._writer.write(table, database, rows, given, commit))

    def replace(
        self,
        table: Table,
        database: Database,
        upserts: pa.Table | None,
        deletes: pa.Table | None,
        commit: Commit | None,
        *,
        fresh: bool = False,
    ) -> WriteMetrics | None:
        """Upsert whole rows and delete the keys in `deletes` (`tbname`, timestamp[, key]) in one commit.

        Returns None when `commit` is recorded already. A row that would not change is left alone: readers of the change feed do not
        see it. A key in both is upserted. The commit is recorded even when nothing changes. `fresh`: the caller knows that none of
        the keys exists.

        Raises:
            FencedError: the guard of `commit` does not hold; nothing is written.
        """
        written = self._writer.replace(table, database, upserts, deletes, commit, fresh)
        return None if written is None else self._noted(table, written)

    def fence(self, table: Table, job_id: str, epoch: int) -> None:
        """Make commits of drivers of a stream with an older epoch fail from now on; `FencedError` when a newer one is known."""
        self._writer.fence(table, job_id, epoch)

    def delete(
        self,
        table: Table,
        database: Database,
        *,
        tbnames: Collection[str] | None = None,
        ranges: Ranges | None = None,
        where: str | None = None,
    ) -> int:
        """Delete rows of some subtables (None: all) within ranges of ticks, both ends inclusive (None: of all times).

        Returns how many. `where` is a further condition, SQL of delta-rs over stored columns. Where nothing is to be deleted there
        is no commit.
        """
        return self._noted(table, self._writer.delete(table, database, tbnames, ranges, where)).deleted

    def upsert_tags(self, table: Table, rows: pa.Table) -> None:
        """Set the tags of subtables: `tbname` and a column a tag. Tags that `rows` lacks stay as they are, NULL in new rows.

        Raises:
            TransientError: A tag of `rows` was dropped or renamed meanwhile.
        """
        self._tags.upsert(table, rows)

    def drop_tags(self, table: Table, tbnames: Collection[str]) -> None:
        """Forget the tags of subtables."""
        self._tags.drop(table, tbnames)

    def read_tags(self, table: Table) -> pa.Table:
        """`tbname` and a column a tag, a row for each subtable that has tags."""
        return self._tags.read(table)

    def read_subtables(self, table: Table) -> pa.Table:
        """What `read_tags` returns, and a row of NULLs for each subtable that has rows but no tags."""
        return self._tags.of_subtables(table)

    def without_tags(self, table: Table, tbnames: Collection[str]) -> list[str]:
        """Those of some subtables that have no row in the tags table."""
        return self._tags.missing(table, tbnames)

    def version(self, table: Table) -> int:
        """The newest version of a table's rows; cheap enough to poll."""
        with self._handles.reader(table).latest() as delta:
            return delta.version()

    def transaction(self, table: Table, app: str) -> int | None:
        """The version recorded for an app transaction; None when there is none."""
        with self._handles.reader(table).latest() as delta:
            version: int | None = delta.transaction_version(app)
            return version

    def committed_position(self, table: Table, job_id: str, sources: Collection[SourceId]) -> Position | None:
        """Return the position that a table has recorded of a job that writes to it; None if it has no results of it."""
        with self._handles.reader(table).latest() as delta:
            return committed_position(delta, job_id, sources)

    def bounds(self, table: Table) -> Bounds | None:
        """Least and greatest timestamp as stored, from statistics: never narrower than the rows; None of an empty table."""
        return scans.read_bounds(self._handles.reader(table), table)

    def rows(self, table: Table) -> int:
        """How many rows the table has, from statistics."""
        return scans.count_rows(self._handles.reader(table))

    def changes(self, table: Table, first: int, last: int) -> pa.Table:
        """Changes of versions `first` to `last`, both inclusive: stored columns, `_change_type`, `_commit_version`.

        Ordered by version. `_change_type` is insert, update_preimage, update_postimage or delete.

        Raises:
            HistoryGoneError: the changes of some of the versions are no longer kept.
        """
        return changes.read_changes(self._handles.reader(table), first, last)

    def change_rows(self, table: Table, first: int, last: int) -> int:
        """How many rows `changes` returns, told from the log without reading data files."""
        return changes.count_changes(self._handles.reader(table), first, last)

    def committed_at(self, table: Table, version: int) -> int | None:
        """When a version was committed, in epoch ms by its writer's clock; None when its log says nothing, or is gone."""
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

    def frame(self, spark: SparkSession, table: Table, *, version: int | None = None) -> DataFrame:
        """Rows as stored, as a DataFrame, now or as of a version: the declared columns and `tbname`; tags are not joined."""
        with self._handles.reader(table).latest() as delta:
            schema = scans.declared_schema(table, stored_schema(delta))
        return spark_reads.read_frame(spark, rows_uri(self.uri, table), schema, version)

    def changes_frame(self, spark: SparkSession, table: Table, first: int, last: int) -> DataFrame:
        """What `changes` returns, as a DataFrame; in no order."""
        return spark_reads.read_changes_frame(spark, rows_uri(self.uri, table), first, last)

    def replace_frame(
        self,
        spark: SparkSession,  # noqa: ARG002 - the frames know their session
        table: Table,
        database: Database,
        upserts: DataFrame | None,
        deletes: DataFrame | None,
        commit: Commit | None,
        *,
        fresh: bool = False,
    ) -> WriteMetrics | None:
        """What `replace` does, for results that should not pass through the driver: executors write them.

        `upserts` has one row a key. Errors as of `replace`; `OperationalError` or `ConflictError` when Spark fails.
        """
        written = DataFrameWriter(self._handles, self._writer).replace(table, database, upserts, deletes, commit, fresh)
        return None if written is None else self._noted(table, written)

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
        """Load files of CSV, Parquet or NDJSON: all of them, or nothing. Of rows with equal keys the last counts.

        `spark` starts the session where the size of the files asks for it. `progress` is called with rows and bytes read so far.
        `announce` is called once every value has been checked and before anything is written, with the files' subtables: `tbname`
        and those tags for which there is a column; what it raises ends the load.

        Raises:
            DataError: a value does not fit: file, row, column, and what is allowed; how many more there are.
        """
        loader = Loader(self._handles, self._writer, self.small_write_rows, spark, table, database)
        return loader.load(files, progress, options or LoadOptions(), announce)

    def compact(self, table: Table) -> int:
        """Make many small files few; returns how many were replaced. Rows, change feed and other writers are not disturbed."""
        return self._maintenance.compact(table)

    def vacuum(self, table: Table, retention_hours: int, oldest: int | None = None) -> int:
        """Remove files that no version of the last `retention_hours` needs; returns how many.

        Older versions and changes are gone then, except what a reader at the offset `oldest` has still to read.
        """
        return self._maintenance.vacuum(table, retention_hours, oldest)

    def outbox(self, job_id: str) -> Outbox:
        """Return a job's outbox; it may not exist yet."""
        return Outbox(f"{self.uri}/{OUTBOXES}/{path_segment(job_id)}", job_id, self._writer, self._handles.options)

    def close(self) -> None:
        """End what goes on in the background."""
        self._maintenance.close()

    def _noted(self, table: Table, written: WriteMetrics) -> WriteMetrics:
        if written.rows:
            self._maintenance.committed(table, written.version)
        return written
