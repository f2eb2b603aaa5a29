"""The work that drivers report for each job in their heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.catalog.processes import CONNECTION
from headrace.context import Context
from headrace.jobs.registry import is_known, kind_of
from headrace.model.execution_history import ExecutionHistory
from headrace.model.job_parts import DividedRecord, whole, whole_id
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.model.snodes import Heartbeat
from headrace.runtime.supervision import Snapshot, duration_text, lost_reason, read_snapshot, stale_after_ms

SLOW_BATCH: Final = "SLOW_BATCH"
SLOW_BATCH_HINT: Final = "see the log of its snode; HEADRACE_SLOW_BATCH_MS sets the limit"


@dataclass(frozen=True, slots=True)
class ReportedActivity:
    """What the driver of a job was doing for it when it last reported.

    `batch_ms` is how long the micro-batch in flight had been running, `is_slow` whether that was longer than the driver's limit.
    The oldest commit not yet handled was made at `pending_since`, in epoch ms.
    """

    batch_ms: int | None
    is_slow: bool
    pending_since: int | None

    @property
    def slow_batch(self) -> str | None:
        """A sentence about a slow micro-batch; None if it is not slow."""
        if self.batch_ms is None or not self.is_slow:
            return None
        return f"the micro-batch has been running for {duration_text(self.batch_ms)}"

    def joined(self, other: ReportedActivity) -> ReportedActivity:
        """Return what drivers were doing for two parts of a stream."""
        instants = [since for since in (self.pending_since, other.pending_since) if since is not None]
        slowest = max(self.batch_ms or 0, other.batch_ms or 0) or None
        return ReportedActivity(slowest, self.is_slow or other.is_slow, min(instants, default=None))


NO_ACTIVITY: Final = ReportedActivity(None, False, None)


def read_present(context: Context, *snodes: str) -> Snapshot:
    """Read what users are shown of jobs and drivers, on every way: the lag and the rows that wait are those of this moment.

    A job that the user has paused is PAUSED, and one whose driver has died STOPPED, even if nothing has recorded that yet.
    """
    catalog = context.catalog
    state = read_snapshot(catalog, catalog.now(), *snodes)
    measured = {id: one for id, record in state.jobs.items() if (one := measure(context, record)) is not None}
    stale_ms = stale_after_ms(context.settings)
    jobs = {id: _as_observed(measured.get(id, record), state, stale_ms) for id, record in state.jobs.items()}
    return replace(state, jobs=jobs, measured=frozenset(measured))


def measure(context: Context, record: JobRecord) -> JobRecord | None:
    """Return a job's record with the work that is not done now; None if it cannot be measured."""
    kind = record.definition.kind
    measured = kind_of(kind).measured if is_known(kind) else None
    return None if measured is None else measured()(context, record)


def measured_records(context: Context, records: Sequence[JobRecord]) -> list[JobRecord]:
    """Return records with the work that is not done now, where it can be measured."""
    return [measure(context, record) or record for record in records]


def _as_observed(record: JobRecord, state: Snapshot, stale_ms: int) -> JobRecord:
    """Return the record of a job in the state in which it is: PAUSED as soon as no micro-batch may begin, STOPPED without a driver.

    A connection that runs jobs is no driver: it runs them when it settles.
    """
    if isinstance(record, DividedRecord):
        return replace(whole(_as_observed(part, state, stale_ms) for part in record.parts), progress=record.progress)
    snode = record.definition.snode
    if record.desired is DesiredState.PAUSED and record.state in (JobState.CREATED, JobState.RUNNING):
        return replace(record, state=JobState.PAUSED)
    lease = state.leases.get(snode)
    if record.state is not JobState.RUNNING or lease is None or lease.holder.startswith(CONNECTION):
        return record
    problem = state.driver_problem(snode, stale_ms)
    return record if problem is None else replace(record, state=JobState.STOPPED, reason=lost_reason(snode, problem, state.now))


def reported_activity(state: Snapshot, stale_ms: int) -> dict[str, ReportedActivity]:
    """Return what live drivers are doing, by the id of the job. Drivers that ended or do not answer are left out.

    What they said about measured jobs' waiting commits is older than the measurement.
    """
    live = [beat for beat in state.beats.values() if _is_live(beat, state, stale_ms)]
    reports: dict[str, ReportedActivity] = {}
    for job_id, activity in {id: one for beat in live for id, one in _activity_of(beat).items()}.items():
        id, other = whole_id(job_id), reports.get(whole_id(job_id))
        reports[id] = activity if other is None else activity.joined(other)
    return {id: replace(report, pending_since=None) if id in state.measured else report for id, report in reports.items()}


def current_lag_ms(record: JobRecord, activity: ReportedActivity | None, history: ExecutionHistory | None, now: int) -> int | None:
    """Return the age of the oldest work that is not done; None if it is not known, as for a job of an unknown kind."""
    definition = record.definition
    return kind_of(definition).lag_ms(record, activity, history, now) if is_known(definition.kind) else None


def _is_live(beat: Heartbeat, state: Snapshot, stale_ms: int) -> bool:
    lease = state.leases.get(beat.snode)
    return lease is not None and lease.epoch == beat.epoch and state.driver_problem(beat.snode, stale_ms) is None


def _activity_of(beat: Heartbeat) -> dict[str, ReportedActivity]:
    slow = beat.detail.get("slow_batches", {})
    return {
        job_id: ReportedActivity(job["in_flight_ms"] or None, job_id in slow, beat.at - job["lag_ms"] if job["lag_ms"] else None)
        for job_id, job in beat.detail.get("jobs", {}).items()
    }
