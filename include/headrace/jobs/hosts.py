"""How jobs of all kinds run in a driver: what a job, and what several jobs share, are for the one loop that hosts them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from headrace.errors import Error, TransientError
from headrace.jobs.runners import Advance, Runner, RunnerFactory
from headrace.model.jobs import JobRecord
from headrace.model.positions import SourceId

if TYPE_CHECKING:
    from headrace.context import Context

MAX_ATTEMPTS: Final = 5
"""Attempts at a micro-batch, or at reading what is new, that fail with a transient error."""
FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Driving:
    """What drives jobs.

    Attributes:
        context: The environment, with the epoch under which the driver may commit.
        snode: The driver's snode.
        runs_all: Whether the driver does all itself. If not, Airflow does what is long or rare.
        observe: Called with the seconds of each micro-batch.
    """

    context: Context
    snode: str = ""
    runs_all: bool = True
    observe: Callable[[float], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class JobActivity:
    """What a driver is doing for one job.

    Attributes:
        in_flight_ms: How long the micro-batch in flight has been running; 0 if there is none.
        failures: Consecutive failed attempts.
        pending_since: When the oldest commit not yet handled was made, in epoch ms; None if all are handled.
    """

    in_flight_ms: int
    failures: int
    pending_since: int | None

    def lag_ms(self, now: int) -> int:
        """Return the age of the oldest commit not yet handled; `now` is in epoch ms."""
        return 0 if self.pending_since is None else max(0, now - self.pending_since)


@dataclass(slots=True)
class Retry:
    """Consecutive failures, and when to try again, on the monotonic clock."""

    failures: int = 0
    retry_at: float = 0.0

    def record_failure(self, error: Error) -> bool:
        """Record a failure; return False if there should be no other attempt."""
        self.failures += 1
        if not isinstance(error, TransientError) or self.failures >= MAX_ATTEMPTS:
            return False
        self.pause(min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** (self.failures - 1)))
        return True

    def pause(self, seconds: float = MAX_PAUSE_S) -> None:
        self.retry_at = time.monotonic() + seconds

    def record_success(self) -> None:
        self.failures, self.retry_at = 0, 0.0

    def is_waiting(self) -> bool:
        return self.retry_at > time.monotonic()


@dataclass(slots=True, eq=False)
class HostedJob:
    """A job that runs, or will once its runner is created. `started_at` is on the monotonic clock."""

    record: JobRecord
    create: RunnerFactory
    is_scheduled: bool = False
    runner: Runner | None = None
    in_flight: Future[Mapping[str, Advance]] | None = None
    started_at: float = 0.0
    retry: Retry = field(default_factory=Retry)
    is_removed: bool = False

    @property
    def id(self) -> str:
        return self.record.definition.id

    @property
    def in_flight_ms(self) -> int:
        """How long the micro-batch in flight has been running; 0 if there is none."""
        return 0 if self.in_flight is None else max(1, round((time.monotonic() - self.started_at) * 1000))

    def has_work(self, source: Source, latest: Any) -> bool:
        """Return True if the next micro-batch can start: after a failure, for a reason of its own, or for what is new."""
        runner = self.runner
        return runner is None or self.retry.failures > 0 or runner.is_due() or source.has_news(runner, latest)

    def open(self, context: Context, source: Source) -> bool:
        """Create the runner, and return True, if there is none. After a failure it begins again from what is durable."""
        if self.runner is None:
            self.runner = self.create(context, self.record, source.reader)
            return True
        if self.retry.failures:
            self.runner.reset()
        return False

    def close(self) -> None:
        """Release the runner, if there is one."""
        runner, self.runner = self.runner, None
        if runner is not None:
            runner.close(0)


class Source:
    """What some jobs read, and what else they share. By default they have nothing in common and wait for the clock alone."""

    needs_runners: ClassVar[bool] = False
    """Whether `batches` looks at runners, so that a new runner waits for its turn."""
    reader: Any = None
    """What the runners get."""
    close_grace_s: ClassVar[float | None] = None
    """How long to wait for what is in flight in the end; None for as long as it takes."""
    is_stopping = False
    """Whether no further work should be started."""

    def read(self, jobs: Collection[HostedJob], handled: Any) -> Any:  # noqa: ARG002
        """Return what is newest. May take long. `handled` is what was newest when no job had anything to do.

        An error stops all jobs, unless it is transient. Jobs rest until something else is newest, or the clock wakes one of them.
        """
        return None

    def has_news(self, runner: Runner, latest: Any) -> bool:  # noqa: ARG002
        """Return True if something is new for a job."""
        return False

    def follows(self, table: SourceId) -> bool:  # noqa: ARG002
        """Return True if a commit to a table is news."""
        return False

    def batches(self, due: Sequence[HostedJob], busy: Sequence[HostedJob]) -> Sequence[Sequence[HostedJob]]:  # noqa: ARG002
        """Return which of the jobs that are due to start now while others are busy; one thread each for those of a sequence."""
        return [[job] for job in due]

    def advance(self, jobs: Sequence[HostedJob]) -> Sequence[Advance]:
        """Handle the next micro-batch of each job. May take long."""
        return [job.runner.advance() for job in jobs if job.runner is not None]

    def pending_since(self, job: HostedJob) -> int | None:  # noqa: ARG002
        """Return when the oldest commit that a job has not handled was made, in epoch ms. Reads nothing. Thread-safe."""
        return None

    def stopped_with(self, job: HostedJob, error: Error) -> Collection[str]:  # noqa: ARG002
        """Return the ids of other jobs that stop with a job, for the same reason."""
        return ()


class Sources(Protocol):
    """The sources of the jobs of one or several kinds in a driver."""

    name: str
    """The name of the threads that run these jobs."""
    threads: int
    """The number of these threads."""

    def source(self, record: JobRecord) -> Source:
        """Return the source of a job; raise an error, which stops the job unless it is transient, if there is none."""

    def refresh(self, records: Sequence[JobRecord], runnable: Sequence[JobRecord]) -> None:
        """Take note of the jobs that the catalog has, and of those that run."""


class History(Protocol):
    """Does what jobs need before they can run. The reconciling thread calls it."""

    def prepare(self, record: JobRecord) -> bool:
        """Start what a job requires first, and return whether it should run now."""

    def stop(self) -> None:
        """Start nothing more."""


SourcesFactory = Callable[[Driving], Sources]
HistoryFactory = Callable[[Driving], History]
