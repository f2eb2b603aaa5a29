"""The driver of an snode's jobs: one thread has their host poll, another reconciles them with the catalog."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.context import Context
from headrace.errors import Error, FencedError, TransientError, UserCodeError
from headrace.jobs.hosts import Driving, JobActivity
from headrace.jobs.registry import kind_of
from headrace.model.jobs import DesiredState, JobDefinition, JobRecord, JobState, StopReason
from headrace.runtime.job_host import JobHost
from headrace.runtime.metrics import Histogram
from headrace.runtime.owner_rights import OwnerRights
from headrace.runtime.pauses import NO_PAUSE, Pause
from headrace.runtime.roles import MAX_RETRY_MS, Role, retry_pause, role
from headrace.runtime.stream_metrics import StreamSampler
from headrace.streams.failures import stop_job

logger = logging.getLogger(__name__)

# The pause after an error that is not of a single stream, for example because the catalog was away.
RETRY_S: Final = 1.0
# Retries of a job whose functions end their code host, or lose it, before it stays STOPPED.
MAX_CODE_RETRIES: Final = 3
# Commits of other processes wait at most this long while a stream runs a long micro-batch.
MAX_POLL_S: Final = 0.1
# Polls that find nothing take at most about a tenth of a core, unless the pause between them would be longer than this.
IDLE_PAUSE_FACTOR: Final = 9
MAX_IDLE_PAUSE_S: Final = 0.5


class Driver:
    """Runs the jobs of one snode in threads until it is stopped or fenced. Polling never waits for the catalog."""

    def __init__(
        self,
        context: Context,
        name: str,
        *,
        fills: bool,
        batches: Histogram,
        ended: Callable[[], None],
        observed: Callable[[Sequence[JobRecord]], None] = lambda _: None,
    ) -> None:
        """`ended` is called when polling has ended, for whatever reason; `failure` then has the exception that ended it.

        `observed` is called with the jobs as they are read from the catalog, before anything is done about them.
        """
        self._context = context
        self._name = name
        self._ended, self._observed = ended, observed
        self._stopping = threading.Event()
        self.host = JobHost(Driving(context, name, fills, batches.observe))
        self._sampler = StreamSampler(context)
        self._attempts: dict[str, int] = {}
        self._pauses: dict[str, Pause] = {}
        self._polled_at = time.monotonic()
        self._poll_pause_s = 0.0
        self._away_since: float | None = None
        self._threads = [
            threading.Thread(target=self._run_host, name="driver", daemon=True),
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
        return max(0.0, self.loop_age_s - self._poll_pause_s)

    def activity(self) -> dict[str, JobActivity]:
        """Return what is being done for each job that runs. Thread-safe."""
        return self.host.activity()

    def start(self) -> None:
        self._polled_at = time.monotonic()
        for thread in self._threads:
            thread.start()

    def stop(self, grace_s: float) -> bool:
        """Stop after the micro-batches in flight; return False if they took longer than `grace_s`."""
        deadline = time.monotonic() + grace_s
        self._stopping.set()
        self.host.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        return not self._threads[0].is_alive()

    def _run_host(self) -> None:
        """Poll until the driver stops, then close the host: a driver that was fenced leaves nothing either."""
        self._run(self._poll_host)
        self.host.close()

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

    def _poll_host(self) -> None:
        """Poll until the driver stops."""
        while not self._stopping.is_set():
            busy = self.host.poll(MAX_POLL_S)
            self._poll_pause_s = 0.0 if busy else idle_pause_s(self._context.settings.idle_poll_ms / 1000, self.host.poll_s)
            self._polled_at = time.monotonic()
            self.host.wait(self._poll_pause_s)

    def give(self, jobs: Mapping[str, str]) -> None:
        """Hand jobs over to other snodes, by id, once their micro-batches have ended. Replaces what was asked for before."""
        self._leaving = dict(jobs)

    def reconcile(self) -> None:
        """Run what the catalog asks for, and nothing else."""
        records = self._context.catalog.jobs.parts(self._name)
        leaving = dict(self._leaving)
        self.records = [record for record in records if record.definition.id not in leaving]
        self._observed(self.records)
        owners = OwnerRights(self._context.catalog)
        hosted = [record for record in self.records if self._take_action(record, owners)]
        self.host.reconcile(hosted)
        self._sampler.take(self.host, hosted)
        for record in self.records:
            if record.desired is DesiredState.DROPPED:
                self._try_forget(record)
        for job_id, snode in leaving.items():
            if job_id not in self.host.running and self._context.catalog.jobs.move(job_id, self._name, snode):
                self._context.catalog.events.record("job", job_id, "MOVED", f"from snode {self._name} to snode {snode}")

    def _take_action(self, record: JobRecord, owners: OwnerRights) -> bool:
        """Do what the role of a job requires, and return whether its host should run it. A job that cannot run is STOPPED."""
        now = self._context.clock.now()
        try:
            match role(record, retry_at=self._pauses.get(record.definition.id, NO_PAUSE).end_at(now), now=now):
                case Role.HOST:
                    self._reset_retries(record, now)
                    owners.check(record.definition)
                    return self.host.prepare(record)
                case Role.RETRY:
                    self._retry(record, now)
        except FencedError:
            raise
        except TransientError as error:
            logger.warning("%s %s: %s", record.definition.kind, record.definition.name, error.message)
        except Exception as error:
            stop_job(self._context, record.definition.id, error)
        return False

    def _reset_retries(self, record: JobRecord, now: int) -> None:
        if now > self._pauses.get(record.definition.id, NO_PAUSE).end_at(now) + MAX_RETRY_MS:
            self._attempts.pop(record.definition.id, None)

    def _retry(self, record: JobRecord, now: int) -> None:
        job_id = record.definition.id
        attempt = self._attempts[job_id] = self._attempts.get(job_id, 0) + 1
        reason = record.reason
        # Plugins of pipes have retries of their own.
        is_of_function = record.definition.pipe is None and reason is not None and reason.code == UserCodeError.code
        if attempt > MAX_CODE_RETRIES and is_of_function and reason is not None:
            self._give_up(record.definition, reason)
            return
        self._pauses[job_id] = Pause(now, now + retry_pause(attempt))
        self._context.catalog.jobs.set_state(job_id, record.resumed_state, epoch=self._context.epoch or None)
        self._context.catalog.events.record("job", job_id, "RETRIED", f"attempt {attempt}")

    def _give_up(self, definition: JobDefinition, reason: StopReason) -> None:
        """Leave a job STOPPED whose functions have failed in every try."""
        resume = kind_of(definition).resume_statement
        hint = f"correct the function; CREATE OR REPLACE FUNCTION, then {resume}"
        message = f"{reason.message}, and so did {MAX_CODE_RETRIES} retries"
        final = replace(reason, message=message, hint=hint, transient=False)
        self._attempts.pop(definition.id, None)
        self._context.catalog.jobs.set_state(definition.id, JobState.STOPPED, final, epoch=self._context.epoch or None)
        self._context.catalog.events.record("job", definition.id, "STOPPED", str(final))

    def _try_forget(self, record: JobRecord) -> None:
        """Remove a job that was dropped, once its host has let it go."""
        definition = record.definition
        try:
            if definition.id not in self.host.running:
                kind_of(definition).drop()(self._context, definition)
        except Exception as error:
            logger.warning("postponing the removal of %s %s: %s", definition.kind, definition.name, error)


def idle_pause_s(least_s: float, poll_s: float) -> float:
    """Return the pause after a poll that found nothing: the longer, the more sources were asked.

    `least_s` is the pause of the settings, `poll_s` how long the poll took.
    """
    return max(least_s, min(IDLE_PAUSE_FACTOR * poll_s, MAX_IDLE_PAUSE_S))
