"""Open Delta tables of this process, refreshed to their newest version at low cost.

`update_incremental` of delta-rs takes 0.3 ms even if nothing is new, and does not see that a table was dropped and created again.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from headrace import durable
from headrace.errors import ConfigurationError, ConflictError, NotFoundError, NotSupportedError, StorageError
from headrace.model.tables import Table
from headrace.storage.delta.data_files import DataFiles
from headrace.storage.delta.key_digests import KeyDigests
from headrace.storage.delta.log_entries import (
    CHECKED_ENTRIES,
    LOG,
    check_entries,
    check_entry,
    explain_damage,
    file_exists,
    is_local,
    log_file,
    newest_version,
    read_entry,
    read_file,
)
from headrace.storage.delta.lru_cache import LruCache
from headrace.storage.delta.series_ends import LatestTimes, SeriesEnds
from headrace.storage.delta.snapshots import Snapshot
from headrace.storage.delta.transactions import Transactions
from headrace.storage.object_store import S3, S3A, delta_options, file_system, is_object_store, normalize

UNSUPPORTED_FEATURES: Final = {"deletionVectors", "columnMapping"}
# On an object store, `version` looks this often whether a table was dropped and created again.
MAX_UNVERIFIED_S: Final = 10.0
# File systems allow names of 255 bytes.
MAX_SEGMENT_CHARACTERS: Final = 200
MAX_CACHED_BYTES: Final = 32 << 20
# What a table in memory takes beside its values. Most are of one commit and have few rows, so that this is most of what they take.
TABLE_BYTES: Final = 4_000
COLUMN_BYTES: Final = 900
# What delta-rs and Spark say of a listing of the log that lacks an entry, and how long to wait before each further look.
GAPS: Final = ("Expected contiguous commit files", "DELTA_VERSIONS_NOT_CONTIGUOUS")
GAP_PAUSES_S: Final = (0.0, 0.01, 0.05, 0.2, 0.5)
# delta-rs reads the last checkpoint faster than this many log entries are read.
MAX_FOLLOWED: Final = 1_000
DATA_FILE: Final = re.compile(r"(?<![^/\s'\"])[^/\s'\"]+\.parquet")
Result = TypeVar("Result")
CachedRows = LruCache[str, pa.Table]
"""Rows of data files, by path. A data file never changes."""


def cached_rows() -> CachedRows:
    return LruCache(MAX_CACHED_BYTES, lambda rows: rows.nbytes + TABLE_BYTES + COLUMN_BYTES * rows.num_columns)


@contextmanager
def translate_errors(owner: str) -> Iterator[None]:
    """Translate exceptions of delta-rs, Arrow and the file system; `owner` names the table in messages."""
    try:
        yield
    except TableNotFoundError as error:
        raise NotFoundError(
            f"{owner} has no Delta table: {first_line(error)}", hint="check whether it was dropped, or HEADRACE_WAREHOUSE changed"
        ) from error
    except CommitFailedError as error:
        raise ConflictError(f"{owner} was changed by another writer: {first_line(error)}", hint="try again") from error
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise storage_error(owner, error) from error
    except Exception as error:
        if type(error) is not Exception:  # delta-rs raises bare ones
            raise
        raise storage_error(owner, error) from error


def storage_error(owner: str, error: BaseException) -> StorageError:
    if isinstance(error, FileNotFoundError) and (name := DATA_FILE.search(str(error))) is not None:
        return missing_file(name[0])
    return StorageError(
        f"{owner} cannot be used: {first_line(error)}",
        hint="check disk space, access to the storage, and permissions of the folder",
    )


def missing_file(name: str) -> StorageError:
    """Return the error for a data file that the log has, but the storage has not."""
    return StorageError(
        f"the data file {name} is missing",
        hint="run it again if maintenance has removed the file meanwhile (see HEADRACE_MAINTENANCE_KEEP_HOURS); "
        "else restore the table from a backup",
    )


def first_line(error: BaseException) -> str:
    """Return an error's message without the stack trace that delta-rs appends."""
    return str(error).partition("\n")[0]


class Handle:
    """One Delta table, open at its newest version.

    On an object store, `latest` takes two requests if nothing is new, and `version` one.

    One thread uses a handle at a time: `latest` holds its mutex. Readers and writers have separate handles, so that readers need
    not wait for a long commit.
    """

    def __init__(self, uri: str, name: str, written: CachedRows | None = None, keys: CachedRows | None = None) -> None:
        """Create a handle of a table that is opened on first use.

        `written` has rows that this process has written, `keys` the keys of files that it has written or read.
        """
        self.uri = uri
        self.name = name
        self.data = DataFiles(uri)
        self.written = cached_rows() if written is None else written
        self.keys = cached_rows() if keys is None else keys
        self.digests = KeyDigests()
        self.ends = SeriesEnds()
        self.latest_times = LatestTimes()
        self._mutex = threading.RLock()
        self._delta: DeltaTable | None = None
        # The last version read, and the identity of its log file.
        self._seen: tuple[int, tuple[int, int]] | None = None
        # When the log was last seen to be the one that was read, on the monotonic clock.
        self._verified = 0.0
        self._newest = 0
        self._files: tuple[int, pa.Table] | None = None
        self._transactions = Transactions(lambda version: read_file(log_file(uri, version)))
        # The last version that was read or committed as a snapshot, and the identity of its log file.
        self._snapshot: tuple[Snapshot, tuple[int, int]] | None = None

    @contextmanager
    def latest(self) -> Iterator[DeltaTable]:
        """Yield the table at its newest version, exclusively."""
        with self._mutex, translate_errors(self.name):
            self._follow_source()
            delta = self._refresh()
            try:
                yield delta
            finally:
                self._remember(delta)

    @contextmanager
    def latest_snapshot(self) -> Iterator[Snapshot]:
        """Yield the newest version, exclusively. After most commits to a local table that takes no call of delta-rs."""
        with self._mutex, translate_errors(self.name):
            self._follow_source()
            yield self.as_rows(self._followed() or self._read_snapshot())

    def as_rows(self, snapshot: Snapshot) -> Snapshot:
        """Return a version with the files and columns of the table's rows: not those that are stored if another writer has it."""
        return snapshot

    def _follow_source(self) -> None:
        """Have the log say what has changed in the files of another writer, who does not write it."""

    def _read_snapshot(self) -> Snapshot:
        delta = self._refresh()
        snapshot = Snapshot.of(delta, stored_schema(delta), self.files(delta))
        if is_local(self.uri):
            self.advance(snapshot)
        return snapshot

    def _followed(self) -> Snapshot | None:
        """Return the newest version by the log entries since the one that is known; None if delta-rs has to read the log."""
        snapshot, identity = self._snapshot or (None, None)
        if not is_local(self.uri) or snapshot is None or identity != self.identity(snapshot.number):
            return None
        if file_exists(log_file(self.uri, snapshot.number + MAX_FOLLOWED)):
            return None
        entries: list[bytes] = []
        while (entry := read_entry(self.uri, snapshot.number + len(entries) + 1)) is not None:
            entries.append(entry)
            check_entry(self.uri, snapshot.number + len(entries), self.name, entry, has_files=False)
        if not entries:
            return snapshot
        followed = snapshot.followed_by(entries)
        if followed is not None:
            self.advance(followed)
        return followed

    def advance(self, snapshot: Snapshot) -> None:
        """Keep a version that is the newest; the caller has the table exclusively."""
        self._snapshot = (snapshot, self.identity(snapshot.number))

    def version(self) -> int:
        """Return the newest version at low cost: on an object store, a table that was created again is noticed a little later."""
        with self._mutex, translate_errors(self.name):
            self._follow_source()
            if is_local(self.uri) and self._delta is not None and self._is_same_log(self._delta):
                return self._find_newest(self._delta.version())
            delta, is_verified = self._delta, time.monotonic() < self._verified + MAX_UNVERIFIED_S
            if delta is not None and not is_local(self.uri) and is_verified and not self._has_newer_version(delta):
                return int(delta.version())
        with self.latest() as delta:
            return int(delta.version())

    def _find_newest(self, version: int) -> int:
        """Return the newest version of a local table, given an older one."""
        version = max(version, self._newest)
        while (entry := read_entry(self.uri, version + 1)) is not None:
            version += 1
            check_entry(self.uri, version, self.name, entry, has_files=False)
        self._newest = version
        return version

    def at(self, version: int) -> DeltaTable:
        """Return the table as of a version."""
        with translate_errors(f"version {version} of {self.name}"):
            return open_table(self.uri, version)

    def files(self, delta: DeltaTable) -> pa.Table:
        """Return the files of this version, cached until the next version."""
        version = delta.version()
        if self._files is None or self._files[0] != version:
            self._files = (version, self.list_files(delta))
        return self._files[1]

    def list_files(self, delta: DeltaTable) -> pa.Table:
        """Return `list_files` of a version; raise `NotSupportedError` if its files do not define its rows."""
        check_readable(delta, self.name)
        return list_files(delta)

    def transaction_version(self, table: DeltaTable | Snapshot, app: str) -> int | None:
        """Return the version that this version of the table has recorded of an app transaction; None if there is none."""
        return self._transactions.version_of(app, table.version(), lambda: self._delta_of(table))

    def _delta_of(self, table: DeltaTable | Snapshot) -> DeltaTable:
        delta = self._refresh() if isinstance(table, Snapshot) else table
        if delta.version() != table.version():
            raise CommitFailedError(f"version {delta.version()} exists")
        return delta

    def forget(self) -> None:
        """Reopen the table on next use."""
        with self._mutex:
            self._delta = self._seen = self._files = self._snapshot = None
            self._transactions.forget()
            self.latest_times = LatestTimes()

    def _refresh(self) -> DeltaTable:
        delta = self._delta
        if delta is None or not self._is_same_log(delta):
            self._files = None
            self._newest = 0
            self._transactions.forget()
            with explain_damage(self.uri, self.name):
                delta = self._delta = open_table(self.uri)
            self._check_identity(delta)
            check_entries(self.uri, self.name, delta.version() - CHECKED_ENTRIES + 1, delta.version())
        elif self._has_newer_version(delta):
            read = delta.version()
            with explain_damage(self.uri, self.name):
                refresh(delta, self.uri)
            check_entries(self.uri, self.name, max(read + 1, delta.version() - CHECKED_ENTRIES + 1), delta.version())
        self._remember(delta)
        self._verified = time.monotonic()
        return delta

    def _check_identity(self, delta: DeltaTable) -> None:
        """Raise an error if another writer has made its table again."""

    def _remember(self, delta: DeltaTable) -> None:
        version = delta.version()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, self.identity(version))

    def _is_same_log(self, delta: DeltaTable) -> bool:
        """Return whether the log is the one that was read: a table dropped and created again has another."""
        version = delta.version()
        return self._seen is not None and self._seen == (version, self.identity(version))

    def _has_newer_version(self, table: DeltaTable | Snapshot) -> bool:
        return file_exists(log_file(self.uri, table.version() + 1))

    def identity(self, version: int) -> tuple[int, int]:
        """Return what distinguishes the log entry of a version from those of tables that were dropped; zeros if there is none."""
        path = log_file(self.uri, version)
        if not is_local(self.uri):
            system, key = file_system(path)
            info = system.get_file_info(key)
            return (info.size or 0, info.mtime_ns or 0)
        try:
            stat = os.stat(path)
        except FileNotFoundError:
            return (0, 0)
        return (stat.st_ino, stat.st_mtime_ns)


def open_table(uri: str, version: int | None = None) -> DeltaTable:
    """Open a Delta table at a version; None for the newest."""

    def open_() -> DeltaTable:
        newest = newest_version(uri) if version is None and is_local(uri) else version
        return DeltaTable(uri, version=newest, storage_options=delta_options(uri))

    return look_again(open_)


def write_checkpoint(uri: str, version: int) -> None:
    """Write a checkpoint of a version, as delta-rs does after its own commits."""
    with translate_errors(uri):
        delta = open_table(uri, version)
        delta.create_checkpoint()
        checkpoint = f"{uri}/{LOG}/{delta.version():020}.checkpoint.parquet"
        durable.sync(checkpoint, f"{uri}/{LOG}/_last_checkpoint", f"{uri}/{LOG}")


def refresh(delta: DeltaTable, uri: str) -> None:
    """Load the newest version of a table, without reading more than the entries since the one at which it is open."""

    def load() -> None:
        if is_local(uri):
            delta.load_as_version(newest_version(uri, delta.version()) or 0)
        else:
            delta.update_incremental()

    look_again(load)


def look_again(read: Callable[[], Result]) -> Result:
    """Return what `read` does, and repeat it if a listing of the log lacks an entry.

    A listing beside commits may have a later entry and not an earlier one, which delta-rs takes for damage. It ignores entries
    after the version that it has to read.
    """
    for pause_s in GAP_PAUSES_S:
        try:
            return read()
        except Exception as error:
            if not any(gap in str(error) for gap in GAPS):
                raise
            time.sleep(pause_s)
    return read()


def table_uri_of(delta: DeltaTable) -> str:
    """Return the URI with which a table was opened: that of delta-rs is escaped, also for a path."""
    return unquote(delta.table_uri).removeprefix("file://").rstrip("/")


def check_readable(delta: DeltaTable, name: str) -> None:
    """Raise `NotSupportedError` if a table uses features under which a data file alone does not define its rows."""
    unsupported = UNSUPPORTED_FEATURES.intersection(delta.protocol().reader_features or ())
    if unsupported:
        raise NotSupportedError(
            f"{name} uses {', '.join(sorted(unsupported))} of Delta Lake, which is not supported",
            hint="remove it in Spark: ALTER TABLE … DROP FEATURE " + sorted(unsupported)[0],
        )


def stored_schema(delta: DeltaTable) -> pa.Schema:
    """All columns of a Delta table as Arrow fields, also those that are not declared."""
    return pa.schema(delta.schema().to_arrow())


def list_files(delta: DeltaTable) -> pa.Table:
    """Return one row per data file: `path`, `size_bytes`, `num_records`, and `min.…`, `max.…` of columns with statistics."""
    files = pa.table(delta.get_add_actions(flatten=True))
    return files.cast(pa.schema([field.with_type(_without_views(field.type)) for field in files.schema]))


def _without_views(type_: pa.DataType) -> pa.DataType:
    """Return the type with string views as plain strings, which all Arrow functions accept."""
    return pa.string() if pa.types.is_string_view(type_) else type_


def normalize_root(uri: str) -> str:
    """Normalize a warehouse URI: no trailing slash, and `file:` URIs as paths.

    Raises:
        ConfigurationError: delta-rs cannot use the path.
    """
    root = unquote(uri.removeprefix("file://")) if uri.startswith("file:///") else uri
    if is_local(root) and unquote(root) != root:
        raise ConfigurationError(
            f"tables cannot be stored in {root}: delta-rs reads its % as an escape",
            hint="set HEADRACE_HOME or HEADRACE_WAREHOUSE to another path",
        )
    return normalize(root)


def spark_path(uri: str) -> str:
    """Return a table's path for Spark: Hadoop paths are not escaped, and its connector to S3 has a scheme of its own."""
    if is_local(uri):
        return f"file://{uri}"
    return S3A + uri.removeprefix(S3) if is_object_store(uri) else uri


def path_segment(name: str) -> str:
    """Encode a name as a path segment: other bytes than letters, digits and `_` become `-xx`; a long name ends in its hash."""
    encoded = "".join(character if character.isascii() and character.isalnum() else _escape(character) for character in name)
    return (
        encoded
        if len(encoded) <= MAX_SEGMENT_CHARACTERS
        else f"{encoded[:MAX_SEGMENT_CHARACTERS]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    )


def _escape(character: str) -> str:
    return character if character == "_" else "".join(f"-{byte:02x}" for byte in character.encode())


def folder_uri(root: str, database: str, table: str | None) -> str:
    """Return the folder of a database, or of one of its tables."""
    return "/".join([root, *(path_segment(name) for name in (database, table) if name is not None)])


def table_uri(root: str, table: Table) -> str:
    return folder_uri(root, table.database, table.name)


def rows_uri(root: str, table: Table) -> str:
    """Return where the Delta table of a table's rows is."""
    is_direct = table.external is not None and not table.external.format.is_mirrored
    return table.external.location if is_direct and table.external is not None else f"{table_uri(root, table)}/rows"


def tags_uri(root: str, table: Table) -> str:
    return f"{table_uri(root, table)}/tags"
