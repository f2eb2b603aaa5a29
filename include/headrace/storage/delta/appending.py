"""Appends without delta-rs, which takes as long to plan a small one and to read the log again as to write its rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from headrace.model.tables import Table
from headrace.storage.delta.commits import Commit, WriteMetrics, recorded_by
from headrace.storage.delta.keys import find_stored_keys, keep_keys
from headrace.storage.delta.log import can_write_entry, write_entry
from headrace.storage.delta.log_entries import file_exists, log_file
from headrace.storage.delta.row_order import encoded_schema, value_type, with_encoded_series
from headrace.storage.delta.staged_files import ROW_GROUP_ROWS, StagedFile, now_ms, write_file
from headrace.storage.delta.written_rows import keep_written
from headrace.storage.types import with_all_columns

if TYPE_CHECKING:
    from headrace.storage.delta.handles import Handle
    from headrace.storage.delta.snapshots import Snapshot

MAX_APPENDED_ROWS: Final = ROW_GROUP_ROWS
"""delta-rs writes more rows at once, whose planning matters little."""


def append(handle: Handle, snapshot: Snapshot, table: Table, rows: pa.Table, commit: Commit | None) -> WriteMetrics | None:
    """Append rows, which are distinct by key, if no row has one of their keys. None, and no commit, if delta-rs has to do it.

    Their series key may be a dictionary.
    """
    if not 0 < rows.num_rows <= MAX_APPENDED_ROWS or not can_write_entry(snapshot) or not has_types(rows, snapshot.schema):
        return None
    encoded = with_encoded_series(rows, table.series_key)
    if find_stored_keys(handle, snapshot.files, table, snapshot.schema, encoded.select(list(table.primary_key))).num_rows:
        return None
    metrics = WriteMetrics(snapshot.number + 1, inserted=rows.num_rows)
    complete = with_all_columns(encoded, encoded_schema(snapshot.schema, table.series_key))
    added = write_file(handle.uri, complete, table)
    commit_files(handle, metrics.version, [append_info(metrics), add_action(added)], commit, [added.path])
    handle.advance(snapshot.after([], [file_entry(added, table, snapshot.schema)]))
    keep_keys(handle, table, added.path, complete)
    keep_written(handle, added.path, complete)
    return metrics


def has_types(rows: pa.Table, schema: pa.Schema) -> bool:
    """Return whether a table has all columns of rows, in their types."""
    return all(field.name in schema.names and schema.field(field.name).type == value_type(field.type) for field in rows.schema)


def commit_files(
    handle: Handle, version: int, actions: Sequence[dict[str, Any]], commit: Commit | None, written: Sequence[str]
) -> None:
    """Commit actions with the transactions that a commit records. If that fails, remove the written files.

    Raises:
        CommitFailedError: Another writer was first.
        OSError: The entry cannot be written, or it exists but cannot be synced.
    """
    recorded = [{"txn": {"appId": app, "version": number}} for app, number in recorded_by(commit).items()]
    try:
        write_entry(handle.uri, version, [*actions, *recorded])
    except (CommitFailedError, OSError) as error:
        if isinstance(error, OSError) and file_exists(log_file(handle.uri, version)):
            raise
        remove_files(handle.uri, written)
        raise


def remove_files(uri: str, paths: Iterable[str]) -> None:
    """Remove files of a local table that are not committed. What cannot be removed goes with the table's history."""
    for path in paths:
        with suppress(OSError):
            os.unlink(f"{uri}/{path}")


def file_entry(file: StagedFile, table: Table, schema: pa.Schema) -> pa.Table:
    """Return the row of a file in those of a table with this schema; see `Handle.files`."""
    time, key = table.timestamp.name, table.series_key
    instants = schema.field(time).type
    return pa.table(
        {
            "path": [file.path],
            "size_bytes": [file.size],
            "num_records": [file.rows],
            f"min.{time}": pa.array([file.times.low], instants),
            f"max.{time}": pa.array([file.times.high], instants),
            f"min.{key}": [file.names[0]],
            f"max.{key}": [file.names[1]],
        }
    )


def add_action(file: StagedFile, *, data_change: bool = True) -> dict[str, Any]:
    return {
        "add": {
            "path": file.path,
            "partitionValues": {},
            "size": file.size,
            "modificationTime": file.modified,
            "dataChange": data_change,
            "stats": file.statistics,
        }
    }


def remove_action(file: dict[str, Any], *, data_change: bool = True) -> dict[str, Any]:
    return {
        "remove": {
            "path": file["path"],
            "dataChange": data_change,
            "deletionTimestamp": now_ms(),
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": file["size_bytes"],
        }
    }


def append_info(metrics: WriteMetrics) -> dict[str, Any]:
    return commit_info("WRITE", {"mode": "Append"}, metrics.version, {"num_added_files": 1, "num_added_rows": metrics.inserted})


def commit_info(operation: str, parameters: dict[str, str], version: int, counts: dict[str, int]) -> dict[str, Any]:
    info = {"timestamp": now_ms(), "operation": operation, "operationParameters": parameters, "readVersion": version - 1}
    return {"commitInfo": {**info, "engineInfo": "headrace", "operationMetrics": counts}}
