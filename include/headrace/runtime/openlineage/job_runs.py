"""Runs of the jobs that an snode hosts: from what its driver has read of the catalog, and never in the way of a micro-batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.model.jobs import DesiredState, JobCounters, JobDefinition, JobRecord, JobState
from headrace.model.run_reports import RunReport, RunReports, RunState
from headrace.queries.kind import CONTINUOUS_QUERY


@dataclass(slots=True)
class OpenRun:
    """A run that has not ended: its first report, the counters when it began, and when it was last reported."""

    start: RunReport
    began: JobCounters
    counters: JobCounters
    reported_at: float

    def now(self, state: RunState, error: str | None = None) -> RunReport:
        """Return a report of what the run has done so far."""
        rows_in = self.counters.rows_handled - self.began.rows_handled
        rows_out, bytes_out = (getattr(self.counters, name) - getattr(self.began, name) for name in ("rows_out", "bytes_out"))
        return replace(
            self.start, state=state, rows_in=max(0, rows_in), rows_out=max(0, rows_out), bytes_out=bytes_out or None, error=error
        )


class JobRuns:
    """Reports the runs of streams and pipes of an snode: each lasts while the job is RUNNING under one definition.

    Executions of continuous queries and backfills report themselves.
    """

    def __init__(self, reports: RunReports, snode: str, running_s: float, now: Callable[[], int]) -> None:
        """Report runs that have not ended every `running_s` seconds; 0 for never. `now` is in epoch milliseconds."""
        self._reports, self._snode, self._running_s, self._now = reports, snode, running_s, now
        self._before: dict[str, JobCounters] = {}
        self._open: dict[str, OpenRun] = {}
        self._lock = threading.Lock()
        self._has_ended = False

    def look(self, records: Sequence[JobRecord]) -> None:
        """Report what has changed of the snode's jobs since the last look. Takes no time, since drivers wait for it."""
        with self._lock:
            if not self._has_ended:
                self._look({one.definition.id: one for one in records if one.definition.kind != CONTINUOUS_QUERY})

    def _look(self, records: Mapping[str, JobRecord]) -> None:
        for job_id in list(self._open):
            self._follow(job_id, records.get(job_id))
        for job_id, record in records.items():
            if job_id not in self._open and is_running(record):
                self._begin(record)
        self._before = {job_id: one.progress.counters for job_id, one in records.items() if job_id not in self._open}

    def end(self) -> None:
        """Report that all runs end, since the snode does."""
        with self._lock:
            self._has_ended = True
            for run in self._open.values():
                self._reports.report(run.now(RunState.COMPLETE))

    def _begin(self, record: JobRecord) -> None:
        started, counters, job_id = self._now(), record.progress.counters, record.definition.id
        start = RunReport(record.definition, f"{self._snode}/{started}", RunState.START, started=started)
        # What is read of a job that begins to run may be newer than that.
        self._open[job_id] = OpenRun(start, self._before.get(job_id, counters), counters, time.monotonic())
        self._reports.report(start)

    def _follow(self, job_id: str, record: JobRecord | None) -> None:
        run = self._open[job_id]
        if record is not None:
            run.counters = record.progress.counters
        if record is not None and is_running(record) and is_same(record.definition, run.start.definition):
            if self._running_s and time.monotonic() - run.reported_at >= self._running_s:
                run.reported_at = time.monotonic()
                self._reports.report(run.now(RunState.RUNNING))
            return
        state, error = outcome(record)
        self._reports.report(run.now(state, error))
        del self._open[job_id]


def is_running(record: JobRecord) -> bool:
    """Return whether a job runs."""
    return record.state is JobState.RUNNING and record.desired is DesiredState.RUNNING


def is_same(definition: JobDefinition, other: JobDefinition) -> bool:
    """Return whether two definitions have the same statement."""
    return definition.sql == other.sql and definition.pipe == other.pipe


def outcome(record: JobRecord | None) -> tuple[RunState, str | None]:
    """Return how a run has ended whose job does not run any longer, and why it failed. A job that has moved has no record here."""
    if record is not None and record.desired is DesiredState.DROPPED:
        return RunState.ABORT, None
    if record is not None and record.state is JobState.STOPPED:
        return RunState.FAIL, None if record.reason is None else str(record.reason)
    return RunState.COMPLETE, None
