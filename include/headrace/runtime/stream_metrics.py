"""Samples of a driver's streams and pipes at regular intervals, recorded in the catalog with one statement for all of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.catalog.stream_metrics import THINNING
from headrace.context import Context
from headrace.errors import TransientError
from headrace.jobs.hosts import JobActivity
from headrace.model.jobs import JobCounters, JobRecord
from headrace.model.stream_metrics import StreamSample
from headrace.model.window_notes import WindowNote
from headrace.runtime.pauses import NO_PAUSE, Pause
from headrace.streams.metering import Meter, Phase, RunnerSample

logger = logging.getLogger(__name__)

TOTALS: Final = (
    *("rows_used", "rows_updated", "rows_filtered", "rows_expired", "rows_quarantined", "rows_dropped", "rows_out"),
    "windows_recalculated",
)
"""Counters of a job that its samples have."""


class Sampled(Protocol):
    """What runs jobs that are sampled."""

    def samples(self) -> Mapping[str, RunnerSample]:
        """Return the measurements of each job. Thread-safe."""

    def activity(self) -> Mapping[str, JobActivity]:
        """Return what is being done for each job. Thread-safe."""


@dataclass(frozen=True, slots=True)
class LastSample:
    """What a job had done when it was sampled last, and when that was, in epoch ms; and the notes that the catalog has."""

    time: int
    meter: Meter
    counters: JobCounters
    notes: tuple[WindowNote, ...] = ()


class StreamSampler:
    """Takes the samples of one driver from what its runners know; it reads no table. Rates are those since its sample before."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._last: dict[str, LastSample] = {}
        self._pause = NO_PAUSE
        self._thinned = [0] * len(THINNING)

    def take(self, jobs: Sampled, records: Sequence[JobRecord]) -> None:
        """Record a sample of each job that runs, if it is time to. A catalog that cannot be reached gets none."""
        settings, now = self._context.settings, self._context.clock.now()
        if not settings.metrics_interval_s or now < self._pause.end_at(now):
            return
        self._pause = Pause(now, now + settings.metrics_interval_s * 1000)
        running, activity = jobs.samples(), jobs.activity()
        streams = [record for record in records if record.definition.id in running]
        try:
            quarantined = self._context.catalog.quarantine.counts() if streams else {}
            self._record_notes(running)
            samples = [self._sample(record, running, activity, quarantined, now) for record in streams]
            metrics = self._context.catalog.stream_metrics
            metrics.add(samples, keep_ms=settings.metrics_keep_s * 1000)
            self._thinned = [metrics.thin(*tier, since=since) for tier, since in zip(THINNING, self._thinned, strict=True)]
        except TransientError as error:
            logger.warning("skipping a sample of the streams: %s", error.message)

    def _record_notes(self, running: Mapping[str, RunnerSample]) -> None:
        """Record the notes of streams that have others than when they were sampled last."""
        for job_id, runner in running.items():
            last = self._last.get(job_id)
            if runner.notes and (last is None or runner.notes != last.notes):
                self._context.catalog.window_notes.put(job_id, runner.notes)

    def _sample(
        self,
        record: JobRecord,
        running: Mapping[str, RunnerSample],
        activity: Mapping[str, JobActivity],
        quarantined: Mapping[str, int],
        now: int,
    ) -> StreamSample:
        job_id, counters = record.definition.id, record.progress.counters
        runner, job = running[job_id], activity.get(job_id)
        lag_ms = 0 if job is None else job.lag_ms(now)
        last = self._last.get(job_id, LastSample(now, Meter(), counters))
        self._last[job_id] = LastSample(now, runner.meter, counters, runner.notes)
        added, seconds = runner.meter.since(last.meter), max(now - last.time, 1) / 1000
        parts = {phase: added.mean_ms(phase) for phase in Phase}
        return StreamSample(
            job_id=job_id,
            time=now,
            rows_behind=runner.rows_pending,
            lag_ms=lag_ms,
            event_lag_ms=None if runner.max_event_time_ms is None else now - runner.max_event_time_ms,
            batches=added.batches,
            batch_ms=None if not added.batches else round(sum(part or 0 for part in parts.values()), 3),
            read_ms=parts[Phase.READ],
            compute_ms=parts[Phase.COMPUTE],
            checkpoint_ms=parts[Phase.CHECKPOINT],
            write_ms=parts[Phase.WRITE],
            record_ms=parts[Phase.RECORD],
            rows_in_s=max(0, counters.rows_handled - last.counters.rows_handled) / seconds,
            rows_out_s=max(0, counters.rows_out - last.counters.rows_out) / seconds,
            bytes_out_s=max(0, counters.bytes_out - last.counters.bytes_out) / seconds,
            state_windows=runner.state_windows,
            state_bytes=runner.state_bytes,
            quarantined=quarantined.get(job_id, 0),
            **{name: getattr(counters, name) for name in TOTALS},
        )
