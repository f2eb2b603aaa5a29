"""What a supervisor makes of a stream: judged from the catalog alone, and written back to it.

A supervisor looks at a stream every second. What it finds is one of four verdicts; STOPPED always comes with the reason that
`SHOW STREAMS` tells, and each reason is reported once: whoever looks again later waits for the stream to recover (a passing
reason) or takes the second look itself as the wish to go on (any other).
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import psutil

from headrace.errors import NotFoundError
from headrace.model.jobs import DesiredState, JobRecord, JobState, StopReason
from headrace.model.snodes import DriverStatus, Heartbeat, Lease

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.settings import Settings

REPORTED: Final = "REPORTED"
DRIVER_LOST: Final = "DRIVER_LOST"
# A driver that starts needs this long at most; before it has been seen alive, its absence or silence is no failure.
START_MS: Final = 120_000
# A stream that stays STOPPED for a passing reason is reported again after this long.
REMIND_MS: Final = 600_000
# A lease is renewed three times within its life, so only an outage of this share of it can have let it expire. Looks are taken
# about once a second: a longer pause between two of them means that the catalog was away, or the one who looks.
AWAY_SHARE: Final = 2 / 3
# After that, drivers need this long to reach the catalog again, beside the age at which a heartbeat is stale.
RECONNECT_MS: Final = 15_000
# A heartbeat older than this many intervals is stale, and never one younger than the lease lives.
STALE_BEATS: Final = 10


class SupervisionStatus(StrEnum):
    WATCH = "watch"
    """Nothing to report."""
    STOPPED = "stopped"
    PAUSED = "paused"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class SupervisionResult:
    """What is the case with a stream; `reason` where it is STOPPED, `driver` as it was seen where its loss is the reason."""

    verdict: SupervisionStatus
    reason: StopReason | None = None
    driver: DriverStatus | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The catalog at one moment of its own time, epoch milliseconds: jobs by id, drivers by snode."""

    now: int
    jobs: dict[str, JobRecord]
    leases: dict[str, Lease]
    beats: dict[str, Heartbeat]

    def driver(self, snode: str) -> DriverStatus:
        """The driver of an snode at this moment."""
        return DriverStatus(self.now, self.leases.get(snode), self.beats.get(snode))


def snapshot(catalog: Catalog, now: int, *snodes: str) -> Snapshot:
    """Read all that supervisors need to know, in a handful of queries however many streams there are.

    `snodes` are looked at although they have no streams and have never been alive.
    """
    streams = {record.definition.id: record for record in catalog.jobs.all()}
    beats = {beat.snode: beat for beat in catalog.snodes.all()}
    names = {*snodes, *beats, *(record.definition.snode for record in streams.values())}
    leases = {name: lease for name in names if (lease := catalog.leases.get(name)) is not None}
    return Snapshot(now, streams, leases, beats)


def stale_after_ms(settings: Settings) -> int:
    """Milliseconds after which a heartbeat is stale; never less than a lease lives."""
    return max(STALE_BEATS * settings.heartbeat_ms, settings.lease_ms)


class Supervisor:
    """Judges one stream in a series of snapshots."""

    def __init__(self, job_id: str, *, heartbeat_ms: int, lease_ms: int, reported: str | None = None) -> None:
        """`reported`: the last report of this stream, as `last_report` gives it."""
        self._id = job_id
        self._stale_ms = max(STALE_BEATS * heartbeat_ms, lease_ms)
        self._reported = reported
        self._away_ms = round(lease_ms * AWAY_SHARE)
        self._began: int | None = None
        self._last: int | None = None
        self._patient_until = 0
        self._seen_alive = False

    def judge(self, state: Snapshot) -> SupervisionResult:
        """The finding of now; a lost driver makes a stream STOPPED before its record says so."""
        if self._began is None:
            self._began = state.now
        if self._last is not None and state.now - self._last > self._away_ms:
            self._patient_until = state.now + self._stale_ms + RECONNECT_MS
        self._last = state.now
        record = state.jobs.get(self._id)
        if record is None or record.desired is DesiredState.DROPPED:
            return SupervisionResult(SupervisionStatus.DROPPED)
        if record.desired is DesiredState.PAUSED:
            return SupervisionResult(SupervisionStatus.PAUSED)
        if record.state is JobState.STOPPED and record.reason is not None:
            return self._stopped(record.reason, state.now)
        if record.state is JobState.RUNNING and (reason := self._lost(record, state)):
            return SupervisionResult(SupervisionStatus.STOPPED, reason, state.driver(record.definition.snode))
        return SupervisionResult(SupervisionStatus.WATCH)

    def _stopped(self, reason: StopReason, now: int) -> SupervisionResult:
        known = self._reported == stop_mark(reason)
        if known and reason.transient and now - (self._began or now) < REMIND_MS:
            return SupervisionResult(SupervisionStatus.WATCH)
        return SupervisionResult(SupervisionStatus.STOPPED, reason)

    def _lost(self, record: JobRecord, state: Snapshot) -> StopReason | None:
        """The reason to give when the stream's driver does not live."""
        snode = record.definition.snode
        lease = state.leases.get(snode)
        what = driver_problem(lease, state.beats.get(snode), state.now, self._stale_ms)
        if what is None:
            self._seen_alive = True
            return None
        # A driver that ended well has given its lease back: one that holds it still and is gone has died, whoever saw it live.
        died = lease is not None and holder_is_gone(lease.holder)
        may_be_starting = not self._seen_alive and state.now - (self._began or state.now) < START_MS
        if not died and (may_be_starting or state.now < self._patient_until):
            return None
        hint = "it goes on by itself when the driver is back; the driver's own log says why it ended"
        return StopReason(DRIVER_LOST, f"the driver of snode {snode} {what}", hint, state.now, transient=True)


def driver_problem(lease: Lease | None, beat: Heartbeat | None, now: int, stale_ms: int) -> str | None:
    """What is wrong with a driver, as the end of a sentence; None where it lives."""
    if lease is None:
        return "is not running"
    last = "" if beat is None else f"; its last heartbeat was {duration_text(now - beat.at)} ago"
    if holder_is_gone(lease.holder):
        return f"has died (process {lease.holder.split(':')[1]} is gone){last}"
    if lease.expires < now:
        return f"has let its lease expire{last}"
    if beat is not None and beat.epoch == lease.epoch and now - beat.at > stale_ms:
        return f"does not answer{last}"
    return None


def duration_text(ms: int) -> str:
    """A length of time in the unit that suits it."""
    seconds = max(0, ms) / 1000
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def holder_is_gone(holder: str) -> bool:
    """Whether the process that holds a lease ran on this machine and has ended; False where that cannot be told."""
    host, _, rest = holder.partition(":")
    number = rest.partition(":")[0]
    if host != socket.gethostname() or not number.isdigit() or int(number) == os.getpid():
        return False
    try:
        return psutil.Process(int(number)).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def stop_mark(reason: StopReason) -> str:
    """What tells one stop of a stream from another."""
    return f"{reason} since {datetime.fromtimestamp(reason.since / 1000, UTC).isoformat(timespec='milliseconds')}"


def last_report(catalog: Catalog, job_id: str) -> str | None:
    """The mark of the stop that was reported last."""
    events = catalog.events.all("job", job_id, limit=50)
    return next((event.message for event in events if event.kind == REPORTED), None)


def report(catalog: Catalog, job_id: str, reason: StopReason, driver: DriverStatus | None = None) -> bool:
    """Record that a stream is STOPPED and that this has been reported.

    False when there is nothing to report: the stream was dropped or resumed, or its driver is no longer as `driver` was seen.
    """
    try:
        record = catalog.jobs.by_id(job_id)
        if record.state is JobState.RUNNING and reason.code == DRIVER_LOST:
            if not catalog.jobs.replace_state(record, JobState.STOPPED, reason, driver=driver):
                return False
            catalog.events.record("job", job_id, "STOPPED", str(reason))
        elif record.state is not JobState.STOPPED:
            return False
    except NotFoundError:
        return False
    catalog.events.record("job", job_id, REPORTED, stop_mark(reason))
    return True


def resume_cleared(catalog: Catalog, job_id: str, reported: str | None) -> bool:
    """Resume a stream whose stop has been reported before: who looks again then was sent by a person who cleared the task."""
    try:
        record = catalog.jobs.by_id(job_id)
        if not should_resume(record, reported) or not catalog.jobs.replace_state(record, record.resumed_state):
            return False
    except NotFoundError:
        return False
    catalog.events.record("job", job_id, "RESUMED", "its task in Airflow was cleared")
    return True


def should_resume(record: JobRecord, reported: str | None) -> bool:
    """Whether a stream is STOPPED for a reason that does not pass by itself, and that was reported before."""
    reason = record.reason if record.desired is DesiredState.RUNNING and record.state is JobState.STOPPED else None
    return reason is not None and not reason.transient and stop_mark(reason) == reported
