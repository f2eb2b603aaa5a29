"""The streams of an snode: what the catalog asks for becomes what the pollers run, round after round, in one thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from headrace.errors import Error, FencedError, TransientError
from headrace.history import backfill
from headrace.model.jobs import JobRecord, JobState
from headrace.runtime.context import Context
from headrace.runtime.histories import Histories
from headrace.runtime.metrics import Histogram
from headrace.runtime.reasons import stop_stream
from headrace.runtime.reconcile import MAX_RETRY_MS, Role, retry_pause, role
from headrace.streams.lifecycle import forget
from headrace.streams.sources.poller import JobActivity, SourcePollers

logger = logging.getLogger(__name__)

# A round that failed as a whole (the catalog away, say) is tried again after this pause.
PAUSE_AFTER_FAILURE_S: Final = 1.0
# While one stream is at a long batch, what has come for the others waits no longer than this.
LONGEST_WAIT_S: Final = 0.1


class Driver:
    """Runs the streams of one snode in a thread until it is stopped or fenced."""

    def __init__(self, context: Context, name: str, *, fills: bool, batches: Histogram, ended: Callable[[], None]) -> None:
        """`ended` is called when the thread has ended, for whatever reason; `failure` then has the exception that ended it."""
        self._context = context
        self._name = name
        self._fills = fills
        self._ended = ended
        self._stopping = threading.Event()
        self._pollers = SourcePollers(context, batches.observe)
        self._histories = Histories(context)
        self._attempts: dict[str, int] = {}
        self._retry_at: dict[str, int] = {}
        self._turned = time.monotonic()
        self._away_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="driver", daemon=True)
        self.failure: BaseException | None = None
        self.records: list[JobRecord] = []

    @property
    def loop_age_s(self) -> float:
        """Seconds since the sources were last polled. A micro-batch that hangs does not show here, but in `activity`."""
        return time.monotonic() - self._turned

    def activity(self) -> dict[str, JobActivity]:
        """Return what is being done for each stream that runs. May be called from any thread."""
        return self._pollers.activity()

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace_s: float) -> bool:
        """End after the batches under way; False when they took longer than the grace."""
        self._stopping.set()
        self._histories.stop()
        if self._thread.is_alive():
            self._thread.join(grace_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._round()
            self._pollers.close()
        except BaseException as error:
            self.failure = error
            logger.exception("the driver of snode %s ended", self._name)
        finally:
            self._ended()

    @property
    def catalog_away_s(self) -> float:
        """Seconds since the catalog could not be read; 0 while it can."""
        return 0.0 if self._away_since is None else time.monotonic() - self._away_since

    def _round(self) -> None:
        """Look at the catalog once, then poll the sources until the next look is due."""
        try:
            self._reconcile_if_reachable()
            self._poll_until(time.monotonic() + self._context.settings.heartbeat_ms / 1000)
        except FencedError:
            raise
        except Error as error:
            logger.warning("a round failed and is tried again: %s", error)
            self._stopping.wait(PAUSE_AFTER_FAILURE_S)
        except Exception:  # one fault nobody foresaw must not end the streams of a whole snode: it is logged and tried again
            logger.exception("a round failed in a way nobody foresaw, and is tried again")
            self._stopping.wait(PAUSE_AFTER_FAILURE_S)

    def _reconcile_if_reachable(self) -> None:
        """Reconcile, or leave the streams as they are while the catalog is away: their commits need only the targets."""
        try:
            self.reconcile()
        except TransientError as error:
            if self._away_since is None:
                logger.warning("reconciling failed, going on with the streams as they are: %s", error.message)
            self._away_since = self._away_since or time.monotonic()
        else:
            if self._away_since is not None:
                logger.info("reconciling again after %.0f s", self.catalog_away_s)
            self._away_since = None

    def _poll_until(self, deadline: float) -> None:
        while not self._stopping.is_set() and time.monotonic() < deadline:
            busy = self._pollers.poll(LONGEST_WAIT_S)
            self._turned = time.monotonic()
            if not busy:
                self._stopping.wait(self._context.settings.poll_ms / 1000)

    def reconcile(self) -> None:
        """Bring what runs in line with what the catalog asks for."""
        self.records = self._context.catalog.jobs.all(self._name)
        placed = [(record, self._placed(record)) for record in self.records]
        self._pollers.reconcile([record for record, role_ in placed if role_ is Role.POLL])
        for record, role_ in placed:
            if role_ is Role.FORGET and record.definition.id not in self._pollers.streams:
                self._guarded(record, lambda record=record: self._forget(record))  # type: ignore[misc]

    def _placed(self, record: JobRecord) -> Role:
        """The stream's role, once what it asks for has been set going."""
        chosen = Role.WAIT
        try:
            chosen = self._role(record)
            self._act(record, chosen)
        except FencedError:
            raise
        except TransientError as error:
            logger.warning("stream %s: %s", record.definition.name, error.message)
            return Role.POLL if chosen is Role.POLL else Role.WAIT
        except Exception as error:
            stop_stream(self._context, record.definition.id, error)
            return Role.WAIT
        return chosen

    def _role(self, record: JobRecord) -> Role:
        job_id = record.definition.id
        return role(
            record,
            filled=not record.is_live and backfill.is_filled(self._context, job_id),
            fills=self._fills,
            retry_at=self._retry_at.get(job_id, 0),
            now=self._context.clock.now(),
        )

    def _act(self, record: JobRecord, chosen: Role) -> None:
        match chosen:
            case Role.POLL:
                self._settle_state(record)
            case Role.FILL:
                self._histories.fill(record)
            case Role.GO_LIVE:
                self._histories.go_live(record)
            case Role.RETRY:
                self._retry(record)

    def _settle_state(self, record: JobRecord) -> None:
        """A stream whose driver died before it could say RUNNING is so; one that has run well for long has its retries back."""
        if record.state is JobState.FILLING and record.is_live:
            self._set_state(record, JobState.RUNNING)
        if self._context.clock.now() > self._retry_at.get(record.definition.id, 0) + MAX_RETRY_MS:
            self._attempts.pop(record.definition.id, None)

    def _retry(self, record: JobRecord) -> None:
        job_id = record.definition.id
        attempt = self._attempts[job_id] = self._attempts.get(job_id, 0) + 1
        self._retry_at[job_id] = self._context.clock.now() + retry_pause(attempt)
        self._set_state(record, record.resumed_state)
        self._context.catalog.events.record("job", job_id, "RETRIED", f"attempt {attempt}")

    def _forget(self, record: JobRecord) -> None:
        forget(self._context, record.definition.id)
        self._context.catalog.jobs.drop(record.definition.id)

    def _guarded(self, record: JobRecord, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            logger.warning("stream %s could not be forgotten yet: %s", record.definition.name, error)

    def _set_state(self, record: JobRecord, state: JobState) -> None:
        self._context.catalog.jobs.set_state(record.definition.id, state, epoch=self._context.epoch or None)
