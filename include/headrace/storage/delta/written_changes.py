"""Changes that this process has written a short time ago, from the rows in memory.

delta-rs takes milliseconds to read new log entries and to plan the reading of their files, however few rows these have. A stream in
the process that writes its source knows the rows already.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.storage.delta.change_columns import as_inserted, changes_schema
from headrace.storage.delta.data_files import with_stored_columns
from headrace.storage.delta.handles import Handle
from headrace.storage.delta.log import LoggedCommit, read_commit
from headrace.storage.delta.log_entries import is_local
from headrace.storage.delta.row_order import decoded


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """The stored columns of a table at a version, and the identity of the log entry of the version."""

    version: int
    identity: tuple[int, int]
    schema: pa.Schema


class WrittenChanges:
    """Reads changes of local tables whose commits have only inserted rows that are in memory."""

    def __init__(self) -> None:
        """Start without the schema of any table."""
        self._schemas: dict[str, KnownSchema] = {}

    def note(self, handle: Handle, version: int, schema: pa.Schema) -> None:
        """Note the stored columns of a table at its newest version."""
        if is_local(handle.uri):
            self._schemas[handle.uri] = KnownSchema(version, handle.identity(version), schema)

    def read(self, handle: Handle, first: int, last: int) -> pa.Table | None:
        """Return the changes of versions, as `Changes.read` does; None if they have to be read from files."""
        try:
            return self._read(handle, first, last)
        except (OSError, ValueError):  # a damaged log entry: delta-rs explains it
            return None

    def _read(self, handle: Handle, first: int, last: int) -> pa.Table | None:
        schema = self._newest_schema(handle)
        if schema is None or first > last:
            return None
        parts = [changes_schema(schema).empty_table()]
        for version in range(first, last + 1):
            rows = inserted_rows(handle, read_commit(handle.uri, version))
            if rows is None:
                return None
            parts += [as_inserted(with_stored_columns(decoded(part), schema), version) for part in rows]
        return pa.concat_tables(parts)

    def _newest_schema(self, handle: Handle) -> pa.Schema | None:
        """Return the stored columns of a table at its newest version; None if they may differ from those that are known."""
        known = self._schemas.get(handle.uri)
        if known is None or known.identity != handle.identity(known.version):
            return None
        version = known.version
        while (commit := read_commit(handle.uri, version + 1)) is not None:
            if commit.has_metadata:
                return None
            version += 1
        if version > known.version:
            self.note(handle, version, known.schema)
        return known.schema


def inserted_rows(handle: Handle, commit: LoggedCommit | None) -> list[pa.Table] | None:
    """Return the rows that a commit has inserted, file by file; None if not all are in memory, or it has done anything else."""
    if commit is None or commit.time is None or commit.changed or commit.removed:
        return None
    kept = [handle.written.get(f"{handle.uri}/{action['path']}") for action in commit.added]
    rows = [part for part in kept if part is not None]
    return rows if len(rows) == len(kept) else None
