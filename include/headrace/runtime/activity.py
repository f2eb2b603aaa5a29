"""The work that drivers report for each job in their heartbeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.jobs.registry import is_known, kind_of
from headrace.model.execution_history import ExecutionHistory
from headrace.model.jobs import JobRecord
from headrace.model.snodes import Heartbeat
from headrace.runtime.supervision import Snapshot, duration_text

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


NO_ACTIVITY: Final = ReportedActivity(None, False, None)


def reported_activity(state: Snapshot, stale_ms: int) -> dict[str, ReportedActivity]:
    """Return what live drivers are doing, by the id of the job. Drivers that ended or do not answer are left out."""
    live = [beat for beat in state.beats.values() if _is_live(beat, state, stale_ms)]
    return {job_id: activity for beat in live for job_id, activity in _activity_of(beat).items()}


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
