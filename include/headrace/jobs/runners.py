"""The runner of a job: what the loop that hosts jobs needs of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from headrace.model.jobs import JobProgress, JobRecord
from headrace.model.positions import Offsets

if TYPE_CHECKING:
    from headrace.context import Context


class Advance(Enum):
    """The outcome of asking a job for its next micro-batch."""

    HANDLED = auto()
    IDLE = auto()
    """No micro-batch was due."""
    UNWANTED = auto()
    """The user has paused or dropped the job, or it has been stopped."""
    FULL = auto()
    """The sink has no room for more results yet."""
    FAILED = auto()
    """The micro-batch is tried again after a pause."""
    UNSTOPPED = auto()
    """The job has failed, but could not be marked STOPPED: the micro-batch is tried again after a long pause."""


class Runner:
    """Runs one job. Its micro-batches run one after the other, each in any thread."""

    progress: JobProgress
    """The progress that was recorded last."""

    @property
    def offsets(self) -> Offsets:
        """The last version of each source that is handled."""
        return {}

    @property
    def wake_at(self) -> int | None:
        """When the next micro-batch is due even if nothing changes, in epoch ms of the connection's clock."""
        return None

    @property
    def is_recorded(self) -> bool:
        """True unless the catalog could not be reached when progress was to be recorded."""
        return True

    def is_due(self) -> bool:
        """Return True if there is something to do although the sources have not changed."""
        return False

    def is_delivering(self) -> bool:
        """Return True while results are delivered to receivers that answer."""
        return False

    def is_outdated(self, keep_ms: Mapping[str, int | None]) -> bool:  # noqa: ARG002
        """Return True if the runner should be replaced: a function, or the KEEP of a database, given by its name, has changed."""
        return False

    def refresh(self, record: JobRecord) -> None:
        """Take over what users have asked for."""

    def advance(self) -> Advance:
        """Handle the next micro-batch if there is one and the user still wants the job to run."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forget what is in memory. After a failure only durable state counts."""

    def sample(self) -> Any:
        """Return the measurements that the driver records; None without any. Thread-safe."""
        return None

    def close(self, grace_s: float) -> None:
        """Stop background work, waiting at most `grace_s` for it."""


RunnerFactory = Callable[["Context", JobRecord, Any], Runner]
"""Creates the runner of a job, from the driver's context, the job's record, and the reader of its source."""
