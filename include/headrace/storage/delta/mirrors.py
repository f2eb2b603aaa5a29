"""Tables of other writers that have no Delta log: one of ours names their files, and each version of it is a change of the source.

All that reads a Delta table reads them through it. It has no rows of its own.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Protocol
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from headrace import durable
from headrace.model.external_tables import time_limits
from headrace.model.failpoints import failpoint
from headrace.model.time import Precision
from headrace.storage.delta.creation import CHECKPOINT_INTERVAL_VERSIONS
from headrace.storage.delta.handles import write_checkpoint
from headrace.storage.delta.log import write_entry
from headrace.storage.delta.log_entries import newest_version, read_entry
from headrace.storage.delta.staged_files import now_ms

FILE: Final = "file://"
EPOCH: Final = datetime(1970, 1, 1)
MARK: Final = "headrace.source"
"""Field of `commitInfo` in a log entry: up to what the source has been read."""
FREE_LOOK_S: Final = 0.1
"""A look at the source that costs more and sees nothing new is not repeated for `PAUSES` times as long."""
PAUSES: Final = 20


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A data file by its URI, with what the log says of it."""

    uri: str
    size: int
    modified_ms: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    statistics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceChange:
    """Files that appeared in a source, and the URIs of those that are gone; `mark` says up to what it has been read.

    Without `changes_rows` the files have the same rows, as after a compaction.
    """

    added: Sequence[SourceFile]
    removed: Sequence[str]
    mark: str = ""
    changes_rows: bool = True


class Source(Protocol):
    """What another writer has."""

    def changes(self, known: Callable[[], set[str]], mark: str) -> Iterator[SourceChange]:
        """Yield what has changed since a mark, or against the URIs of the files that are known, in its order."""


class Mirror:
    """Brings the log of one table up to its source. Several processes may do so: a version is written by one of them."""

    def __init__(self, uri: str, source: Source, cost: Callable[[], float]) -> None:
        """Follow a source; `cost` returns seconds, of which a look takes some: of a disk those of this thread's processor."""
        self._uri = uri
        self._source = source
        self._cost = cost
        self._mutex = threading.Lock()
        self._not_before = 0.0
        # The newest version that is known, its files, and up to what it has the source.
        self._version, self._files, self._mark = -1, set[str](), ""

    def sync(self) -> None:
        """Add versions for what has changed in the source."""
        with self._mutex:
            if time.monotonic() < self._not_before:
                return
            before, version = self._cost(), self._version
            while not self._follow():
                pass
            seconds = self._cost() - before
            is_dear = seconds > FREE_LOOK_S and self._version == version
            self._not_before = time.monotonic() + PAUSES * seconds if is_dear else 0.0

    def _follow(self) -> bool:
        """Write what has changed; return False if another process did."""
        self._catch_up()
        first = self._version
        for change in self._source.changes(lambda: self._files, self._mark):
            # What follows from the files survives a power failure, so they have to. Their writer may not have synced them.
            durable.sync(*(unquote(file.uri.removeprefix(FILE)) for file in change.added if file.uri.startswith(FILE)))
            failpoint("storage.mirror.read")
            try:
                write_entry(self._uri, self._version + 1, list(actions(change)))
            except CommitFailedError:
                return False
            failpoint("storage.mirror.written")
            self._version, self._mark = self._version + 1, change.mark
            self._files = self._files.difference(change.removed).union(file.uri for file in change.added)
        if first // CHECKPOINT_INTERVAL_VERSIONS < self._version // CHECKPOINT_INTERVAL_VERSIONS:
            write_checkpoint(self._uri, self._version)
        return True

    def _catch_up(self) -> None:
        """Read what other processes have written."""
        version = newest_version(self._uri, None if self._version < 0 else self._version) or 0
        if version == self._version:
            return
        files = pa.table(DeltaTable(self._uri, version=version).get_add_actions(flatten=True))
        self._version, self._files = version, set(files["path"].cast(pa.string()).to_pylist())
        self._mark = mark_of(read_entry(self._uri, version) or b"")


def mark_of(entry: bytes) -> str:
    """Return up to what a log entry says that the source has been read."""
    for line in entry.splitlines():
        if b'"commitInfo"' in line:
            return str(json.loads(line)["commitInfo"].get(MARK, ""))
    return ""


def ranges(ends: Mapping[str, tuple[int, int]], schema: pa.Schema) -> dict[str, dict[str, Any]]:
    """Return the least and greatest values of columns as the statistics of a log: of times in microseconds since 1970.

    Those of times beyond the calendar are left out.
    """
    first, last = time_limits(1_000, Precision.MICROSECOND)
    types = {name: schema.field(name).type for name in ends}
    sayable = {
        name: pair for name, pair in ends.items() if not pa.types.is_timestamp(types[name]) or first <= pair[0] <= pair[1] <= last
    }
    return {
        kind: {name: statistic(pair[number], types[name]) for name, pair in sayable.items()}
        for number, kind in enumerate(("minValues", "maxValues"))
    }


def statistic(value: int, type_: pa.DataType) -> int | str:
    if not pa.types.is_timestamp(type_):
        return value
    time = EPOCH + timedelta(microseconds=value)
    return f"{time.isoformat(timespec='microseconds')}{'Z' if type_.tz else ''}"


def actions(change: SourceChange) -> Iterator[dict[str, Any]]:
    """Yield the actions of a log entry."""
    now = now_ms()
    yield {"commitInfo": {"timestamp": now, "operation": "WRITE", "engineInfo": "headrace", MARK: change.mark}}
    for uri in change.removed:
        yield {"remove": {"path": uri, "deletionTimestamp": now, "dataChange": change.changes_rows}}
    for file in change.added:
        yield {
            "add": {
                "path": file.uri,
                "partitionValues": dict(file.partition_values),
                "size": file.size,
                "modificationTime": file.modified_ms,
                "dataChange": change.changes_rows,
                "stats": json.dumps(dict(file.statistics)),
            }
        }
