"""Compaction of small files, checkpoints of the log, and vacuum of what no version needs.

The compaction of delta-rs replaces all small files in one commit, so beside a writer that updates recent rows it
loses every attempt, and it does not sort rows by series.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.transaction import RemoveAction

from headrace.errors import Error
from headrace.model.tables import Table
from headrace.storage.delta.appending import add_action, commit_files, commit_info, file_entry, remove_action
from headrace.storage.delta.commits import commit_properties
from headrace.storage.delta.creation import CHECKPOINT_INTERVAL, CHECKPOINT_INTERVAL_VERSIONS
from headrace.storage.delta.handles import Handle, translate_errors, write_checkpoint
from headrace.storage.delta.history import Log, history_properties, remove_history
from headrace.storage.delta.log import can_write_entry
from headrace.storage.delta.log_entries import is_local, last_checkpoint
from headrace.storage.delta.pruning import Bounds, prune_files
from headrace.storage.delta.series_ends import Ends, series_ends
from headrace.storage.delta.snapshots import Snapshot
from headrace.storage.delta.staged_files import StagedFile, now_ms, sorted_rows, write_file
from headrace.storage.delta.table_handles import Handles
from headrace.storage.delta.writer import Writer
from headrace.storage.delta.written_rows import forget_written, written_or_read

log = logging.getLogger(__name__)

# Each file adds about 0.1 ms to a commit, and an update rewrites whole files. Aim for this many files: smaller ones slow commits,
# larger ones slow updates.
TARGET_FILES: Final = 64
MIN_FILE_BYTES: Final = 4 * 2**20
MAX_FILE_BYTES: Final = 64 * 2**20
# Compact once a table has this many small files.
MIN_SMALL_FILES: Final = 64
# Background compaction leaves the latest files, so that rows still being updated stay in files that are cheap to rewrite.
RECENT_FILES_KEPT: Final = 16
# Background compaction merges at least this many files of a size, so that a row is rewritten as often as its file grows by this
# factor. Fewer files of each size stay as they are.
FAN_IN: Final = 8
# Versions between checks whether compaction is due.
CHECK_VERSIONS: Final = 16


@dataclass(frozen=True, slots=True)
class CompactionGroup:
    """Files, adjacent in time, to compact into one."""

    files: pa.Table

    @property
    def paths(self) -> list[str]:
        """Paths of the files."""
        return list(self.files["path"].to_pylist())


def plan_compaction(files: pa.Table, table: Table, spared: int = 0, selected: pa.Table | None = None) -> list[CompactionGroup]:
    """Group small files, or the small ones of those selected, in order of time up to the table's target size.

    If the latest `spared` are left out, so are files of sizes of which there are fewer than `FAN_IN`: a row is not rewritten with
    every compaction.
    """
    target = target_file_bytes(files)
    candidates = files if selected is None else selected
    small = candidates.filter(pc.less(candidates["size_bytes"], target // 2))
    earliest = f"min.{table.timestamp.name}"
    if earliest in small.column_names:
        small = small.sort_by(earliest)
    if spared:
        small = without_larger(small.slice(0, max(small.num_rows - spared, 0)))
    groups: list[CompactionGroup] = []
    first, gathered = 0, 0
    for number, size in enumerate(small["size_bytes"].to_pylist()):
        gathered += size
        if gathered >= target:
            groups.append(CompactionGroup(small.slice(first, number + 1 - first)))
            first, gathered = number + 1, 0
    groups.append(CompactionGroup(small.slice(first)))
    return [group for group in groups if group.files.num_rows > 1]


def without_larger(files: pa.Table) -> pa.Table:
    """Return files without those for which the smaller ones together are not `FAN_IN` - 1 times as large."""
    sizes = np.sort(files["size_bytes"].to_numpy())
    smaller = np.cumsum(sizes) - sizes
    is_alike = sizes * (FAN_IN - 1) <= smaller
    return files.filter(pc.less_equal(files["size_bytes"], int(sizes[is_alike].max()))) if is_alike.any() else files.slice(0, 0)


def target_file_bytes(files: pa.Table) -> int:
    total = pc.sum(files["size_bytes"]).as_py() or 0
    return min(max(total // TARGET_FILES, MIN_FILE_BYTES), MAX_FILE_BYTES)


def is_compaction_due(files: pa.Table) -> bool:
    if files.num_rows < MIN_SMALL_FILES:
        return False
    small = pc.sum(pc.less(files["size_bytes"], target_file_bytes(files) // 2)).as_py()
    return bool(small >= MIN_SMALL_FILES)


class Maintenance:
    """Compaction and vacuum on request; compaction and checkpoints in the background, so that no commit waits for them."""

    def __init__(self, handles: Handles, writer: Writer) -> None:
        self._handles = handles
        self._writer = writer
        self._mutex = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._running: dict[tuple[str, str], Future[int]] = {}

    def committed(self, table: Table, version: int) -> None:
        """Note a commit; every `CHECK_VERSIONS` versions, check in the background what is due."""
        if version % CHECK_VERSIONS:
            return
        key = (table.database, table.name)
        with self._mutex:
            running = self._running.get(key)
            if running is not None and not running.done():
                return
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="headrace-compact")
            self._running[key] = self._executor.submit(self._do_what_is_due, table)

    def compact(self, table: Table, bounds: Bounds | None = None, *, spared: int = 0) -> int:
        """Compact small files except the latest `spared`, one commit per group; return how many files were replaced.

        With `bounds`, only files that may have rows within them are compacted, without effect on others.
        """
        newest = self._newest(table)
        selected = prune_files(newest.files, table, newest.schema, bounds, None)
        groups = plan_compaction(newest.files, table, spared, selected)
        return sum(self._compact(table, group, newest.schema) for group in groups)

    def vacuum(self, table: Table, hours: float, oldest: int | None = None) -> int:
        """Remove what no version of the last hours needs: data files, change files and log entries; return how many files.

        `oldest` is the offset of the reader that is farthest behind. Its version, and the changes after it, stay.
        """
        handle = self._handles.reader(table)
        with handle.latest_snapshot() as newest:
            live = newest.files["path"].to_pylist()
        with translate_errors(handle.name):
            return remove_history(handle.uri, live, hours, oldest)

    def commit_ages(self, table: Table) -> Mapping[int, int]:
        """Return for how many ms each version has been there whose log entry is kept, as the storage says."""
        now = now_ms()
        return {version: now - time for version, time in Log.of(self._handles.reader(table).uri).entries.items()}

    def announce_history(self, table: Table, hours: int) -> None:
        """Have a table's properties say for how many hours its history is kept, so that other engines know."""
        wanted = history_properties(hours)
        if not wanted.items() <= self._newest(table).properties.items():
            self._writer.commit(
                table, lambda _, delta: delta.alter.set_table_properties(wanted, commit_properties=commit_properties(None))
            )

    def close(self) -> None:
        """Wait for running compactions."""
        with self._mutex:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()

    def _do_what_is_due(self, table: Table) -> int:
        uri = self._handles.writer(table).uri
        try:
            newest = self._newest(table)
            if is_local(uri) and is_checkpoint_due(uri, newest):
                write_checkpoint(uri, newest.number)
            return self.compact(table, spared=RECENT_FILES_KEPT) if is_compaction_due(newest.files) else 0
        except Error as error:
            log.warning("maintenance of %s.%s failed: %s", table.database, table.name, error)
            return 0

    def _newest(self, table: Table) -> Snapshot:
        """Return the newest version of a table. For a local one that of the writer's handle is known after a commit."""
        writer, reader = self._handles.writer(table), self._handles.reader(table)
        with (writer if is_local(writer.uri) else reader).latest_snapshot() as snapshot:
            return snapshot

    def _compact(self, table: Table, group: CompactionGroup, schema: pa.Schema) -> int:
        """Rewrite a group without the table's lock, then swap the files unless one of them was removed meanwhile."""
        handle = self._handles.reader(table)
        with translate_errors(handle.name):
            rows = sorted_rows(written_or_read(handle, group.paths, schema, table.series_key), table)
            compacted = CompactedFile(table, group, write_file(handle.uri, rows, table), series_ends(rows, table))
        return self._writer.commit_small(table, compacted.swap_locally, compacted.swap)


@dataclass(frozen=True, slots=True)
class CompactedFile:
    """A staged file with the rows of a group, and the commit that puts it in place of them. `ends` are its latest times."""

    table: Table
    group: CompactionGroup
    added: StagedFile
    ends: Ends

    def swap_locally(self, handle: Handle, snapshot: Snapshot) -> int | None:
        """Swap the files of a local table without delta-rs; return how many were replaced, None if delta-rs has to do it."""
        group, added, version = self.group, self.added, snapshot.number + 1
        if not can_write_entry(snapshot) or not is_live(group, snapshot.files):
            return None
        removed = [remove_action(file, data_change=False) for file in group.files.to_pylist()]
        # The file stays if another writer is first: the next attempt adds it.
        commit_files(handle, version, [compaction_info(version, group), add_action(added, data_change=False), *removed], None, [])
        handle.advance(snapshot.after(group.paths, [file_entry(added, self.table, snapshot.schema)]))
        forget_written(handle, group.paths)
        handle.ends.put(f"{handle.uri}/{added.path}", self.ends)
        handle.latest_times.add(added.path, self.ends)
        return len(removed)

    def swap(self, handle: Handle, delta: DeltaTable) -> int:
        """Swap the files; return how many were replaced, 0 if one of them was removed meanwhile."""
        if not is_live(self.group, handle.files(delta)):
            return 0
        added = self.added.action(data_change=False)
        removed = [RemoveAction(file["path"], False, now_ms(), file["size_bytes"], {}) for file in self.group.files.to_pylist()]
        delta.create_write_transaction([added, *removed], "append", delta.schema(), commit_properties=commit_properties(None))
        return len(removed)


def is_checkpoint_due(uri: str, newest: Snapshot) -> bool:
    """Return whether enough versions of a local table follow its last checkpoint."""
    interval = int(newest.properties.get(CHECKPOINT_INTERVAL) or CHECKPOINT_INTERVAL_VERSIONS)
    return newest.number - last_checkpoint(uri) >= interval


def is_live(group: CompactionGroup, files: pa.Table) -> bool:
    """Return whether none of the files of a group was removed."""
    return set(files["path"].to_pylist()).issuperset(group.paths)


def compaction_info(version: int, group: CompactionGroup) -> dict[str, Any]:
    return commit_info("OPTIMIZE", {}, version, {"num_added_files": 1, "num_removed_files": group.files.num_rows})
