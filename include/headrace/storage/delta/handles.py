"""Open Delta tables of this process, refreshed to their newest version at low cost.

`update_incremental` of delta-rs takes 0.3 ms even if nothing is new, and does not see that a table was dropped and created again.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from headrace.errors import ConfigurationError, ConflictError, NotFoundError, NotSupportedError, StorageError
from headrace.model.tables import Table

LOG: Final = "_delta_log"
UNSUPPORTED_FEATURES: Final = {"deletionVectors", "columnMapping"}
# File systems allow names of 255 bytes.
MAX_SEGMENT_CHARACTERS: Final = 200


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
    """Return the error for storage that cannot be used."""
    return StorageError(
        f"{owner} cannot be used: {first_line(error)}",
        hint="check disk space, access to the storage, and permissions of the folder",
    )


def first_line(error: BaseException) -> str:
    """Return an error's message without the stack trace that delta-rs appends."""
    return str(error).partition("\n")[0]


class Handle:
    """One Delta table, open at its newest version.

    One thread uses a handle at a time: `latest` holds its mutex. Readers and writers have separate handles, so that readers need
    not wait for a long commit.
    """

    def __init__(self, uri: str, name: str, options: Mapping[str, str]) -> None:
        self.uri = uri
        self.name = name
        self._options = dict(options)
        self._mutex = threading.RLock()
        self._delta: DeltaTable | None = None
        # The last version read, and the identity of its log file.
        self._seen: tuple[int, tuple[int, int] | None] | None = None
        self._files: tuple[int, pa.Table] | None = None

    @contextmanager
    def latest(self) -> Iterator[DeltaTable]:
        """Yield the table at its newest version, exclusively."""
        with self._mutex, translate_errors(self.name):
            delta = self._refresh()
            try:
                yield delta
            finally:
                self._remember(delta)

    def at(self, version: int) -> DeltaTable:
        """Return the table as of a version."""
        with translate_errors(f"version {version} of {self.name}"):
            return DeltaTable(self.uri, version=version, storage_options=self._options or None)

    def files(self, delta: DeltaTable) -> pa.Table:
        """Return `list_files` of this version, cached until the next version."""
        version = delta.version()
        if self._files is None or self._files[0] != version:
            check_readable(delta, self.name)
            self._files = (version, list_files(delta))
        return self._files[1]

    def forget(self) -> None:
        """Reopen the table on next use."""
        with self._mutex:
            self._delta = self._seen = self._files = None

    def _refresh(self) -> DeltaTable:
        delta = self._delta
        if delta is None or not self._is_same_log(delta):
            self._files = None
            delta = self._delta = DeltaTable(self.uri, storage_options=self._options or None)
        elif self._has_newer_version(delta):
            delta.update_incremental()
        self._remember(delta)
        return delta

    def _remember(self, delta: DeltaTable) -> None:
        version = delta.version()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, self._file_identity(version))

    def _is_same_log(self, delta: DeltaTable) -> bool:
        """Return whether the log is the one that was read: a table dropped and created again has another."""
        version = delta.version()
        return self._seen is not None and self._seen == (version, self._file_identity(version))

    def _has_newer_version(self, delta: DeltaTable) -> bool:
        return not is_local(self.uri) or os.path.exists(log_file(self.uri, delta.version() + 1))

    def _file_identity(self, version: int) -> tuple[int, int] | None:
        """Return the identity of a log file; None if the storage does not provide one."""
        if not is_local(self.uri):
            return None
        try:
            stat = os.stat(log_file(self.uri, version))
        except FileNotFoundError:
            return (0, 0)
        return (stat.st_ino, stat.st_mtime_ns)


def check_readable(delta: DeltaTable, name: str) -> None:
    """Raise `NotSupportedError` if a table uses features under which a data file alone does not define its rows."""
    unsupported = UNSUPPORTED_FEATURES.intersection(delta.protocol().reader_features or ())
    if unsupported:
        raise NotSupportedError(
            f"{name} uses {', '.join(sorted(unsupported))} of Delta Lake, which is not supported",
            hint="disable the feature for this table, and purge it",
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


def is_local(uri: str) -> bool:
    """Return whether a URI is a local path."""
    return "://" not in uri


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
    return root.rstrip("/")


def spark_path(uri: str) -> str:
    """Return a table's path for Spark: Hadoop paths are not escaped."""
    return f"file://{uri}" if is_local(uri) else uri


def log_file(uri: str, version: int) -> str:
    """Return the URI of a version's log entry."""
    return f"{uri}/{LOG}/{version:020}.json"


def file_system(uri: str) -> tuple[pafs.FileSystem, str]:
    """Return Arrow's file system for a URI, and the path in it.

    A process that uses the file system of delta-rs from Python may abort at exit, so Arrow's is used.
    """
    if is_local(uri):
        return pafs.LocalFileSystem(), uri
    system, path = pafs.FileSystem.from_uri(uri)
    return system, path


class Handles:
    """The handles of one process: per table a reader and a writer of its rows, and one for its tags."""

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self.uri = uri.rstrip("/")
        self.options = options
        self._open: dict[tuple[str, str], Handle] = {}
        self._mutex = threading.Lock()

    def reader(self, table: Table) -> Handle:
        """Return the handle for reading a table's rows."""
        return self._handle("reader", rows_uri(self.uri, table), f"table {table.database}.{table.name}")

    def writer(self, table: Table) -> Handle:
        """Return the handle for writing a table's rows."""
        return self._handle("writer", rows_uri(self.uri, table), f"table {table.database}.{table.name}")

    def tags(self, table: Table) -> Handle:
        """Return the handle of a supertable's tags."""
        return self._handle("tags", tags_uri(self.uri, table), f"tags of {table.database}.{table.name}")

    def forget(self, table: Table) -> None:
        """Close the handles of a table."""
        with self._mutex:
            for key in [key for key in self._open if key[1] in (rows_uri(self.uri, table), tags_uri(self.uri, table))]:
                del self._open[key]

    def _handle(self, purpose: str, uri: str, name: str) -> Handle:
        with self._mutex:
            return self._open.setdefault((purpose, uri), Handle(uri, name, self.options))


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


def table_uri(root: str, table: Table) -> str:
    """Return the URI of a table's folder."""
    return f"{root}/{path_segment(table.database)}/{path_segment(table.name)}"


def rows_uri(root: str, table: Table) -> str:
    """Return the URI of the Delta table with a table's rows."""
    return f"{table_uri(root, table)}/rows"


def tags_uri(root: str, table: Table) -> str:
    """Return the URI of the Delta table with a supertable's tags."""
    return f"{table_uri(root, table)}/tags"
