"""Backfills that an snode runs itself, one stream at a time, while live streams continue."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from headrace.errors import Error, FencedError, TransientError
from headrace.history import backfill
from headrace.jobs.hosts import Driving
from headrace.model.job_parts import part_number
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.runtime.roles import Role, polled_role
from headrace.streams.failures import stop_job

logger = logging.getLogger(__name__)

MAX_WAIT_MS: Final = 1_000
"""How long a backfill waits for a chunk that another process computes, before those of other streams have their turn."""


class BackfillQueue:
    """A queue of streams to backfill or to take live; each stream is queued at most once. Long histories may be left to Airflow."""

    def __init__(self, driving: Driving) -> None:
        self._context = driving.context
        self._fills = driving.runs_all
        self._resident: dict[str, bool] = {}
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="history")

    def prepare(self, record: JobRecord) -> bool:
        """Start what the history of a job requires, and return whether the job should run."""
        match self._decide_role(record):
            case Role.POLL:
                return True
            case Role.FILL:
                self.fill(record)
            case Role.GO_LIVE:
                self.go_live(record)
        return False

    def _decide_role(self, record: JobRecord) -> Role:
        filled = not record.is_live and backfill.is_filled(self._context, record.definition.id)
        is_first = part_number(record.definition.id) == 0
        return polled_role(record, filled=filled, fills=is_first and (self._fills or self._fills_at_once(record)))

    def _fills_at_once(self, record: JobRecord) -> bool:
        """Return whether this snode fills the history of a job although Airflow fills others: decided once, by its size."""
        if record.is_live or record.state is not JobState.FILLING:
            return False
        job_id = record.definition.id
        if job_id not in self._resident:
            self._resident[job_id] = backfill.has_small_source(self._context, record)
        return self._resident[job_id]

    def fill(self, record: JobRecord) -> None:
        """Backfill a stream, then take it live. If that ends early, the next reconciliation queues it again."""
        job_id = record.definition.id

        def fill() -> None:
            backfill.fill_history(self._context, job_id, stopped=lambda: self._should_stop(job_id), wait_ms=MAX_WAIT_MS)

        self._submit(job_id, fill)

    def go_live(self, record: JobRecord) -> None:
        """Rebuild a stream's state as of its boundary and record its position there."""
        job_id = record.definition.id
        self._submit(job_id, lambda: backfill.go_live(self._context, job_id))

    def stop(self) -> None:
        """Start no further work. A chunk in progress is abandoned when the process ends, together with its claim."""
        self._stopping.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _should_stop(self, job_id: str) -> bool:
        """Return True if the backfill should end after this chunk: the snode stops, or the stream was paused or dropped."""
        if self._stopping.is_set():
            return True
        return self._context.catalog.jobs.by_id(job_id).desired is not DesiredState.RUNNING

    def _submit(self, job_id: str, work: Callable[[], object]) -> None:
        with self._lock:
            if job_id in self._busy or self._stopping.is_set():
                return
            self._busy.add(job_id)
        self._pool.submit(self._run, job_id, work)

    def _run(self, job_id: str, work: Callable[[], object]) -> None:
        try:
            self._run_or_stop_stream(job_id, work)
        except Error as error:
            logger.warning("abandoning the backfill of stream %s: %s", job_id, error.message)
        finally:
            with self._lock:
                self._busy.discard(job_id)

    def _run_or_stop_stream(self, job_id: str, work: Callable[[], object]) -> None:
        try:
            work()
        except FencedError:
            raise
        except Exception as error:
            if type(error) is TransientError:  # another process has a lock
                raise
            if not self._stopping.is_set():
                stop_job(self._context, job_id, error)
