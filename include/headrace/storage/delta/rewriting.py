"""Small replacements without delta-rs, which takes 10 to 15 ms to plan and execute a merge, however few rows it has.

The few files that hold the keys are read whole, and the commit replaces them, with the same change files as a merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.model.tables import Table
from headrace.storage.delta.appending import add_action, commit_files, commit_info, file_entry, remove_action, remove_files
from headrace.storage.delta.commits import Commit, WriteMetrics
from headrace.storage.delta.data_files import with_stored_columns
from headrace.storage.delta.log import CHANGE_TYPE, can_write_entry
from headrace.storage.delta.merging import merge_scope
from headrace.storage.delta.pruning import prune_files
from headrace.storage.delta.staged_files import StagedFile, write_file, write_parquet
from headrace.storage.delta.written_rows import forget_written, keep_written
from headrace.storage.row_matching import Int64s, match_rows
from headrace.storage.types import with_all_columns

if TYPE_CHECKING:
    from headrace.storage.delta.handles import Handle
    from headrace.storage.delta.snapshots import Snapshot

MAX_READ_ROWS: Final = 32_768
"""Rows of the files that may hold the keys; delta-rs merges into larger files."""
MAX_COPIED_ROWS: Final = 2_048
"""Copied rows that share a file with new ones. More get a file of their own, so that the next update need not copy them again."""
CHANGES: Final = "_change_data"
FILE_COLUMNS: Final = ["path", "size_bytes", "num_records"]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Files:
    """Data files that may hold the keys: their rows with all stored columns, and the file of each."""

    entries: list[dict[str, Any]]
    rows: pa.Table
    owner: Int64s


@dataclass(frozen=True, slots=True)
class Replacement:
    """What a commit changes: rows before and after an update, deleted and inserted rows, and the files they are in."""

    before: pa.Table
    after: pa.Table
    deleted: pa.Table
    inserted: pa.Table
    copied: pa.Table
    removed: list[dict[str, Any]]

    def data(self) -> list[pa.Table]:
        """Return the rows of the files to add."""
        written = pa.concat_tables([self.after, self.inserted])
        parts = [self.copied, written] if self.copied.num_rows > MAX_COPIED_ROWS else [pa.concat_tables([self.copied, written])]
        return [part for part in parts if part.num_rows]

    def changes(self) -> pa.Table:
        """Return the rows of the change file."""
        parts = {"update_preimage": self.before, "update_postimage": self.after, "delete": self.deleted, "insert": self.inserted}
        typed = [rows.append_column(CHANGE_TYPE, pa.repeat(name, rows.num_rows)) for name, rows in parts.items() if rows.num_rows]
        return pa.concat_tables(typed)


def rewrite(
    handle: Handle, snapshot: Snapshot, table: Table, rows: pa.Table, deleted_keys: pa.Table, commit: Commit | None
) -> WriteMetrics | None:
    """Upsert rows and delete keys in one commit; without effect it has only what it records. None if delta-rs has to do it.

    The commit builds on `snapshot`. `rows` have the known columns and are distinct by key, as are the deleted keys, none of which
    they have.
    """
    keys = pa.concat_tables([rows.select(list(table.primary_key)), deleted_keys])
    if keys.num_rows == 0 or not can_write_entry(snapshot):
        return None
    files = read_candidates(handle, snapshot, table, keys)
    if files is None:
        return None
    replacement = plan_replacement(files, table, rows, keys)
    metrics = WriteMetrics(
        snapshot.number + 1, replacement.inserted.num_rows, replacement.after.num_rows, replacement.deleted.num_rows
    )
    if metrics.rows == 0 and commit is None:
        return WriteMetrics(snapshot.number)
    commit_replacement(handle, snapshot, table, replacement, metrics, commit)
    return metrics


def read_candidates(handle: Handle, snapshot: Snapshot, table: Table, keys: pa.Table) -> Files | None:
    """Read the files that may hold keys; None if they have too many rows, or are not those of Headrace or delta-rs."""
    schema, scope = snapshot.schema, merge_scope(keys, table)
    names = pc.unique(keys[table.series_key]).to_pylist()
    entries = prune_files(snapshot.files, table, schema, scope.times, names).select(FILE_COLUMNS).to_pylist()
    counts = [entry["num_records"] for entry in entries]
    if any(count is None for count in counts) or sum(counts) > MAX_READ_ROWS:
        return None
    if any("%" in entry["path"] or "://" in entry["path"] for entry in entries):
        return None
    parts = [read_rows(handle, f"{handle.uri}/{entry['path']}", schema) for entry in entries]
    owner = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
    return Files(entries, pa.concat_tables([schema.empty_table(), *parts]), owner)


def read_rows(handle: Handle, path: str, schema: pa.Schema) -> pa.Table:
    """Return the rows of a data file with all stored columns; those that are younger than the file are NULL."""
    rows = handle.written.get(path)
    if rows is None:
        with pq.ParquetFile(path) as file:
            rows = file.read(use_threads=False)
    return with_stored_columns(rows, schema)


def plan_replacement(files: Files, table: Table, rows: pa.Table, keys: pa.Table) -> Replacement:
    """Compare stored rows with those to upsert, which are the first of the keys, and with the keys to delete."""
    stored, key = files.rows, list(table.primary_key)
    match = match_rows(stored, keys, key)
    matched = np.flatnonzero((match >= 0) & (match < rows.num_rows))
    before = stored.take(matched)
    after = with_values(before, rows.take(match[matched]), [name for name in rows.column_names if name not in key])
    differs = rows_differ(before, after)
    is_deleted = match >= rows.num_rows
    is_changed = is_deleted.copy()
    is_changed[matched[differs]] = True
    touched = np.unique(files.owner[is_changed])
    is_new = np.ones(keys.num_rows, np.bool_)
    is_new[match[match >= 0]] = False
    return Replacement(
        before=before.filter(pa.array(differs)),
        after=after.filter(pa.array(differs)),
        deleted=stored.filter(pa.array(is_deleted)),
        inserted=with_all_columns(rows.filter(pa.array(is_new[: rows.num_rows])), stored.schema),
        copied=stored.filter(pa.array(np.isin(files.owner, touched) & ~is_changed)),
        removed=[files.entries[number] for number in touched.tolist()],
    )


def with_values(stored: pa.Table, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return stored rows with some columns of others."""
    for name in columns:
        index = stored.schema.get_field_index(name)
        stored = stored.set_column(index, stored.schema.field(index), rows[name])
    return stored


def rows_differ(rows: pa.Table, others: pa.Table) -> Bools:
    """Return which rows differ from the others in any column; NULL equals NULL."""
    differ = np.zeros(rows.num_rows, np.bool_)
    for name in rows.column_names:
        column, other = comparable(rows[name]), comparable(others[name])
        if not column.equals(other):
            is_equal = pc.fill_null(pc.equal(column, other), False)
            differ |= ~pc.or_(is_equal, pc.and_(pc.is_null(column), pc.is_null(other))).to_numpy()
    return differ


def comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of floating point numbers as their bits, so that NaN equals NaN."""
    bits = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(column.type)
    return column if bits is None else pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)


def commit_replacement(
    handle: Handle, snapshot: Snapshot, table: Table, replacement: Replacement, metrics: WriteMetrics, commit: Commit | None
) -> None:
    uri, data = handle.uri, replacement.data()
    added: list[StagedFile] = []
    actions = [replacement_info(metrics)]
    try:
        for rows in data:
            added.append(write_file(uri, rows, table))
        if replacement.removed:
            Path(uri, CHANGES).mkdir(exist_ok=True)
            path, size = write_parquet(uri, f"{CHANGES}/cdc-00000-", replacement.changes())
            actions.append({"cdc": {"path": path, "partitionValues": {}, "size": size, "dataChange": False}})
    except OSError:
        remove_files(uri, (file.path for file in added))
        raise
    written = [*(file.path for file in added), *(action["cdc"]["path"] for action in actions if "cdc" in action)]
    actions += map(add_action, added)
    actions += [remove_action(entry) for entry in replacement.removed]
    commit_files(handle, metrics.version, actions, commit, written)
    removed = [entry["path"] for entry in replacement.removed]
    handle.advance(snapshot.after(removed, [file_entry(file, table, snapshot.schema) for file in added]))
    forget_written(handle, removed)
    for file, rows in zip(added, data, strict=True):
        keep_written(handle, file.path, rows)


def replacement_info(metrics: WriteMetrics) -> dict[str, Any]:
    counts = {
        "num_target_rows_inserted": metrics.inserted,
        "num_target_rows_updated": metrics.updated,
        "num_target_rows_deleted": metrics.deleted,
    }
    return commit_info("MERGE", {}, metrics.version, counts)
