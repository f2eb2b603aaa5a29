"""The write path: append, or merge if keys exist, in one commit on exactly the version that was read."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final, TypeVar

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from headrace import durable
from headrace.errors import ConflictError, TransientError
from headrace.model.failpoints import failpoint
from headrace.model.tables import Database, Table, TableKind
from headrace.storage.delta import merging, spark_merges
from headrace.storage.delta.appending import append
from headrace.storage.delta.commits import (
    RETIRED,
    Commit,
    WriteMetrics,
    check_epoch,
    epoch_app,
    execution_app,
    is_recorded,
    stream_app,
)
from headrace.storage.delta.committing import commit_actions, commit_once
from headrace.storage.delta.deletion import Ranges, clearing, delete_predicate, delete_rows, parts_of
from headrace.storage.delta.handles import Handle, stored_schema, translate_errors
from headrace.storage.delta.keys import (
    anti_join,
    conform_rows,
    find_stored_keys,
    keep_last_per_key,
    keep_last_values_per_key,
    semi_join,
)
from headrace.storage.delta.log import sync_versions
from headrace.storage.delta.log_entries import file_exists, is_local, log_file
from headrace.storage.delta.merging import merge_scope
from headrace.storage.delta.points import ReplacedPoints, Replacement, devices_by_columns, in_memory
from headrace.storage.delta.retirement import refuse_retired
from headrace.storage.delta.rewriting import rewrite
from headrace.storage.delta.row_order import decoded, with_encoded_series
from headrace.storage.delta.snapshots import Snapshot
from headrace.storage.delta.staged_files import ROW_GROUP_ROWS
from headrace.storage.delta.table_handles import Handles
from headrace.storage.types import rows_schema

log = logging.getLogger(__name__)

# Each retry means that another writer committed first. This many in a row indicate a fault.
MAX_ATTEMPTS: Final = 50
MAX_BACKOFF_S: Final = 0.02
MAX_SYNCED_VERSIONS: Final = 100
"""Versions below its own that a commit syncs, if other programs have written them: most are on the disk by then."""

Lock = Callable[[str], AbstractContextManager[None]]
Result = TypeVar("Result")
Version = TypeVar("Version", DeltaTable, Snapshot)


class Writer:
    """Commits to tables, one writer at a time per table, each commit a compare-and-set on the table's version.

    The lock only keeps Headrace's own processes from wasted work. Safety rests on the compare-and-set, as any other Delta writer
    may commit at any time. The `listeners` are called with the table and the version after each commit of rows.
    """

    def __init__(self, handles: Handles, lock: Lock, attempts: int = MAX_ATTEMPTS) -> None:
        self._handles = handles
        self._attempts = attempts
        self._lock = lock
        self._mutexes: dict[str, threading.Lock] = {}
        # The versions that survive a power failure, by the URI of the table.
        self._synced: dict[str, int] = {}
        self.listeners: set[Callable[[Table, int], None]] = set()

    def write(
        self,
        table: Table,
        database: Database,
        rows: pa.Table,
        *,
        update_columns: Collection[str] | None = None,
        commit: Commit | None = None,
    ) -> WriteMetrics:
        """Insert rows, or update those whose key exists, in one commit; the last row of a key wins.

        `rows` have stored columns and `tbname`; a missing column is NULL. An update replaces `update_columns`, by default all.
        Nothing is written if `commit` is recorded already, or if there are no rows.
        """
        schema = rows_schema(table, database)
        deduplicate = keep_last_values_per_key if table.kind is TableKind.TREE else keep_last_per_key
        encoded = deduplicate(keyed_rows(rows, schema, table), table.primary_key)
        written = self._insert(table, schema, encoded, schema.names if update_columns is None else update_columns, commit)
        assert written is not None
        return self.noted(table, written)

    def append_new(self, table: Table, database: Database, rows: pa.Table, columns: Collection[str]) -> WriteMetrics | None:
        """Insert rows in one commit if no two have the same key and none of the keys exists; else write nothing, return None.

        `columns` are those for which the rows have values.
        """
        schema = rows_schema(table, database)
        encoded = keyed_rows(rows, schema, table)
        if keep_last_per_key(encoded, table.primary_key).num_rows < encoded.num_rows:
            return None
        written = self._insert(table, schema, encoded, columns, updates=False)
        return None if written is None else self.noted(table, written)

    def _insert(
        self,
        table: Table,
        schema: pa.Schema,
        encoded: pa.Table,
        columns: Collection[str],
        commit: Commit | None = None,
        *,
        updates: bool = True,
        check: Callable[[], None] = lambda: None,
    ) -> WriteMetrics | None:
        """Append rows with one key each, or update `columns` of the stored rows with such keys; None instead without `updates`."""

        def has_nothing_to_write(handle: Handle, version: DeltaTable | Snapshot, stored: pa.Schema) -> bool:
            check()
            if is_recorded(handle, version, commit) or (encoded.num_rows == 0 and commit is None):
                return True
            refuse_retired(stored, columns, handle.name)
            return False

        def append_small(handle: Handle, snapshot: Snapshot) -> WriteMetrics | None:
            if has_nothing_to_write(handle, snapshot, snapshot.schema):
                return WriteMetrics(snapshot.number)
            return append(handle, snapshot, table, encoded, commit)

        def work(handle: Handle, delta: DeltaTable) -> WriteMetrics | None:
            all_columns = stored_schema(delta)
            if has_nothing_to_write(handle, delta, all_columns):
                return WriteMetrics(delta.version())
            rows = decoded(encoded)
            stored = find_stored_keys(handle, handle.files(delta), table, schema, rows.select(list(table.primary_key)))
            if stored.num_rows == 0:
                return append_rows(delta, rows, commit, all_columns)
            return merging.upsert(delta, table, schema, rows, merge_scope(stored, table), columns, commit) if updates else None

        return self.commit_small(table, append_small, work)

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
        """Upsert whole rows and delete keys in one commit, recorded even if no row changes; None if it is recorded already.

        `upserts` have stored columns and `tbname`, `deletes` the primary key. A key in both is upserted. Rows that would not change
        are left out of the change feed. If most of the keys exist (`is_update`), the table is not searched for them before the
        merge.

        Raises:
            FencedError: The guard of `commit` does not hold; nothing is written.
            StaleReadError: The table has changed since `commit.read_version`; nothing is written.
        """
        schema = rows_schema(table, database)
        key = list(table.primary_key)
        rows = keep_last_per_key(
            conform_rows(upserts if upserts is not None else schema.empty_table(), schema, key, table.name), key
        )
        deleted_keys = _keys(deletes, schema, key)
        deleted_keys = anti_join(keep_last_per_key(deleted_keys, key), rows, key)

        def rewrite_files(handle: Handle, snapshot: Snapshot) -> WriteMetrics | None:
            if is_recorded(handle, snapshot, commit):
                return None
            return rewrite(handle, snapshot, table, rows, deleted_keys, commit)

        def work(handle: Handle, delta: DeltaTable) -> WriteMetrics | None:
            if is_recorded(handle, delta, commit):
                return None
            keys = pa.concat_tables([rows.select(key), deleted_keys])
            stored = keys if is_update else find_stored_keys(handle, handle.files(delta), table, schema, keys)
            if stored.num_rows == 0:
                return append_rows(delta, rows, commit)
            marked = merging.mark_operations(rows, deleted_keys if is_update else semi_join(deleted_keys, stored, key))
            written = merging.replace(delta, table, schema, marked, merge_scope(stored, table), commit)
            return written if written.rows else commit_transactions(delta, commit)

        written = self.commit_small(table, rewrite_files, work)
        return None if written is None else self.noted(table, written)

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
        """Write points of a tree in one commit: rows of stored columns and the device, in which NULL is no point.

        `replaced` points are removed unless the rows have them. At most `max_rows` stored rows are in the driver's memory at a
        time; 0 is the default. `check` is called at the version that the commit builds on; what it raises prevents the commit.
        """
        schema = rows_schema(table, database)
        encoded = keep_last_values_per_key(keyed_rows(rows, schema, table), list(table.primary_key))
        if replaced is None:
            written = self._insert(table, schema, encoded, rows.column_names, check=check)
            assert written is not None
            return self.noted(table, written)

        def work(handle: Handle, delta: DeltaTable) -> WriteMetrics:
            check()
            rows = decoded(encoded)
            chunks, max_chunk_rows = [in_memory(rows, table)], max_rows or ROW_GROUP_ROWS
            replacement = Replacement(handle.uri, handle.files(delta), table, schema, chunks, replaced, max_chunk_rows)
            if replacement.changes_stored_rows():
                return merging.replace(delta, table, schema, replacement.reader(), replacement.scope(), None)
            return append_rows(delta, rows, None)

        return self.noted(table, self.commit(table, work))

    def fence(self, table: Table, job_id: str, epoch: int) -> None:
        """Make commits of drivers of a stream with an older epoch fail; raise `FencedError` if a newer one is recorded."""
        # Without the lock, which the driver to be fenced may hold.
        self.attempts(self._handles.writer(table), lambda handle, delta: fence(handle, delta, job_id, epoch))

    def retire(self, table: Table, job_id: str) -> None:
        """Make all later commits of a job to its target fail, those of its drivers and of its backfills. Idempotent."""

        def work(handle: Handle, delta: DeltaTable) -> None:
            if handle.transaction_version(delta, epoch_app(job_id)) != RETIRED:
                commit_transactions(delta, Commit(stream_app(job_id), RETIRED, None, job_id, RETIRED))

        # Without the lock, which a driver of the job may hold.
        self.attempts(self._handles.writer(table), work)

    def advance(self, table: Table, job_id: str) -> None:
        """Make commits fail that build on the present version, so that their writers check again whether they may commit."""

        def work(_: Handle, delta: DeltaTable) -> None:
            commit_transactions(delta, Commit(execution_app(job_id), delta.version() + 1))

        # Without the lock, which the process to be fenced may hold.
        self.attempts(self._handles.writer(table), work)

    def delete(
        self,
        table: Table,
        database: Database,
        *,
        tbnames: Collection[str] | None = None,
        ranges: Ranges | None = None,
        drops: bool = False,
    ) -> int:
        """Delete rows and return how many; commit only if there are some.

        `ranges` are of ticks, both ends inclusive; None for all times. For `drops` see `delete_rows`.
        """
        predicate = delete_predicate(table, database, tbnames, ranges)

        def work(_: Handle, delta: DeltaTable) -> WriteMetrics:
            return delete_rows(delta, predicate, ranges, drops=drops)

        return self.noted(table, self.commit(table, work)).deleted

    def clear(
        self, table: Table, database: Database, columns: Sequence[tuple[str, Sequence[str]]], ranges: Ranges | None = None
    ) -> int:
        """Delete values of a tree and return the number of changed rows; rows without any value are deleted.

        `columns` has devices, and the columns to delete values from; `ranges` are of ticks, both ends inclusive, None for all
        times.
        """
        scopes = [
            clearing(table, database, names, part, ranges)
            for names, devices in devices_by_columns(columns)
            for part in parts_of(devices)
        ]

        def work(_: Handle, delta: DeltaTable) -> WriteMetrics:
            parts = [scope.apply(delta) for scope in scopes]
            return WriteMetrics(
                delta.version(), updated=sum(part.updated for part in parts), deleted=sum(part.deleted for part in parts)
            )

        return self.noted(table, self.commit(table, work)).rows

    def noted(self, table: Table, written: WriteMetrics) -> WriteMetrics:
        if written.rows:
            for listener in tuple(self.listeners):
                listener(table, written.version)
        return written

    def commit(self, table: Table, work: Callable[[Handle, DeltaTable], Result]) -> Result:
        """Do `work` at the table's newest version while no other Headrace process writes to it."""
        with self.exclusive(self.lock_name(table)):
            return self.attempts(self._handles.writer(table), work)

    def commit_small(
        self,
        table: Table,
        small: Callable[[Handle, Snapshot], Result | None],
        work: Callable[[Handle, DeltaTable], Result],
    ) -> Result:
        """Do `small` at the newest version of a local table, without delta-rs; `work` if it returns None, or for other tables."""
        with self.exclusive(self.lock_name(table)):
            handle = self._handles.writer(table)
            written = self.attempts_at_snapshot(handle, small) if is_local(handle.uri) else None
            return self.attempts(handle, work) if written is None else written

    def lock_name(self, table: Table) -> str:
        """Return the name of the lock under which a table's rows are written."""
        return f"table.{table.database}.{table.name}"

    def attempts(self, handle: Handle, work: Callable[[Handle, DeltaTable], Result]) -> Result:
        """Do `work` at the newest version, and retry if another writer committed first."""
        return self._retried(handle, handle.latest, lambda delta: work(handle, delta))

    def attempts_at_snapshot(self, handle: Handle, work: Callable[[Handle, Snapshot], Result]) -> Result:
        """Do `work`, which commits without delta-rs, at the newest version of a local table, and retry likewise."""
        return self._retried(handle, handle.latest_snapshot, lambda snapshot: work(handle, snapshot))

    def _retried(
        self, handle: Handle, newest: Callable[[], AbstractContextManager[Version]], work: Callable[[Version], Result]
    ) -> Result:
        number = 0
        while True:
            number += 1
            try:
                with newest() as version:
                    failpoint("storage.commit")
                    base, result = version.version(), work(version)
                    self.sync(handle, base)
                    failpoint("storage.committed")
                    return result
            except ConflictError:
                if number == self._attempts:
                    raise
                time.sleep(random.uniform(0, MAX_BACKOFF_S * min(number, 10)))

    def sync(self, handle: Handle, base: int) -> None:
        """Have all versions of a local table survive a power failure. `base` is the one on which a commit was built."""
        if not is_local(handle.uri) or durable.is_relaxed(handle.uri):
            return
        synced, newest = self._synced.get(handle.uri, -1), base
        while file_exists(log_file(handle.uri, newest + 1)):
            newest += 1
        # The version below the commit is that of another process, which may have died, or of another program.
        first = synced + 1 if 0 <= synced <= base else base
        with translate_errors(handle.name):
            sync_versions(handle.uri, max(first, newest - MAX_SYNCED_VERSIONS), newest)
        self._synced[handle.uri] = newest

    @contextmanager
    def exclusive(self, name: str, *, needed: bool = False) -> Iterator[None]:
        """Hold the lock of a name, among threads and processes.

        If the lock is unavailable (its holder is frozen, say), continue without it unless `needed`: the compare-and-set protects.
        Spark has none on a local disk, so no writer continues while it merges.
        """
        with self._mutexes.setdefault(name, threading.Lock()), ExitStack() as locks:
            try:
                locks.enter_context(self._lock(name))
            except TransientError as error:
                if needed:
                    raise
                locks.enter_context(spark_merges.writing_without_lock(self._handles.uri, name))
                log.warning("continuing without the lock %s: %s", name, error.message)
            yield

    def merging_by_spark(self, name: str) -> AbstractContextManager[None]:
        """Exclude writers that do not wait for the lock of a name, which this thread holds."""
        return spark_merges.merging(self._handles.uri, name) if is_local(self._handles.uri) else nullcontext()


def keyed_rows(rows: pa.Table, schema: pa.Schema, table: Table) -> pa.Table:
    """Return rows as `conform_rows` does, with the series key as a dictionary: what is asked of their keys needs it."""
    return with_encoded_series(conform_rows(rows, schema, table.primary_key, table.name), table.series_key)


def fence(handle: Handle, delta: DeltaTable, job_id: str, epoch: int) -> None:
    """Record an epoch, so that commits of drivers of a stream with an older one fail; `FencedError` if a newer one is recorded."""
    check_epoch(handle, delta, job_id, epoch)
    if epoch > 0 and handle.transaction_version(delta, epoch_app(job_id)) != epoch:
        commit_transactions(delta, Commit(epoch_app(job_id), epoch))


def append_rows(delta: DeltaTable, rows: pa.Table, commit: Commit | None, schema: pa.Schema | None = None) -> WriteMetrics:
    """Add rows whose keys do not exist; without rows, only record the commit's transactions. `schema` is the stored one."""
    if rows.num_rows == 0:
        return commit_transactions(delta, commit)
    complete = with_all_columns(rows, stored_schema(delta) if schema is None else schema)
    commit_once(delta, commit, lambda properties: write_deltalake(delta, complete, mode="append", commit_properties=properties))
    return WriteMetrics(delta.version(), inserted=rows.num_rows)


def with_all_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with all stored columns in their order, NULL in columns that the writer does not know.

    They carry no declared types, which may have changed since the writer read the catalog: delta-rs would refuse them.
    """
    stored = set(rows.column_names)
    columns = (rows[field.name] if field.name in stored else pa.nulls(rows.num_rows, field.type) for field in schema)
    return pa.table(dict(zip(schema.names, columns, strict=True)))


def commit_transactions(delta: DeltaTable, commit: Commit | None) -> WriteMetrics:
    return WriteMetrics(delta.version() if commit is None else commit_actions(delta, [], commit))


def _keys(rows: pa.Table | None, schema: pa.Schema, key: list[str]) -> pa.Table:
    """Return the key columns of rows, in stored types."""
    keys = pa.schema([schema.field(name) for name in key])
    return keys.empty_table() if rows is None else rows.select(key).cast(keys)
