"""Reading a table's change data feed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headrace import durable
from headrace.errors import HistoryGoneError, InternalError, OffsetAheadError, StorageError
from headrace.model.external_tables import OnChange
from headrace.model.tables import Table
from headrace.model.time import TickRanges
from headrace.storage.delta.change_columns import as_changed, as_inserted, changes_schema
from headrace.storage.delta.data_files import DataFiles
from headrace.storage.delta.handles import Handle, first_line, translate_errors
from headrace.storage.delta.log import (
    CHANGE_TYPE,
    LoggedCommit,
    count_changed_rows,
    count_written_rows,
    files_exist,
    read_commit,
    sync_versions,
)
from headrace.storage.delta.log_entries import LOG, is_local
from headrace.storage.delta.pruning import Bounds
from headrace.storage.delta.table_handles import Handles
from headrace.storage.delta.written_changes import WrittenChanges

PIECE_ROWS: Final = 500_000
"""Rows of a large commit that are in memory at a time; with a few columns, tens of megabytes."""
READ_ROWS: Final = 1 << 17
"""Rows of a batch of a data file that is read in pieces: some batches are decoded ahead."""
Remaining = Callable[[pa.Table], pa.Table]
"""Returns rows without some that it leaves out."""


@dataclass(frozen=True, slots=True)
class InsertedRows:
    """A commit that has only inserted rows, to be read in pieces, the series key as a dictionary.

    Its data files are in the order of their first timestamps; `times` has the least and greatest one.
    """

    files: DataFiles
    version: int
    paths: tuple[str, ...]
    schema: pa.Schema
    series_key: str
    times: Bounds

    def pieces(self, columns: Collection[str] | None = None, remaining: Remaining | None = None) -> Iterator[pa.Table]:
        """Yield the rows in the order of the files, with the columns of `Changes.read`, about `PIECE_ROWS` at a time.

        Of the stored columns only `columns` are read, by default all. `remaining` returns rows without those that are left out. At
        least one piece is yielded.
        """
        names = [name for name in self.schema.names if columns is None or name in columns]
        paths, series = list(self.paths), (self.series_key, None)
        batches = self.files.batches(paths, self.schema, names, None, series, max_rows=READ_ROWS, ahead=1)
        pieces = gather(batches, PIECE_ROWS)
        if remaining is not None:
            pieces = gather((batch for rows in map(remaining, pieces) for batch in rows.to_batches()), PIECE_ROWS)
        no_rows = pa.schema([self.schema.field(name) for name in names]).empty_table()
        yield as_inserted(next(pieces, no_rows), self.version)
        yield from (as_inserted(piece, self.version) for piece in pieces)


def gather(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Join and cut batches to tables of about this many rows."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            waiting.append(batch.slice(start, rows))
            if sum(part.num_rows for part in waiting) >= rows:
                yield pa.Table.from_batches(waiting)
                waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


@dataclass(frozen=True, slots=True)
class CommitSize:
    """The rows of a commit: those of its changes, and those that it inserted or updated; and whether it dropped subtables."""

    changes: int
    written: int
    drops: bool = False


def _followed(handle: Handle, commit: LoggedCommit) -> list[tuple[str | None, tuple[dict[str, Any], ...]]]:
    """Return the changes of a commit that readers see: of an external table it may be left out if it does not only insert.

    Raises:
        HistoryGoneError: Readers stop at such a commit.
    """
    rule = handle.data.on_change
    if rule is OnChange.RECALCULATE or not (commit.removed or commit.changed):
        return commit.changes
    if rule is OnChange.IGNORE:
        return []
    raise HistoryGoneError(
        f"version {commit.version} of {handle.name} removes or replaces rows, and the table has ON CHANGE STOP",
        hint="RESET STREAM computes the results again from the rows that there are now",
    )


def _check_range(handle: Handle, first: int, last: int, newest: int) -> None:
    _check_offset(handle, last, newest)
    if not 0 <= first <= last:
        raise InternalError(f"changes {first} to {last} of {handle.name} do not exist: it is at version {newest}")


def _check_offset(handle: Handle, offset: int, newest: int) -> None:
    if offset > newest:
        raise OffsetAheadError(
            f"version {offset} of {handle.name} has been read, but the newest one is {newest}",
            hint="versions were lost, or the table alone was restored: RESET STREAM computes the results again, a pipe has to be "
            "created again; or restore a whole backup",
        )


def _explain_failure(handle: Handle, version: int, error: Exception) -> Exception:
    """Return the error for a failed read: the changes were removed, if that is the cause."""
    if not _is_readable(handle.uri, version):
        return _removed_error(handle, version)
    return StorageError(f"changes {version} of {handle.name} cannot be read: {first_line(error)}", hint="check the storage")


def _is_readable(uri: str, version: int) -> bool:
    try:
        commit = read_commit(uri, version)
    except ValueError:  # it is damaged, not removed
        return True
    return commit is not None and files_exist(uri, commit.change_files)


def _removed_error(handle: Handle, version: int) -> HistoryGoneError:
    return HistoryGoneError(
        f"changes of {handle.name} in version {version} have been removed",
        hint="create the stream again with FILL_HISTORY 1; changes are kept for readers that are behind for up to "
        "HEADRACE_MAINTENANCE_MAX_KEEP_HOURS, unless another engine has vacuumed the table",
    )


class Changes:
    """Reads the change data feeds of tables."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self._written = WrittenChanges()
        # The newest versions that survive a power failure, and the identities of their log entries, by the URI of the table.
        self._synced: dict[str, tuple[int, tuple[int, int]]] = {}

    def check_offset(self, table: Table, offset: int, newest: int) -> None:
        """Raise `OffsetAheadError` if a job has read a table further than its newest version."""
        _check_offset(self._handles.reader(table), offset, newest)

    def sync(self, table: Table) -> None:
        """Have all that has been read of a table survive a power failure before something durable follows from it.

        Its writers may not have synced it yet.
        """
        handle = self._handles.reader(table)
        if not is_local(handle.uri) or durable.is_relaxed(handle.uri):
            return
        newest = handle.version()
        state = (newest, handle.identity(newest))
        synced = self._synced.get(handle.uri)
        if state != synced:
            first = newest if synced is None or synced[0] > newest else synced[0] + 1
            with translate_errors(handle.name):
                sync_versions(handle.uri, first, newest)
                durable.sync(f"{handle.uri}/{LOG}")
            self._synced[handle.uri] = state

    def read(self, table: Table, first: int, last: int) -> pa.Table:
        """Return the changes of versions `first` to `last`, both inclusive: stored columns, `_change_type`, `_commit_version`.

        Ordered by version. `_change_type` is insert, update_preimage, update_postimage or delete.

        Raises:
            HistoryGoneError: The changes of some of the versions have been removed.
        """
        handle = self._handles.reader(table)
        written = self._written.read(handle, first, last)
        if written is not None:
            return written
        schema = self._schema_at(handle, first, last)
        parts = [rows for version in range(first, last + 1) for rows in self._changes_of(table, handle, version, schema)]
        return pa.concat_tables([changes_schema(schema).empty_table(), *parts])

    def _schema_at(self, handle: Handle, first: int, last: int) -> pa.Schema:
        """Return the stored columns at the newest version, which must not be older than the versions to read."""
        with handle.latest_snapshot() as newest:
            _check_range(handle, first, last, newest.number)
            self._written.note(handle, newest.number, newest.schema)
            return newest.schema

    def _changes_of(self, table: Table, handle: Handle, version: int, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the changes of a version, about `PIECE_ROWS` rows at a time."""
        series = (table.series_key, None)
        try:
            commit = read_commit(handle.uri, version)
            if commit is None:
                raise _removed_error(handle, version)
            for change_type, actions in _followed(handle, commit):
                stored = schema if change_type else schema.append(pa.field(CHANGE_TYPE, pa.string()))
                paths = handle.data.references(actions)
                batches = handle.data.batches(paths, stored, stored.names, None, series, encoded=False, max_rows=READ_ROWS, ahead=1)
                yield from (as_changed(rows, version, change_type) for rows in gather(batches, PIECE_ROWS))
        except (ValueError, pa.ArrowException, OSError) as error:
            raise _explain_failure(handle, version, error) from error

    def stream(self, table: Table, version: int) -> Iterator[pa.Table]:
        """Yield the rows of `read` of a version, about `PIECE_ROWS` at a time."""
        handle = self._handles.reader(table)
        yield from self._changes_of(table, handle, version, self._schema_at(handle, version, version))

    def inserted(self, table: Table, version: int) -> InsertedRows | None:
        """Return the rows of a version for reading in pieces; None unless it has only inserted rows."""
        handle = self._handles.reader(table)
        with handle.latest_snapshot() as newest:
            schema = newest.schema
        commit = read_commit(handle.uri, version)
        if commit is None or commit.changed or commit.removed or any("deletionVector" in action for action in commit.added):
            return None
        paths = handle.data.references(commit.added)
        read = {path: handle.data.time_range(path, table.timestamp.name, schema) for path in paths}
        times = {path: bounds for path, bounds in read.items() if bounds is not None}
        if not times or len(times) < len(read):
            return None
        bounds = Bounds(min(file.low for file in times.values()), max(file.high for file in times.values()))
        in_order = sorted(times, key=lambda path: (times[path].low, path))
        return InsertedRows(handle.data, version, tuple(in_order), schema, table.series_key, bounds)

    def count(self, table: Table, first: int, last: int) -> int:
        """Return the number of rows of `read`, from the log without reading data files."""
        handle = self._handles.reader(table)
        total = 0
        for version in range(first, last + 1):
            commit = read_commit(handle.uri, version)
            if commit is None:
                raise _removed_error(handle, version)
            total += count_changed_rows(handle.uri, commit) if _followed(handle, commit) else 0
        return total

    def size(self, table: Table, version: int) -> CommitSize:
        """Return the number of rows of a version, from the log without reading data files."""
        handle = self._handles.reader(table)
        commit = read_commit(handle.uri, version)
        if commit is None:
            raise _removed_error(handle, version)
        if not _followed(handle, commit):
            return CommitSize(0, 0, commit.drops)
        return CommitSize(count_changed_rows(handle.uri, commit), count_written_rows(handle.uri, commit), commit.drops)

    def deleted_ranges(self, table: Table, version: int) -> TickRanges:
        """Return the ranges in which a version left no points of the series that lost some by it, as far as its log says so."""
        commit = read_commit(self._handles.reader(table).uri, version)
        return () if commit is None else commit.deleted_ranges

    def committed_at(self, table: Table, version: int) -> int | None:
        """Return when a version was committed, in epoch ms by its writer's clock; None if its log does not say, or was removed."""
        handle = self._handles.reader(table)
        commit = read_commit(handle.uri, version)
        return None if commit is None else commit.time
