"""Supervision of streams: their status from the catalog alone, written back to it.

A supervisor checks a stream every second, with one of four results. STOPPED always has the reason that `SHOW STREAMS` shows. Each
reason is reported once. A supervisor that starts after that waits for the stream to recover, if the reason is transient; otherwise
its start means that a user wants the stream to continue.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from headrace.catalog.processes import has_ended
from headrace.model.job_parts import parts_of
from headrace.model.jobs import DesiredState, JobRecord, JobState, StopReason
from headrace.model.snodes import DriverStatus, Heartbeat, Lease

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.settings import Settings

REPORTED: Final = "REPORTED"
REPORTER: Final = ", reported by try "
DRIVER_LOST: Final = "DRIVER_LOST"
DRIVER_STOPPED: Final = "DRIVER_STOPPED"
NOT_RUNNING: Final = "is not running"
"""What is wrong with a driver that has released its lease, as each does that ends in order."""
# The longest start of a driver. Until it has been seen alive, its absence is no failure for this long.
MAX_START_MS: Final = 120_000
# A stream that stays STOPPED for a transient reason is reported again after this.
REMINDER_MS: Final = 600_000
# A lease is renewed three times within its duration, so only an outage longer than this fraction of it can let it expire. We
# read the catalog about once a second: a longer gap between two snapshots means that the catalog, or we, were away.
MAX_GAP_FRACTION: Final = 2 / 3
# After an outage, drivers get this long to reach the catalog again, in addition to the age of a stale heartbeat.
MAX_RECONNECT_MS: Final = 15_000
# A heartbeat older than this many intervals, and than the duration of a lease, is stale.
STALE_HEARTBEATS: Final = 10


class SupervisionStatus(StrEnum):
    """What a supervisor sees of a stream."""

    WATCH = "watch"
    """Nothing to report."""
    STOPPED = "stopped"
    PAUSED = "paused"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class SupervisionResult:
    """The status of a stream; for STOPPED the reason, and the driver as it was seen if its loss is the reason."""

    status: SupervisionStatus
    reason: StopReason | None = None
    driver: DriverStatus | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The catalog at one moment of its own clock (epoch ms): jobs by id, leases and heartbeats by snode.

    `members` are the snodes that share jobs, and `ended` those whose leases are held by processes that are known to have ended.
    The progress of `measured` jobs says what they have not handled at this moment.
    """

    now: int
    jobs: dict[str, JobRecord]
    leases: dict[str, Lease]
    beats: dict[str, Heartbeat]
    members: tuple[str, ...] = ()
    ended: frozenset[str] = frozenset()
    measured: frozenset[str] = frozenset()

    def driver(self, snode: str) -> DriverStatus:
        """Return the driver of an snode at this moment."""
        return DriverStatus(self.now, self.leases.get(snode), self.beats.get(snode))

    def driver_problem(self, snode: str, stale_ms: int) -> str | None:
        """Return what is wrong with the driver of an snode, as the end of a sentence; None if it is alive."""
        lease, beat = self.leases.get(snode), self.beats.get(snode)
        if lease is None:
            return NOT_RUNNING
        suffix = "" if beat is None else f"; its last heartbeat was {duration_text(self.now - beat.at)} ago"
        if snode in self.ended:
            return f"has died (process {lease.holder.split(':')[1]} is gone){suffix}"
        if not lease.is_valid(self.now):
            return f"has let its lease expire{suffix}"
        if beat is not None and beat.epoch == lease.epoch and abs(self.now - beat.at) > stale_ms:
            return f"does not answer{suffix}"
        return None


def read_snapshot(catalog: Catalog, now: int, *snodes: str) -> Snapshot:
    """Read all that supervisors need, in a constant number of queries for each snode.

    `snodes` are included even if they have no streams and have never been alive.
    """
    streams = {record.definition.id: record for record in catalog.jobs.all()}
    beats = {beat.snode: beat for beat in catalog.snodes.all()}
    members = tuple(member.name for member in catalog.members.all())
    names = {*snodes, *members, *beats, *(part.definition.snode for record in streams.values() for part in parts_of(record))}
    leases = {name: lease for name in names if (lease := catalog.leases.get(name)) is not None}
    ended = frozenset(name for name, lease in leases.items() if has_ended(lease.holder))
    return Snapshot(now, streams, leases, beats, members, ended)


def stale_after_ms(settings: Settings) -> int:
    """Return the milliseconds after which a heartbeat is stale, at least the duration of a lease."""
    return max(STALE_HEARTBEATS * settings.heartbeat_ms, settings.lease_ms)


class Supervisor:
    """Checks one stream in a series of snapshots."""

    def __init__(self, job_id: str, *, heartbeat_ms: int, lease_ms: int, reported: str | None = None) -> None:
        """Prepare the supervision of a stream; `reported` is its last report, as returned by `last_report`."""
        self._id = job_id
        self._stale_ms = max(STALE_HEARTBEATS * heartbeat_ms, lease_ms)
        self._reported = reported
        self._max_gap_ms = round(lease_ms * MAX_GAP_FRACTION)
        self._started_at: int | None = None
        self._last_snapshot_at: int | None = None
        self._wait_until = 0
        self._seen_alive: set[str] = set()

    def check(self, state: Snapshot) -> SupervisionResult:
        """Return the stream's status. A lost driver makes it STOPPED before its record says so."""
        if self._started_at is None:
            self._started_at = state.now
        if self._last_snapshot_at is not None and state.now - self._last_snapshot_at > self._max_gap_ms:
            self._wait_until = state.now + self._stale_ms + MAX_RECONNECT_MS
        # The clock may have been set back.
        self._started_at = min(self._started_at, state.now)
        self._wait_until = min(self._wait_until, state.now + self._stale_ms + MAX_RECONNECT_MS)
        self._last_snapshot_at = state.now
        record = state.jobs.get(self._id)
        if record is None or record.desired is DesiredState.DROPPED:
            return SupervisionResult(SupervisionStatus.DROPPED)
        if record.desired is DesiredState.PAUSED:
            return SupervisionResult(SupervisionStatus.PAUSED)
        if record.state is JobState.STOPPED and record.reason is not None:
            return self._check_stopped(record.reason, state.now)
        for part in parts_of(record) if record.state is JobState.RUNNING else ():
            if part.state is JobState.RUNNING and (reason := self._find_lost_driver(part, state)):
                return SupervisionResult(SupervisionStatus.STOPPED, reason, state.driver(part.definition.snode))
        return SupervisionResult(SupervisionStatus.WATCH)

    def _check_stopped(self, reason: StopReason, now: int) -> SupervisionResult:
        is_reported = self._reported == stop_mark(reason)
        if is_reported and reason.transient and now - (self._started_at or now) < REMINDER_MS:
            return SupervisionResult(SupervisionStatus.WATCH)
        return SupervisionResult(SupervisionStatus.STOPPED, reason)

    def _find_lost_driver(self, record: JobRecord, state: Snapshot) -> StopReason | None:
        snode = record.definition.snode
        problem = state.driver_problem(snode, self._stale_ms)
        if problem is None:
            self._seen_alive.add(snode)
            return None
        # A clean shutdown releases the lease. If the holder is gone but the lease is not, it crashed, even if never seen alive.
        may_be_starting = snode not in self._seen_alive and state.now - (self._started_at or state.now) < MAX_START_MS
        if snode not in state.ended and (may_be_starting or state.now < self._wait_until):
            return None
        return lost_reason(snode, problem, state.now)


def lost_reason(snode: str, problem: str, now: int) -> StopReason:
    """Return the reason of a job whose driver is lost."""
    code, hint = DRIVER_LOST, "wait: it resumes when the driver is back; see its log for why it ended"
    if problem == NOT_RUNNING:
        code, hint = DRIVER_STOPPED, "it resumes when the driver is started, as by `headrace up`"
    return StopReason(code, f"the driver of snode {snode} {problem}", hint, now, transient=True)


def duration_text(ms: int) -> str:
    seconds = max(0, ms) / 1000
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def stop_mark(reason: StopReason) -> str:
    return f"{reason} since {datetime.fromtimestamp(reason.since / 1000, UTC).isoformat(timespec='milliseconds')}"


def last_report(catalog: Catalog, job_id: str, task_try: str = "") -> str | None:
    """Return the `stop_mark` of the stop that was reported last; None if there is none, or this very try of a task has reported it.

    Airflow stores a report after the catalog does. If its triggerer is killed in between, the same try starts again, and must
    report again.
    """
    events = catalog.events.all("job", job_id, limit=50)
    report = next((event.message for event in events if event.kind == REPORTED), None)
    if report is None:
        return None
    mark, _, reporter = report.rpartition(REPORTER)
    return None if task_try and reporter == task_try else mark


def record_report(
    catalog: Catalog, job_id: str, reason: StopReason, driver: DriverStatus | None = None, task_try: str = ""
) -> bool:
    """Record that a stream is STOPPED and that a try of its task reports this.

    Returns False if there is nothing to report: the stream was dropped or resumed, or its driver has changed since `driver` was
    read.
    """
    parts = catalog.jobs.parts_of(job_id)
    running = [part for part in parts if part.state is JobState.RUNNING] if reason.code in (DRIVER_LOST, DRIVER_STOPPED) else []
    if running:
        if not sum(catalog.jobs.replace_state(part, JobState.STOPPED, reason, driver=driver) for part in running):
            return False
        catalog.events.record("job", job_id, "STOPPED", str(reason))
    elif not any(part.state is JobState.STOPPED for part in parts):
        return False
    catalog.events.record("job", job_id, REPORTED, stop_mark(reason) + REPORTER + task_try)
    return True


def resume_cleared(catalog: Catalog, job_id: str, reported: str | None) -> bool:
    """Resume a stream whose stop was reported before: its supervision restarts only if a user has cleared the task."""
    stopped = [part for part in catalog.jobs.parts_of(job_id) if should_resume(part, reported)]
    if not sum(catalog.jobs.replace_state(part, part.resumed_state) for part in stopped):
        return False
    catalog.events.record("job", job_id, "RESUMED", "its task in Airflow was cleared")
    return True


def should_resume(record: JobRecord, reported: str | None) -> bool:
    reason = record.reason if record.desired is DesiredState.RUNNING and record.state is JobState.STOPPED else None
    return reason is not None and not reason.transient and stop_mark(reason) == reported
