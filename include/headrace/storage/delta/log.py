"""Commits in a table's log: how many rows each changed, which files hold its changes, and entries that Headrace writes itself.

delta-rs offers no single commit: its `history` reads all later commits first and leaves out file actions, and counting rows by
`load_cdf` opens every data file, which takes 4 to 50 times as long.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake.exceptions import CommitFailedError

from headrace import durable
from headrace.model.time import TickRanges
from headrace.storage.delta.commits import DELETED_RANGES, DROPS, MARKER
from headrace.storage.delta.deletion_vectors import count_selected, row_changes, vector_files
from headrace.storage.delta.log_entries import LOG, WRITTEN, file_exists, log_file, read_file
from headrace.storage.object_store import file_system, locate_file

if TYPE_CHECKING:
    from headrace.storage.delta.snapshots import Snapshot

MAX_WRITER_VERSION: Final = 4
"""The newest protocol that is known; with it a table may have constraints, which its properties and columns show."""
KNOWN_PROPERTIES: Final = frozenset(
    {
        "delta.checkpointInterval",
        "delta.dataSkippingStatsColumns",
        "delta.deletedFileRetentionDuration",
        "delta.enableChangeDataFeed",
        "delta.enableExpiredLogCleanup",
        "delta.logRetentionDuration",
    }
)
"""The properties that ask nothing of a commit except to write change files."""
# Metric names by writer: delta-rs uses snake case, Spark camel case and text for numbers.
INSERTED: Final = ("num_target_rows_inserted", "numTargetRowsInserted")
UPDATED: Final = ("num_target_rows_updated", "num_updated_rows", "numTargetRowsUpdated", "numUpdatedRows")
CHANGE_TYPE: Final = "_change_type"
WRITTEN_TYPES: Final = ("insert", "update_postimage")
OWN_ENGINE: Final = b'"engineInfo":"headrace"'
"""What a log entry has that `write_entry` wrote."""
DELETED: Final = ("num_target_rows_deleted", "num_deleted_rows", "numTargetRowsDeleted", "numDeletedRows")


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """One version: its commit time (epoch ms), metrics, marker and file actions, and the ranges that it left empty.

    `has_metadata` says whether it may have changed columns or properties of the table, `drops` whether it dropped subtables.
    """

    version: int
    time: int | None
    metrics: dict[str, Any]
    marker: str | None
    added: tuple[dict[str, Any], ...]
    removed: tuple[dict[str, Any], ...]
    changed: tuple[dict[str, Any], ...]
    deleted_ranges: TickRanges
    has_metadata: bool
    drops: bool = False

    @property
    def change_files(self) -> list[str]:
        """Paths of the files that hold this version's changes: its change files if it has any, else its data files."""
        actions = [action for _, actions in self.changes for action in actions]
        return [path for action in actions for path in (action["path"], *vector_files(action))]

    @property
    def changes(self) -> list[tuple[str | None, tuple[dict[str, Any], ...]]]:
        """The files that hold this version's changes, by what has become of their rows; None if the rows say it themselves."""
        if self.changed:
            return [(None, self.changed)]
        inserted, deleted = row_changes(self.added, self.removed)
        return [(change_type, actions) for change_type, actions in (("insert", inserted), ("delete", deleted)) if actions]


def read_commit(uri: str, version: int) -> LoggedCommit | None:
    """Read a version's commit; None if its log file was removed."""
    system, path = file_system(log_file(uri, version))
    try:
        with system.open_input_stream(path) as stream:
            text = stream.read().decode()
    except FileNotFoundError:
        return None
    return _parsed(version, [json.loads(line) for line in text.splitlines() if line])


def _parsed(version: int, actions: list[dict[str, Any]]) -> LoggedCommit:
    metrics: dict[str, Any] = {}
    time: int | None = None
    marker: str | None = None
    ranges: list[list[int]] = []
    drops = False
    files: dict[str, list[dict[str, Any]]] = {"add": [], "remove": [], "cdc": []}
    for action in actions:
        name, content = next(iter(action.items()))
        if name == "commitInfo":
            metrics, time = content.get("operationMetrics") or {}, content.get("timestamp")
            marker, ranges = content.get(MARKER), json.loads(content.get(DELETED_RANGES, "[]"))
            drops = DROPS in content
        elif name in files and (name == "cdc" or content.get("dataChange", True)):
            files[name].append(content)
    deleted = tuple((low, high) for low, high in ranges)
    has_metadata = any("metaData" in action or "protocol" in action for action in actions)
    added, removed, changed = (tuple(files[name]) for name in ("add", "remove", "cdc"))
    return LoggedCommit(version, time, metrics, marker, added, removed, changed, deleted, has_metadata, drops)


def count_changed_rows(uri: str, commit: LoggedCommit) -> int:
    """Count the rows of a commit in the change feed; an update has two, before and after."""
    if commit.changed:
        counted = [_metric(commit.metrics, names) for names in (INSERTED, UPDATED, DELETED)]
        inserted, updated, deleted = (count or 0 for count in counted)
        if inserted + updated + deleted:
            return inserted + 2 * updated + deleted
    return sum(_count_file_rows(uri, action) for _, actions in commit.changes for action in actions)


def count_written_rows(uri: str, commit: LoggedCommit) -> int:
    if not commit.changed:
        return sum(_count_file_rows(uri, action) for kind, actions in commit.changes if kind == "insert" for action in actions)
    inserted, updated = (_metric(commit.metrics, names) or 0 for names in (INSERTED, UPDATED))
    if inserted + updated or _metric(commit.metrics, DELETED):
        return inserted + updated
    return sum(_count_after_images(uri, action) for action in commit.changed)


def _count_after_images(uri: str, action: dict[str, Any]) -> int:
    """Count the rows of a change file that were inserted, or had an update; 0 if it was removed."""
    system, root = file_system(uri)
    try:
        types = pq.read_table(f"{root}/{unquote(action['path'])}", columns=[CHANGE_TYPE], filesystem=system)[CHANGE_TYPE]
    except FileNotFoundError:
        return 0
    return sum(count["counts"] for count in types.value_counts().to_pylist() if count["values"] in WRITTEN_TYPES)


def _metric(metrics: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((int(metrics[name]) for name in names if name in metrics), None)


def _count_file_rows(uri: str, action: dict[str, Any]) -> int:
    """Count the rows of a data file that an action is about, from its statistics or footer; 0 if it was removed."""
    statistics = json.loads(action.get("stats") or "{}")
    if "numRecords" in statistics:
        return count_selected(action, int(statistics["numRecords"]))
    system, key = locate_file(uri, action["path"])
    try:
        return count_selected(action, int(pq.read_metadata(key, filesystem=system).num_rows))
    except FileNotFoundError:
        return 0


def files_exist(uri: str, paths: list[str]) -> bool:
    located = [locate_file(uri, path) for path in paths]
    return all(system.get_file_info(key).type is not pafs.FileType.NotFound for system, key in located)


def can_write_entry(snapshot: Snapshot) -> bool:
    """Return whether `write_entry` may write the log entry that follows a version of a local table.

    A table to which another writer has given features, constraints or partitions is left to delta-rs, which knows their rules.
    """
    properties = snapshot.properties
    if not properties.keys() <= KNOWN_PROPERTIES or snapshot.is_partitioned or snapshot.writer_version > MAX_WRITER_VERSION:
        return False
    if properties.get("delta.enableChangeDataFeed") != "true":
        return False
    return all(field.nullable and not any(name.startswith(b"delta.") for name in field.metadata or {}) for field in snapshot.schema)


def write_entry(uri: str, version: int, actions: Sequence[dict[str, Any]]) -> None:
    """Commit a version of a local table: create its log entry with these actions, as delta-rs does, unless it exists.

    It survives a power failure then, with the files that it adds.

    Raises:
        CommitFailedError: The version exists.
    """
    content = "".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions).encode()
    files = written_files(uri, actions)
    try:
        durable.create(Path(log_file(uri, version)), content, named=[*files, *folders_of(uri, files)])
    except FileExistsError as error:
        raise CommitFailedError(f"version {version} exists") from error


def written_files(uri: str, actions: Iterable[dict[str, Any]]) -> list[str]:
    """Return the paths of the files of a local table that a log entry's actions add."""
    written = [action[name] for action in actions for name in WRITTEN if name in action]
    paths = [path for action in written for path in (action["path"], *vector_files(action))]
    return [f"{uri}/{unquote(path)}" for path in paths if "://" not in path]


def folders_of(uri: str, files: Iterable[str]) -> set[str]:
    """Return the folders of files of a local table, with those between them and the table's."""
    above = {str(folder) for file in files for folder in Path(file).parents}
    return {folder for folder in above if f"{folder}/".startswith(f"{uri}/")}


def sync_versions(uri: str, first: int, last: int) -> None:
    """Have versions of a local table survive a power failure that delta-rs, Spark or another program has committed.

    Entries that Headrace wrote itself are synced already, as are their files.
    """
    files, entries = set[str](), set[str]()
    for version in range(first, last + 1):
        with suppress(FileNotFoundError, ValueError):  # removed, or damaged, which its readers report
            content = read_file(log_file(uri, version))
            if OWN_ENGINE not in content:
                own = written_files(uri, map(json.loads, content.splitlines()))
                files.update(own, folders_of(uri, own))
                checkpoint = [f"{uri}/{LOG}/{version:020}.checkpoint.parquet", f"{uri}/{LOG}/_last_checkpoint"]
                entries.update([log_file(uri, version), f"{uri}/{LOG}", *(path for path in checkpoint if file_exists(path))])
    durable.sync(*files)
    durable.sync(*entries)
