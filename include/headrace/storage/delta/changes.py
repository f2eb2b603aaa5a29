"""Reading a table's change data feed."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from deltalake.exceptions import DeltaError

from headrace.errors import HistoryGoneError, InternalError, StorageError
from headrace.storage.delta.handles import Handle, first_line, stored_schema
from headrace.storage.delta.log import count_changed_rows, files_exist, read_commit

CHANGE_TYPE: Final = "_change_type"
COMMIT_VERSION: Final = "_commit_version"


def read_changes(handle: Handle, first: int, last: int) -> pa.Table:
    """Return the changes of versions `first` to `last`, both inclusive, ordered by version."""
    try:
        with handle.latest() as delta:
            _check_range(handle, first, last, delta.version())
            schema = changes_schema(stored_schema(delta))
            reader = delta.load_cdf(first, last)
        changes = pa.table(reader)
    except (StorageError, DeltaError, pa.ArrowException, OSError) as error:
        raise _explain_failure(handle, first, last, error) from error
    changes = changes.select(schema.names).cast(schema)
    return changes if first == last else changes.sort_by(COMMIT_VERSION)


def changes_schema(stored: pa.Schema) -> pa.Schema:
    """Return the columns of `read_changes`: the stored ones, then the type of change and its version."""
    return pa.schema([*stored, pa.field(CHANGE_TYPE, pa.string()), pa.field(COMMIT_VERSION, pa.int64())])


def count_changes(handle: Handle, first: int, last: int) -> int:
    """Return the number of rows of `read_changes`, from the log."""
    total = 0
    for version in range(first, last + 1):
        commit = read_commit(handle.uri, version)
        if commit is None:
            raise _removed_error(handle, [version])
        total += count_changed_rows(handle.uri, commit)
    return total


def committed_at(handle: Handle, version: int) -> int | None:
    """Return when a version was committed, in epoch ms; None if unknown."""
    commit = read_commit(handle.uri, version)
    return None if commit is None else commit.time


def _check_range(handle: Handle, first: int, last: int, newest: int) -> None:
    if not 0 <= first <= last <= newest:
        raise InternalError(f"changes {first} to {last} of {handle.name} do not exist: it is at version {newest}")


def _explain_failure(handle: Handle, first: int, last: int, error: Exception) -> Exception:
    """Return the error for a failed read, naming the versions that were removed if that is the cause."""
    removed = [version for version in range(first, last + 1) if not _is_readable(handle.uri, version)]
    if removed:
        return _removed_error(handle, removed)
    return StorageError(f"changes {first} to {last} of {handle.name} cannot be read: {first_line(error)}", hint="check the storage")


def _is_readable(uri: str, version: int) -> bool:
    commit = read_commit(uri, version)
    return commit is not None and files_exist(uri, commit.change_files)


def _removed_error(handle: Handle, versions: list[int]) -> HistoryGoneError:
    spans = str(versions[0]) if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
    return HistoryGoneError(
        f"changes of {handle.name} in version {spans} have been removed",
        hint="they were vacuumed, or their log was cleaned; create the stream again with FILL_HISTORY 1, and retain changes for "
        "longer than a stream may be paused",
    )
