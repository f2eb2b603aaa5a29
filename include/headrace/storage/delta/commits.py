"""App transactions that a commit records, and the guard under which it may happen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from deltalake import CommitProperties, Transaction

from headrace.errors import FencedError
from headrace.model.positions import Offsets, Position, SourceId

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from headrace.storage.delta.handles import Handle
    from headrace.storage.delta.snapshots import Snapshot

MARKER: Final = "headrace.commit"
"""Field of `commitInfo` in a log entry: a text that no other commit has."""
DELETED_RANGES: Final = "headrace.deletedRanges"
"""Field of `commitInfo` in a log entry: the ranges of ticks, as JSON, in which the series with deleted points have none left."""
DROPS: Final = "headrace.drops"
"""Field of `commitInfo` in a log entry: the commit has deleted the rows of subtables that are dropped."""


def stream_app(job_id: str) -> str:
    """App transaction that holds the number of the last micro-batch whose results a table has."""
    return f"headrace.stream.{job_id}"


def offset_app(job_id: str, source: SourceId) -> str:
    """App transaction that holds a job's offset in one source after that micro-batch."""
    return f"headrace.offset.{job_id}.{source}"


def epoch_app(job_id: str) -> str:
    """App transaction that holds the newest lease epoch seen by a target."""
    return f"headrace.epoch.{job_id}"


def execution_app(job_id: str) -> str:
    """App transaction that a continuous query's execution records when it takes over from an earlier attempt."""
    return f"headrace.execution.{job_id}"


def chunk_app(job_id: str, run: str, number: int) -> str:
    """App transaction that says that a target has a backfill's chunk."""
    return f"headrace.fill.{job_id}.{run}.{number}"


@dataclass(frozen=True, slots=True)
class ExpectedTransaction:
    """App transaction `app` must be recorded at `version` (None: not at all), else `FencedError`."""

    app: str
    version: int | None


class StaleReadError(Exception):
    """A table has a newer version than the one from which the rows to write were computed. They have to be computed again."""


@dataclass(frozen=True, slots=True)
class Commit:
    """An app transaction that a commit records, and its guard.

    A commit whose `version` of `app` (or a later one) is recorded already changes nothing. `expected` must hold, and the epoch that
    the target has seen of the stream must not be newer than `epoch`; both are verified at the very version the commit builds on.
    If rows follow from what the table had at `read_version`, that must be this version, else `StaleReadError`.
    """

    app: str
    version: int
    expected: ExpectedTransaction | None = None
    job_id: str | None = None
    epoch: int = 0
    offsets: Offsets = field(default_factory=dict)
    read_version: int | None = None

    @classmethod
    def of_stream(cls, job_id: str, batch: int, expected: int | None, epoch: int, offsets: Offsets | None = None) -> Commit:
        """Create the commit of a micro-batch's results onto a table that has those of micro-batch `expected` (None: of none)."""
        app = stream_app(job_id)
        return cls(app, batch, ExpectedTransaction(app, expected), job_id, epoch, offsets or {})


@dataclass(frozen=True, slots=True)
class WriteMetrics:
    """The result of a write: the table's version after it, and rows by operation."""

    version: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def rows(self) -> int:
        """Rows inserted, updated and deleted."""
        return self.inserted + self.updated + self.deleted


RETIRED: Final = 2**62
"""The epoch and micro-batch that a target records of a job that was replaced: later than those of any driver."""


def is_recorded(handle: Handle, table: DeltaTable | Snapshot, commit: Commit | None) -> bool:
    """Return whether this version of a table has recorded a commit; raise `FencedError` if its guard does not hold."""
    if commit is None:
        return False
    check_epoch(handle, table, commit.job_id, commit.epoch)
    seen = handle.transaction_version(table, commit.app)
    if seen is not None and seen >= commit.version:
        return True
    expected = commit.expected
    recorded = None if expected is None else handle.transaction_version(table, expected.app)
    if expected is not None and recorded != expected.version:
        raise FencedError(
            f"another driver has committed in between: {expected.app} is at {recorded}, not at {expected.version}",
            hint="this driver no longer owns the stream; nothing was written",
        )
    if commit.read_version not in (None, table.version()):
        raise StaleReadError
    return False


def check_epoch(handle: Handle, table: DeltaTable | Snapshot, job_id: str | None, epoch: int) -> None:
    """Raise `FencedError` if the table has recorded a newer epoch of the stream."""
    if job_id is None:
        return
    seen = handle.transaction_version(table, epoch_app(job_id))
    if seen is not None and seen > epoch:
        raise FencedError(
            f"the lease under which this driver runs (epoch {epoch}) has passed to another (epoch {seen})",
            hint="nothing was written; the driver that holds the lease continues",
        )


def committed_position(handle: Handle, job_id: str, sources: Iterable[SourceId]) -> Position | None:
    """Return the position that a table has recorded of a job; None if it has no results of it.

    It is kept in app transactions, which outlive the log entry of the commit that set them.
    """
    with handle.latest() as delta:
        batch = handle.transaction_version(delta, stream_app(job_id))
        offsets = {source: handle.transaction_version(delta, offset_app(job_id, source)) for source in sources}
    if batch is None:
        return None
    return Position(batch, {source: version for source, version in offsets.items() if version is not None})


def recorded_by(commit: Commit | None) -> dict[str, int]:
    """Return the app transactions that a commit records, with their versions."""
    if commit is None:
        return {}
    recorded = {commit.app: commit.version}
    if commit.job_id is not None and commit.epoch > 0:
        recorded[epoch_app(commit.job_id)] = commit.epoch
    return recorded | {offset_app(str(commit.job_id), source): version for source, version in commit.offsets.items()}


def commit_properties(commit: Commit | None, metadata: dict[str, str] | None = None) -> CommitProperties:
    """Return commit properties with which delta-rs commits on exactly the version it has read, or not at all.

    `metadata` are fields of `commitInfo` in the log entry.
    """
    transactions = [Transaction(app, version) for app, version in recorded_by(commit).items()]
    return CommitProperties(custom_metadata=metadata, max_commit_retries=0, app_transactions=transactions or None)
