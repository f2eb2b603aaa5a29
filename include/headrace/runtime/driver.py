"""The driver of an snode's streams: one thread polls their sources, another reconciles them with the catalog."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from headrace.errors import Error, FencedError, TransientError
from headrace.history import backfill
from headrace.model.jobs import JobKind, JobRecord, JobState
from headrace.runtime.backfill_queue import BackfillQueue
from headrace.runtime.context import Context
from headrace.runtime.continuous_queries import QueryTimers
from headrace.runtime.metrics import Histogram
from headrace.runtime.pauses import NO_PAUSE, Pause
from headrace.runtime.reasons import stop_job
from headrace.runtime.roles import MAX_RETRY_MS, Role, is_resident, retry_pause, role
from headrace.runtime.stream_metrics import StreamSampler
from headrace.streams.lifecycle import drop
from headrace.streams.sources.poller import SourcePollers
from headrace.streams.sources.subscriptions import JobActivity

logger = logging.getLogger(__name__)

# The pause after an error that is not of a single stream, for example because the catalog was away.
RETRY_S: Final = 1.0
# New commits wait at most this long while another stream runs a long micro-batch.
MAX_POLL_S: Final = 0.1
# Polls that find nothing take at most about a tenth of a core, unless the pause between them would be longer than this.
IDLE_PAUSE_FACTOR: Final = 9
MAX_IDLE_PAUSE_S: Final = 0.5


class Driver:
    """Runs the streams of one snode in threads until it is stopped or fenced. Polling never waits for the catalog."""

    def __init__(self, context: Context, name: str, *, fills: bool, batches: Histogram, ended: Callable[[], None]) -> None:
        """`ended` is called when polling has ended, for whatever reason; `failure` then has the exception that ended it."""
        self._context = context
        self._name = name
        self._fills = fills
        self._ended = ended
        self._stopping = threading.Event()
        self._pollers = SourcePollers(context, batches.observe)
        self._sampler = StreamSampler(context)
        self._backfills = BackfillQueue(context)
        self._timers = QueryTimers(context, f"snode {name}", self._is_own_query)
        self._attempts: dict[str, int] = {}
        self._pauses: dict[str, Pause] = {}
        self._resident: dict[str, bool] = {}
        self._polled_at = time.monotonic()
        self._poll_pause_s = 0.0
        self._away_since: float | None = None
        self._threads = [
            threading.Thread(target=self._run_pollers, name="driver", daemon=True),
            threading.Thread(target=self._run, args=[self._reconcile_regularly], name="reconcile", daemon=True),
        ]
        self._leaving: dict[str, str] = {}
        self.failure: BaseException | None = None
        self.records: list[JobRecord] = []

    @property
    def loop_age_s(self) -> float:
        """Seconds since the sources were last polled. A micro-batch that hangs shows in `activity` instead."""
        return time.monotonic() - self._polled_at

    @property
    def overdue_s(self) -> float:
        """Seconds by which the next poll is late."""
        return max(0.0, self.loop_age_s - self._poll_pause_s)

    def activity(self) -> dict[str, JobActivity]:
        """Return what is being done for each stream that runs. Thread-safe."""
        return self._pollers.activity()

    def start(self) -> None:
        """Start the threads."""
        self._polled_at = time.monotonic()
        for thread in self._threads:
            thread.start()
        self._timers.start()

    def stop(self, grace_s: float) -> bool:
        """Stop after the micro-batches in flight; return False if they took longer than `grace_s`."""
        deadline = time.monotonic() + grace_s
        self._stopping.set()
        self._backfills.stop()
        self._timers.stop(grace_s)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        return not self._threads[0].is_alive()

    def _run_pollers(self) -> None:
        """Poll until the driver stops, then close the pollers: a driver that was fenced leaves nothing either."""
        self._run(self._poll_sources)
        self._pollers.close()

    def _run(self, work: Callable[[], None]) -> None:
        """Repeat work until the driver stops. A failure that is not of a single stream also ends the other thread."""
        try:
            while not self._stopping.is_set():
                self._try(work)
        except BaseException as error:
            self.failure = self.failure or error
            logger.exception("the driver of snode %s ended", self._name)
        self._stopping.set()
        self._ended()

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except FencedError:
            raise
        except Error as error:
            logger.warning("retrying after an error: %s", error)
            self._stopping.wait(RETRY_S)
        except Exception:  # a bug that affects one stream must not end all streams of the snode
            logger.exception("retrying after an unexpected error")
            self._stopping.wait(RETRY_S)

    @property
    def catalog_away_s(self) -> float:
        """Seconds since the catalog could last be read; 0 while it can."""
        return 0.0 if self._away_since is None else time.monotonic() - self._away_since

    def _reconcile_regularly(self) -> None:
        """Reconcile with the catalog once, and wait until the next heartbeat is due."""
        self._reconcile_if_reachable()
        self._sampler.take(self._pollers, self.records)
        self._stopping.wait(self._context.settings.heartbeat_ms / 1000)

    def _reconcile_if_reachable(self) -> None:
        """Reconcile, or leave the streams running while the catalog is away: their commits need only the targets."""
        try:
            self.reconcile()
        except TransientError as error:
            if self._away_since is None:
                logger.warning("continuing without the catalog, with the present streams: %s", error.message)
            self._away_since = self._away_since or time.monotonic()
        else:
            if self._away_since is not None:
                logger.info("reconciling with the catalog again after %.0f s", self.catalog_away_s)
            self._away_since = None

    def _poll_sources(self) -> None:
        """Poll until the driver stops."""
        while not self._stopping.is_set():
            began = time.monotonic()
            busy = self._pollers.poll(MAX_POLL_S)
            now, least = time.monotonic(), self._context.settings.idle_poll_ms / 1000
            self._poll_pause_s = 0.0 if busy else idle_pause_s(least, now - began)
            self._polled_at = now
            self._stopping.wait(self._poll_pause_s)

    def give(self, jobs: Mapping[str, str]) -> None:
        """Hand jobs over to other snodes, by id, once their micro-batches have ended. Replaces what was asked for before."""
        self._leaving = dict(jobs)

    def reconcile(self) -> None:
        """Run what the catalog asks for, and nothing else."""
        records = self._context.catalog.jobs.all(self._name)
        leaving = dict(self._leaving)
        self.records = [record for record in records if record.definition.id not in leaving]
        roles = [(record, self._take_action(record)) for record in self.records]
        self._pollers.reconcile([record for record, role_ in roles if role_ is Role.POLL])
        self._timers.reconcile([record for record, role_ in roles if role_ is Role.EXECUTE])
        for record, role_ in roles:
            if role_ is Role.FORGET and record.definition.id not in self._pollers.streams:
                self._try_forget(record)
        for job_id, snode in leaving.items():
            if job_id not in self._pollers.streams and self._context.catalog.jobs.move(job_id, self._name, snode):
                self._context.catalog.events.record("job", job_id, "MOVED", f"from snode {self._name} to snode {snode}")

    def _is_own_query(self, record: JobRecord) -> bool:
        """Return whether this snode executes a continuous query, rather than Airflow."""
        return self._fills or is_resident(record, self._context.settings)

    def _take_action(self, record: JobRecord) -> Role:
        """Start what the stream's role requires, and return the role."""
        stream_role = Role.WAIT
        try:
            stream_role = self._decide_role(record)
            self._act(record, stream_role)
        except FencedError:
            raise
        except TransientError as error:
            logger.warning("stream %s: %s", record.definition.name, error.message)
            return Role.POLL if stream_role is Role.POLL else Role.WAIT
        except Exception as error:
            stop_job(self._context, record.definition.id, error)
            return Role.WAIT
        return stream_role

    def _decide_role(self, record: JobRecord) -> Role:
        job_id, is_stream = record.definition.id, record.definition.kind is JobKind.STREAM
        now = self._context.clock.now()
        return role(
            record,
            filled=is_stream and not record.is_live and backfill.is_filled(self._context, job_id),
            fills=self._fills or (is_stream and self._fills_at_once(record)),
            retry_at=self._pauses.get(job_id, NO_PAUSE).end_at(now),
            now=now,
        )

    def _fills_at_once(self, record: JobRecord) -> bool:
        """Return whether this snode fills the history of a stream although Airflow fills others: decided once, by its size."""
        if record.is_live or record.state is not JobState.FILLING:
            return False
        job_id = record.definition.id
        if job_id not in self._resident:
            self._resident[job_id] = backfill.has_small_source(self._context, record)
        return self._resident[job_id]

    def _act(self, record: JobRecord, stream_role: Role) -> None:
        match stream_role:
            case Role.POLL:
                self._settle_state(record)
            case Role.FILL:
                self._backfills.fill(record)
            case Role.GO_LIVE:
                self._backfills.go_live(record)
            case Role.RETRY:
                self._retry(record)

    def _settle_state(self, record: JobRecord) -> None:
        """Record RUNNING if a driver died before it could, and reset the retries of a stream that has run well for long."""
        if record.state is JobState.FILLING and record.is_live:
            self._set_state(record, JobState.RUNNING)
        now = self._context.clock.now()
        if now > self._pauses.get(record.definition.id, NO_PAUSE).end_at(now) + MAX_RETRY_MS:
            self._attempts.pop(record.definition.id, None)

    def _retry(self, record: JobRecord) -> None:
        job_id = record.definition.id
        attempt = self._attempts[job_id] = self._attempts.get(job_id, 0) + 1
        now = self._context.clock.now()
        self._pauses[job_id] = Pause(now, now + retry_pause(attempt))
        self._set_state(record, record.resumed_state)
        self._context.catalog.events.record("job", job_id, "RETRIED", f"attempt {attempt}")

    def _forget(self, record: JobRecord) -> None:
        if record.definition.kind is JobKind.STREAM:
            drop(self._context, record.definition)
        else:
            self._context.catalog.jobs.drop(record.definition.id)

    def _try_forget(self, record: JobRecord) -> None:
        try:
            self._forget(record)
        except Exception as error:
            logger.warning("postponing the removal of stream %s: %s", record.definition.name, error)

    def _set_state(self, record: JobRecord, state: JobState) -> None:
        self._context.catalog.jobs.set_state(record.definition.id, state, epoch=self._context.epoch or None)


def idle_pause_s(least_s: float, poll_s: float) -> float:
    """Return the pause after a poll that found nothing: the longer, the more sources were asked.

    Args:
        least_s: The pause of the settings.
        poll_s: How long the poll took.
    """
    return max(least_s, min(IDLE_PAUSE_FACTOR * poll_s, MAX_IDLE_PAUSE_S))
