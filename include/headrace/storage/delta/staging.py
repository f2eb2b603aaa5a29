"""Staged rows: deduplicated, then added to the table or deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from headrace.model.tables import Table, TableKind
from headrace.storage.delta.commits import Commit, WriteMetrics
from headrace.storage.delta.committing import commit_actions
from headrace.storage.delta.data_files import read_data_files
from headrace.storage.delta.handles import Handle
from headrace.storage.delta.keys import keep_last_per_key, keep_last_values_per_key, semi_join
from headrace.storage.delta.merging import MergeScope
from headrace.storage.delta.pruning import Bounds, key_filter, prune_files
from headrace.storage.delta.staged_files import StagedFile, stage_rows
from headrace.storage.object_store import file_system

# Beyond this many rows, Spark compares the keys.
MAX_ROWS_COMPARED_IN_MEMORY: Final = 5_000_000
# As many rows are compared in memory one range of time after the other.
MAX_ROWS_COMPARED_BY_RANGE: Final = 50_000_000
MAX_ROWS_PER_FILE: Final = 1_000_000


def find_overlapping(files: Sequence[StagedFile]) -> list[StagedFile]:
    """Return the files that may share a key with another of them, in order."""
    ordered = sorted(files, key=lambda file: file.times.low)
    overlapping: set[str] = set()
    open_: list[StagedFile] = []
    for file in ordered:
        open_ = [other for other in open_ if other.times.high >= file.times.low]
        for other in open_:
            if file.overlaps(other):
                overlapping |= {file.path, other.path}
        open_.append(file)
    return [file for file in files if file.path in overlapping]


def may_share_keys(uri: str, files: Sequence[StagedFile], table: Table, schema: pa.Schema) -> bool:
    """Return whether a key is in two files, or may be because too many rows would have to be compared.

    Files of rows in the order of time overlap only for a while, so that few rows have to be, range by range.
    """
    total = 0.0
    for times, own in shared_times(files):
        expected = sum(expected_rows(file, times) for file in own)
        total += expected
        if expected > MAX_ROWS_COMPARED_IN_MEMORY or total > MAX_ROWS_COMPARED_BY_RANGE:
            return True
    key = list(table.primary_key)
    for times, own in shared_times(files):
        keys = read_data_files(uri, [file.path for file in own], schema, key, key_filter(table, schema, times, None))
        if keep_last_per_key(keys, key).num_rows < keys.num_rows:
            return True
    return False


def shared_times(files: Sequence[StagedFile]) -> Iterator[tuple[Bounds, list[StagedFile]]]:
    """Yield disjoint ranges of time, each with the files that may share keys in it."""
    starts = sorted({file.times.low for file in files} | {file.times.high + 1 for file in files})
    for low, end in pairwise(starts):
        times = Bounds(low, end - 1)
        own = with_shared_names([file for file in files if file.times.overlaps(times)])
        if own:
            yield times, own


def with_shared_names(files: Sequence[StagedFile]) -> list[StagedFile]:
    ordered = sorted(files, key=lambda file: file.names)
    highest = list(accumulate((file.names[1] for file in ordered), max))
    starts_within = [number > 0 and file.names[0] <= highest[number - 1] for number, file in enumerate(ordered)]
    followed = [*starts_within[1:], False]
    return [
        file for file, is_within, is_followed in zip(ordered, starts_within, followed, strict=False) if is_within or is_followed
    ]


def expected_rows(file: StagedFile, times: Bounds) -> float:
    return file.rows * (times.high - times.low + 1) / (file.times.high - file.times.low + 1)


def total_rows(files: Sequence[StagedFile]) -> int:
    return sum(file.rows for file in files)


def combined_bounds(files: Sequence[StagedFile]) -> Bounds:
    return Bounds(min(file.times.low for file in files), max(file.times.high for file in files))


def deduplicate_in_memory(uri: str, files: list[StagedFile], table: Table, schema: pa.Schema) -> list[StagedFile]:
    """Return files with one row per key, the last; files that shared keys are rewritten."""
    overlapping = find_overlapping(files)
    if not overlapping:
        return files
    paths = [file.path for file in overlapping]
    keys = read_data_files(uri, paths, schema, list(table.primary_key), None)
    if keep_last_per_key(keys, table.primary_key).num_rows == keys.num_rows:
        return files
    rows = pa.concat_tables([read_data_files(uri, [path], schema, None, None) for path in paths])
    combine = keep_last_values_per_key if table.kind is TableKind.TREE else keep_last_per_key
    unique_rows = combine(rows, table.primary_key)
    unique_rows = unique_rows.sort_by([(name, "ascending") for name in (table.timestamp.name, table.series_key)])
    rewritten = [stage_rows(part, table, uri) for part in _split_rows(unique_rows)]
    delete_files(uri, overlapping)
    return [*(file for file in files if file.path not in paths), *rewritten]


def _split_rows(rows: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, rows.num_rows, MAX_ROWS_PER_FILE):
        yield rows.slice(start, MAX_ROWS_PER_FILE)


def has_stored_keys(handle: Handle, delta: DeltaTable, table: Table, schema: pa.Schema, files: Sequence[StagedFile]) -> bool:
    """Return whether the table may hold a key of the files, by statistics, then by the keys if there are not too many."""
    stored = handle.files(delta)
    overlapping = [(file, prune_files(stored, table, schema, file.times, file.names)) for file in files]
    overlapping = [(file, candidates) for file, candidates in overlapping if candidates.num_rows]
    if not overlapping:
        return False
    stored_files = (
        pa.concat_tables([candidates.select(["path", "num_records"]) for _, candidates in overlapping])
        .group_by("path")
        .aggregate([("num_records", "max")])
    )
    rows = pc.sum(stored_files["num_records_max"]).as_py()
    if rows is None or rows + total_rows([file for file, _ in overlapping]) > MAX_ROWS_COMPARED_IN_MEMORY:
        return True
    key = list(table.primary_key)
    stored_keys = read_data_files(handle.uri, stored_files["path"].to_pylist(), schema, key, None)
    new_keys = read_data_files(handle.uri, [file.path for file, _ in overlapping], schema, key, None)
    return bool(semi_join(new_keys, stored_keys, key).num_rows)


def add_files(delta: DeltaTable, files: Sequence[StagedFile], commit: Commit | None) -> WriteMetrics:
    actions = [file.action() for file in files]
    return WriteMetrics(commit_actions(delta, actions, commit), inserted=total_rows(files))


def read_batches(uri: str, files: Sequence[StagedFile], schema: pa.Schema) -> pa.RecordBatchReader:
    import pyarrow.dataset as ds  # imports pandas, which is slow

    system, root = file_system(uri)
    paths = [f"{root}/{file.path}" for file in files]
    return ds.dataset(paths, schema=schema, format="parquet", filesystem=system).scanner().to_reader()


def staged_scope(files: Sequence[StagedFile]) -> MergeScope:
    return MergeScope(combined_bounds(files))


class StagedFileCleanup:
    """Deletes staged files at the end of a `with` block, except those that a commit may have added."""

    def __init__(self, uri: str, files: Sequence[StagedFile] = ()) -> None:
        self._uri = uri
        self._files = list(files)
        self._handed: set[str] = set()

    def add(self, files: Sequence[StagedFile]) -> None:
        """Include more staged files."""
        self._files.extend(files)

    def hand_over(self, files: Sequence[StagedFile]) -> Sequence[StagedFile]:
        """Keep files that are about to be committed: if the commit fails, it may still have taken place.

        A vacuum removes files that no commit has added.
        """
        self._handed = {file.path for file in files}
        return files

    def keep_none(self) -> None:
        """Delete all files after all: their rows were committed by other means."""
        self._handed = set()

    def __enter__(self) -> StagedFileCleanup:
        return self

    def __exit__(self, *_: object) -> None:
        delete_files(self._uri, [file for file in self._files if file.path not in self._handed])


def delete_files(uri: str, files: Sequence[StagedFile]) -> None:
    system, root = file_system(uri)
    for file in files:
        with suppress(OSError):
            system.delete_file(f"{root}/{file.path}")
