"""Samples of a driver's streams at regular intervals, recorded in the catalog with one statement for all of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from headrace.context import Context
from headrace.errors import TransientError
from headrace.jobs.hosts import JobActivity
from headrace.model.jobs import JobRecord
from headrace.model.stream_metrics import StreamSample
from headrace.runtime.pauses import NO_PAUSE, Pause
from headrace.streams.metering import Meter, Phase, RunnerSample
from headrace.streams.sources.poller import SourcePollers

logger = logging.getLogger(__name__)


class StreamSampler:
    """Takes the samples of one driver from what its runners know; it reads no table. Rates are those since its sample before."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._last: dict[str, tuple[int, Meter, int, int]] = {}
        self._pause = NO_PAUSE

    def take(self, pollers: SourcePollers, records: Sequence[JobRecord]) -> None:
        """Record a sample of each stream that runs, if it is time to. A catalog that cannot be reached gets none."""
        settings, now = self._context.settings, self._context.clock.now()
        if not settings.metrics_interval_s or now < self._pause.end_at(now):
            return
        self._pause = Pause(now, now + settings.metrics_interval_s * 1000)
        running, activity = pollers.samples(), pollers.activity()
        streams = [record for record in records if record.definition.id in running]
        try:
            quarantined = self._context.catalog.quarantine.counts() if streams else {}
            samples = [self._sample(record, running, activity, quarantined, now) for record in streams]
            self._context.catalog.stream_metrics.add(samples, keep_ms=settings.metrics_keep_s * 1000)
        except TransientError as error:
            logger.warning("skipping a sample of the streams: %s", error.message)

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
        handled, rows_out = counters.rows_handled, counters.rows_out
        then, meter, handled_then, out_then = self._last.get(job_id, (now, Meter(), handled, rows_out))
        self._last[job_id] = now, runner.meter, handled, rows_out
        added, seconds = runner.meter.since(meter), max(now - then, 1) / 1000
        parts = {phase: added.mean_ms(phase) for phase in Phase}
        return StreamSample(
            job_id=job_id,
            time=now,
            rows_behind=runner.rows_pending,
            lag_ms=lag_ms,
            event_lag_ms=None if runner.max_event_time_ms is None else now - runner.max_event_time_ms,
            batches=added.batches,
            batch_ms=None if not added.batches else round(sum(part or 0 for part in parts.values()), 3),
            **{f"{phase.value}_ms": part for phase, part in parts.items()},
            rows_in_s=max(0, handled - handled_then) / seconds,
            rows_out_s=max(0, rows_out - out_then) / seconds,
            state_windows=runner.state_windows,
            state_bytes=runner.state_bytes,
            quarantined=quarantined.get(job_id, 0),
        )
