"""How much of a table's past is kept: log entries, checkpoints, and files that only past versions and their changes need.

A vacuum of delta-rs goes by the tombstones in the log and by the age of files, so what a slow reader needs has to be guessed. The
log entries say it: what an entry has removed, no version from it on needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import pyarrow.fs as pafs

from headrace.durable import DRAFT_SUFFIX
from headrace.model.tables import HISTORY_HOURS
from headrace.storage.delta.log_entries import LOG, read_entry
from headrace.storage.delta.staged_files import now_ms
from headrace.storage.object_store import file_system

HOUR_MS: Final = 3_600_000
# Each checkpoint has the tombstones of this time, which maintenance does not need: at a commit per second, 70 bytes of each.
TOMBSTONES_KEPT: Final = "interval 1 hours"
# A load may have written a file this long before it commits.
MAX_LOAD_HOURS: Final = 24
CHANGE_DATA: Final = "_change_data"
LOG_FILE: Final = re.compile(r"(\d{20})\.(.+)")
ENTRY: Final = "json"
CHECKPOINT: Final = "checkpoint.parquet"


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of a log: its key in the file system, its version, what follows the version in its name, and its time in epoch ms."""

    key: str
    version: int
    kind: str
    time: int


@dataclass(frozen=True, slots=True)
class Log:
    """The files of a table's log, by version, and when each version was committed, as the storage says, in epoch ms.

    `drafts` are the keys of files that a writer has begun so long ago that it has died.
    """

    files: Sequence[LogFile]
    entries: Mapping[int, int]
    drafts: Sequence[str] = ()

    @classmethod
    def of(cls, uri: str) -> Log:
        """List the log of a table."""
        system, root = file_system(uri)
        named = [(str(info.base_name), info.mtime_ns // 1_000_000, info.path) for info in list_folder(system, f"{root}/{LOG}")]
        found = ((LOG_FILE.fullmatch(name), time, key) for name, time, key in named)
        files = [LogFile(key, int(match[1]), match[2], time) for match, time, key in found if match]
        files.sort(key=lambda file: (file.version, file.kind))
        dead_since = now_ms() - MAX_LOAD_HOURS * HOUR_MS
        drafts = [key for name, time, key in named if name.endswith(DRAFT_SUFFIX) and time < dead_since]
        return cls(files, {file.version: file.time for file in files if file.kind == ENTRY}, drafts)

    def horizon(self, hours: float, oldest: int | None) -> int:
        """Return the oldest version to keep: the newest one of `hours` ago, or an older one that a reader needs."""
        expired = [version for version, time in self.entries.items() if time <= now_ms() - hours * HOUR_MS]
        horizon = max(expired, default=min(self.entries))
        return horizon if oldest is None else min(horizon, oldest)

    def before(self, horizon: int) -> Sequence[LogFile]:
        """Return the files that no version from the horizon on needs: those before the last checkpoint up to it."""
        base = max((file.version for file in self.files if file.kind == CHECKPOINT and file.version <= horizon), default=0)
        return [file for file in self.files if file.version < base]


def history_properties(hours: int = HISTORY_HOURS) -> dict[str, str]:
    """Return the properties of a table that tell other engines how long its history is.

    No commit removes log entries, by whichever engine: only `remove_history` knows who reads them. And delta-rs would list the log
    with each commit.
    """
    return {
        "delta.enableExpiredLogCleanup": "false",
        "delta.logRetentionDuration": f"interval {hours} hours",
        "delta.deletedFileRetentionDuration": TOMBSTONES_KEPT,
    }


def remove_history(uri: str, live: Collection[str], hours: float, oldest: int | None) -> int:
    """Remove what only versions before the horizon need, and return the number of data files and change files.

    `live` are the paths of the files of the newest version, and `oldest` is the last version that the reader farthest behind has
    read: its changes and all later ones stay.
    """
    system, root = file_system(uri)
    log = Log.of(uri)
    horizon, kept = log.horizon(hours, oldest), {unquote(path) for path in live}
    removed = 0
    for version in (version for version in log.entries if version <= horizon):
        removed += sum(delete(system, f"{root}/{path}") for path in removed_by(uri, version) - kept)
    for version in (version for version in log.entries if version > horizon):
        kept |= removed_by(uri, version)
    unnamed_until = log.entries.get(horizon, 0) - MAX_LOAD_HOURS * HOUR_MS
    removed += sum(delete(system, f"{root}/{path}") for path in old_files(system, root, unnamed_until) if path not in kept)
    for key in (*(file.key for file in log.before(horizon)), *log.drafts):
        delete(system, key)
    return removed


def removed_by(uri: str, version: int) -> set[str]:
    """Return the paths of files that a version has removed from a table, and of those that hold only its changes."""
    paths = set()
    for line in (read_entry(uri, version) or b"").splitlines():
        if b'"remove"' in line or b'"cdc"' in line:
            action = json.loads(line)
            paths |= {unquote(action[name]["path"]) for name in ("remove", "cdc") if name in action}
    return paths


def old_files(system: pafs.FileSystem, root: str, until: int) -> Iterator[str]:
    """Yield the paths of a table's files that were last changed before an instant (epoch ms)."""
    for info in list_folder(system, root):
        name = str(info.base_name)
        if name.startswith(("_", ".")) and name != CHANGE_DATA:
            continue
        is_folder = info.type is pafs.FileType.Directory
        for file in list_folder(system, info.path, recursive=True) if is_folder else [info]:
            if file.type is pafs.FileType.File and file.mtime_ns // 1_000_000 < until:
                yield file.path.removeprefix(f"{root}/")


def list_folder(system: pafs.FileSystem, path: str, *, recursive: bool = False) -> list[pafs.FileInfo]:
    return list(system.get_file_info(pafs.FileSelector(path, allow_not_found=True, recursive=recursive)))


def delete(system: pafs.FileSystem, key: str) -> bool:
    """Delete a file; return whether it was there."""
    with suppress(FileNotFoundError):
        system.delete_file(key)
        return True
    return False
