"""The hosts of jobs: the parts of a driver that run the jobs of one or several kinds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.model.jobs import JobRecord

if TYPE_CHECKING:
    from headrace.context import Context


@dataclass(frozen=True, slots=True)
class Driving:
    """What a host gets from its driver.

    Attributes:
        context: The environment, with the epoch under which the driver may commit.
        snode: The driver's snode.
        runs_all: Whether the driver does all itself. If not, Airflow does what is long or rare.
        observe: Called with the seconds of each micro-batch.
    """

    context: Context
    snode: str
    runs_all: bool
    observe: Callable[[float], None]


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


class Host(Protocol):
    """Runs jobs in a driver. One thread reconciles and another one polls. Only the former waits for the catalog."""

    @property
    def running(self) -> Collection[str]:
        """The ids of the jobs that must not be dropped or given to another snode yet."""

    def start(self) -> None:
        """Begin to run jobs."""

    def prepare(self, record: JobRecord) -> bool:
        """Do what a job needs before it can run, and return whether it should run now.

        An error that is not transient stops the job.
        """

    def reconcile(self, records: Sequence[JobRecord]) -> None:
        """Run these jobs, for which `prepare` has returned True, and no others."""

    def poll(self, timeout_s: float) -> bool:
        """Do what is due, waiting at most `timeout_s`, and return whether anything was."""

    def activity(self) -> Mapping[str, JobActivity]:
        """Return what is being done for each job that it runs. Thread-safe."""

    def stop(self, grace_s: float) -> None:
        """Start nothing more, and wait for what is in flight, at most `grace_s`."""

    def close(self) -> None:
        """Release what remains. The polling thread calls this as the last thing it does."""


HostFactory = Callable[[Driving], Host]
