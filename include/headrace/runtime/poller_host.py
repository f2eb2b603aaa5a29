"""The host of jobs that read the changes of tables: the source pollers of a driver, and the backfills before them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from headrace.errors import TransientError
from headrace.history import backfill
from headrace.jobs.hosts import Driving, JobActivity
from headrace.model.jobs import JobRecord, JobState
from headrace.runtime.backfill_queue import BackfillQueue
from headrace.runtime.roles import Role, polled_role
from headrace.runtime.stream_metrics import StreamSampler
from headrace.streams.sources.poller import SourcePollers

logger = logging.getLogger(__name__)


class PollerHost:
    """Runs jobs by source pollers once their history is complete, which it fills itself if that is short."""

    def __init__(self, driving: Driving) -> None:
        self._context = driving.context
        self._fills = driving.runs_all
        self._backfills = BackfillQueue(self._context)
        self._sampler = StreamSampler(self._context)
        self._resident: dict[str, bool] = {}
        self.pollers = SourcePollers(self._context, driving.observe)

    @property
    def running(self) -> Collection[str]:
        return self.pollers.streams

    def start(self) -> None:
        """Do nothing: the driver polls."""

    def prepare(self, record: JobRecord) -> bool:
        """Start what the history of a job requires, and return whether the pollers should run the job."""
        match self._decide_role(record):
            case Role.POLL:
                self._settle_state(record)
                return True
            case Role.FILL:
                self._backfills.fill(record)
            case Role.GO_LIVE:
                self._backfills.go_live(record)
        return False

    def reconcile(self, records: Sequence[JobRecord]) -> None:
        """Run these jobs and no others, and record a sample of each if it is time to."""
        self.pollers.reconcile(records)
        self._sampler.take(self.pollers, records)

    def poll(self, timeout_s: float) -> bool:
        return self.pollers.poll(timeout_s)

    def activity(self) -> Mapping[str, JobActivity]:
        """Return what is being done for each job. Thread-safe."""
        return self.pollers.activity()

    def stop(self, grace_s: float) -> None:  # noqa: ARG002
        """Start no further backfill. Micro-batches in flight end before `close`."""
        self._backfills.stop()

    def close(self) -> None:
        self.pollers.close()

    def _decide_role(self, record: JobRecord) -> Role:
        filled = not record.is_live and backfill.is_filled(self._context, record.definition.id)
        return polled_role(record, filled=filled, fills=self._fills or self._fills_at_once(record))

    def _fills_at_once(self, record: JobRecord) -> bool:
        """Return whether this snode fills the history of a job although Airflow fills others: decided once, by its size."""
        if record.is_live or record.state is not JobState.FILLING:
            return False
        job_id = record.definition.id
        if job_id not in self._resident:
            self._resident[job_id] = backfill.has_small_source(self._context, record)
        return self._resident[job_id]

    def _settle_state(self, record: JobRecord) -> None:
        """Record RUNNING if a driver died before it could. Without the catalog, the job keeps running."""
        if record.state is JobState.FILLING and record.is_live:
            try:
                self._context.catalog.jobs.set_state(record.definition.id, JobState.RUNNING, epoch=self._context.epoch or None)
            except TransientError as error:
                logger.warning("%s %s: %s", record.definition.kind, record.definition.name, error.message)
