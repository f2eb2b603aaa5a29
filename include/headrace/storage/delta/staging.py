"""Rows that wait in data files which no commit names yet: kept one a key, then added to the table, or thrown away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from headrace.model.tables import Table
from headrace.storage.delta.commits import Commit, WriteMetrics, commit_properties
from headrace.storage.delta.data_files import read_data_files
from headrace.storage.delta.handles import Handle, file_system
from headrace.storage.delta.keys import keep_last_per_key, semi_join
from headrace.storage.delta.merging import MergeScope
from headrace.storage.delta.pruning import Bounds, prune_files
from headrace.storage.delta.staged_files import StagedFile, stage_rows

# Up to so many rows, keys are compared here, in memory; beyond that by Spark.
MAX_ROWS_COMPARED_IN_MEMORY: Final = 5_000_000
MAX_ROWS_PER_FILE: Final = 1_000_000


def find_overlapping(files: Sequence[StagedFile]) -> list[StagedFile]:
    """Those files that may share a key with another of them, in their order."""
    ordered = sorted(files, key=lambda file: file.times.low)
    found: set[str] = set()
    open_: list[StagedFile] = []
    for file in ordered:
        open_ = [other for other in open_ if other.times.high >= file.times.low]
        for other in open_:
            if file.overlaps(other):
                found |= {file.path, other.path}
        open_.append(file)
    return [file for file in files if file.path in found]


def total_rows(files: Sequence[StagedFile]) -> int:
    return sum(file.rows for file in files)


def combined_bounds(files: Sequence[StagedFile]) -> Bounds:
    """Least and greatest timestamp of the files, of which there is at least one."""
    return Bounds(min(file.times.low for file in files), max(file.times.high for file in files))


def deduplicate_in_memory(uri: str, files: list[StagedFile], table: Table, schema: pa.Schema) -> list[StagedFile]:
    """The files with one row a key, the last; written anew where keys were shared."""
    overlapping = find_overlapping(files)
    if not overlapping:
        return files
    paths = [file.path for file in overlapping]
    keys = read_data_files(uri, paths, schema, list(table.primary_key), None)
    if keep_last_per_key(keys, table.primary_key).num_rows == keys.num_rows:
        return files
    rows = pa.concat_tables([read_data_files(uri, [path], schema, None, None) for path in paths])
    unique_rows = keep_last_per_key(rows, table.primary_key)
    unique_rows = unique_rows.sort_by([(name, "ascending") for name in (table.timestamp.name, table.series_key)])
    rewritten = [stage_rows(part, table, uri) for part in _parts(unique_rows)]
    delete_files(uri, overlapping)
    return [*(file for file in files if file.path not in paths), *rewritten]


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, rows.num_rows, MAX_ROWS_PER_FILE):
        yield rows.slice(start, MAX_ROWS_PER_FILE)


def has_stored_keys(handle: Handle, delta: DeltaTable, table: Table, schema: pa.Schema, files: Sequence[StagedFile]) -> bool:
    """Whether the table may hold a key of the files: told by statistics, and by the keys themselves where they are not too many."""
    stored = handle.files(delta)
    overlapping = [(file, prune_files(stored, table, schema, file.times, file.names)) for file in files]
    overlapping = [(file, found) for file, found in overlapping if found.num_rows]
    if not overlapping:
        return False
    stored_files = (
        pa.concat_tables([found.select(["path", "num_records"]) for _, found in overlapping])
        .group_by("path")
        .aggregate([("num_records", "max")])
    )
    rows = pc.sum(stored_files["num_records_max"]).as_py()
    if rows is None or rows + total_rows([file for file, _ in overlapping]) > MAX_ROWS_COMPARED_IN_MEMORY:
        return True
    key = list(table.primary_key)
    stored_keys = read_data_files(handle.uri, stored_files["path"].to_pylist(), schema, key, None)
    wanted = read_data_files(handle.uri, [file.path for file, _ in overlapping], schema, key, None)
    return bool(semi_join(wanted, stored_keys, key).num_rows)


def add_files(delta: DeltaTable, files: Sequence[StagedFile], commit: Commit | None) -> WriteMetrics:
    """Adds the files to the table in one commit on exactly this version."""
    actions = [AddAction(file.path, file.size, {}, file.modified, True, file.statistics) for file in files]
    version = delta.version() + 1
    delta.create_write_transaction([*actions], "append", delta.schema(), commit_properties=commit_properties(commit))
    return WriteMetrics(version, inserted=total_rows(files))


def read_batches(uri: str, files: Sequence[StagedFile], schema: pa.Schema) -> pa.RecordBatchReader:
    """Rows of the files, some at a time."""
    import pyarrow.dataset as ds  # brings pandas along: not before it is used

    system, root = file_system(uri)
    paths = [f"{root}/{file.path}" for file in files]
    return ds.dataset(paths, schema=schema, format="parquet", filesystem=system).scanner().to_reader()


def staged_scope(files: Sequence[StagedFile]) -> MergeScope:
    return MergeScope(combined_bounds(files))


class StagedFileCleanup:
    """Removes staged files at the end of a `with` block, but for those that a commit may have added."""

    def __init__(self, uri: str, files: Sequence[StagedFile] = ()) -> None:
        self._uri = uri
        self._files = list(files)
        self._handed: set[str] = set()

    def also(self, files: Sequence[StagedFile]) -> None:
        """More files that were staged."""
        self._files.extend(files)

    def handed(self, files: Sequence[StagedFile]) -> Sequence[StagedFile]:
        """Files about to be handed to a commit: should it fail, nobody knows for sure whether it took place, so they stay.

        What no commit names is removed by a vacuum.
        """
        self._handed = {file.path for file in files}
        return files

    def kept_none(self) -> None:
        """The rows have been committed otherwise: no file is needed."""
        self._handed = set()

    def __enter__(self) -> StagedFileCleanup:
        return self

    def __exit__(self, *_: object) -> None:
        delete_files(self._uri, [file for file in self._files if file.path not in self._handed])


def delete_files(uri: str, files: Sequence[StagedFile]) -> None:
    """Removes files that will not be added."""
    system, root = file_system(uri)
    for file in files:
        with suppress(OSError):
            system.delete_file(f"{root}/{file.path}")
