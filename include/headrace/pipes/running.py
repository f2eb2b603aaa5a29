"""What the pipes of a driver share: the feeds that they read, and sinks whose receivers do not answer."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from headrace.errors import Error
from headrace.jobs.hosts import Driving, HostedJob, Source
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.model.positions import SourceId
from headrace.pipes.feeds import Feeds
from headrace.pipes.runner import PipeRunner
from headrace.pipes.shared import Shared
from headrace.streams.failures import reason_of

logger = logging.getLogger(__name__)

MAX_PIPES_PER_SINK: Final = 2
"""Pipes of a shared sink that run at the same time: one delivers, another one reads. So a receiver that hangs takes two threads."""
BEAT_CHECK_S: Final = 5.0
BEAT_THREADS: Final = 4
SINK_DOWN: Final = "SINK_DOWN"


class PipeSources(Source):
    """The only source of pipes: the feeds of all trees and tables. Pipes with equal sinks share one."""

    name = "pipe"
    close_grace_s = 5.0
    needs_runners = True

    def __init__(self, driving: Driving) -> None:
        self._context = driving.context
        self.threads = driving.context.settings.pipe_threads
        self.reader: Shared = Shared(Feeds(driving.context), leaves_history=not driving.runs_all)
        self._beats = ThreadPoolExecutor(BEAT_THREADS, thread_name_prefix="beat")
        self._beaten_at = time.monotonic()
        self._recorded: dict[str, Error | None] = {}

    def source(self, record: JobRecord) -> Source:  # noqa: ARG002
        return self

    def refresh(self, records: Sequence[JobRecord], runnable: Sequence[JobRecord]) -> None:
        if runnable:
            self.reader.feeds.refresh()
        self.reader.forget_rejections({record.definition.id for record in records if record.desired is DesiredState.RUNNING})
        for id in self._recorded.keys() - {record.definition.id for record in runnable}:
            self._recorded.pop(id)

    def read(self, jobs: Collection[HostedJob], handled: Any) -> Any:  # noqa: ARG002
        """Read the versions of all tables. Runners know what is new for them, which need not be a commit."""
        try:
            self.reader.feeds.poll()
        except Exception:  # a bug that affects one table must not end all pipes
            logger.exception("cannot read the versions of all tables; trying again")
        if time.monotonic() - self._beaten_at >= BEAT_CHECK_S:
            self._beaten_at = time.monotonic()
            self._beats.submit(self._beat, {job.id for job in jobs})
        return object()

    def follows(self, table: SourceId) -> bool:
        return table in self.reader.feeds.versions

    def batches(self, due: Sequence[HostedJob], busy: Sequence[HostedJob]) -> Sequence[Sequence[HostedJob]]:
        """Return one batch for each pipe, but of those that share a sink only a few."""
        users, starting = Counter(sink_of(job) for job in busy), []
        for job in due:
            if job.runner is None or users[sink_of(job)] < MAX_PIPES_PER_SINK:
                users[sink_of(job)] += 1
                starting.append([job])
        return starting

    def pending_since(self, job: HostedJob) -> int | None:
        return None if job.runner is None else job.runner.progress.pending_since

    def stopped_with(self, job: HostedJob, error: Error) -> Collection[str]:
        """Return the other pipes of a sink that is down."""
        if not isinstance(job.runner, PipeRunner) or job.runner.sink_failure is None:
            return ()
        others = self.reader.sinks.users(job.runner.sink.key) - {job.id}
        for id in others:
            self._context.catalog.events.record("job", id, SINK_DOWN, error.message)
        return others

    def _beat(self, running: Collection[str]) -> None:
        """Have receivers checked, and record which do not answer as the reason of their pipes, which continue."""
        for id, failure in self.reader.sinks.beat().items():
            if id in running and failure is not self._recorded.get(id):
                try:
                    self._record_receiver(id, failure)
                except Error as error:
                    logger.warning("not recording the state of a receiver: %s", error.message)

    def _record_receiver(self, id: str, failure: Error | None) -> None:
        record = self._context.catalog.jobs.by_id(id)
        reason = None if failure is None else reason_of(failure, self._context.clock.now(), record.definition.kind)
        if record.state is JobState.RUNNING and record.desired is DesiredState.RUNNING:
            self._context.catalog.jobs.replace_state(record, JobState.RUNNING, reason)
            self._recorded[id] = failure


def sink_of(job: HostedJob) -> int:
    """Return what identifies the sink of a pipe; 0 before it is known."""
    return id(job.runner.sink) if isinstance(job.runner, PipeRunner) else 0
