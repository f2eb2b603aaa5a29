"""Executing continuous queries when they are due: at once for a connection, by timers in an snode."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from headrace.errors import Error, FencedError, NotFoundError
from headrace.model.continuous_queries import ExecutionState
from headrace.model.jobs import DesiredState, JobKind, JobRecord, JobState
from headrace.queries import executions
from headrace.runtime.context import Context
from headrace.runtime.reasons import stop_stream
from headrace.settings import Settings

logger = logging.getLogger(__name__)

MAX_RETRY_PAUSE_MS: Final = 20_000
MAX_WAIT_S: Final = 1.0
"""The timers look at the clock at least this often, since it may be set."""


def is_resident(record: JobRecord, settings: Settings) -> bool:
    """Return whether an snode executes a continuous query by its own timer, since it is due too often for Airflow."""
    return record.definition.schedule.every < settings.cq_resident_every_ms


def is_active(record: JobRecord) -> bool:
    """Return whether a continuous query is to be executed."""
    definition = record.definition
    is_query = definition.kind is JobKind.CONTINUOUS_QUERY
    return is_query and record.desired is DesiredState.RUNNING and record.state is JobState.RUNNING


def retry_pause_ms(every: int, attempt: int) -> int:
    """Return how long to wait after a failed attempt: as IoTDB at least EVERY or 20 s, doubling with each attempt."""
    return min(MAX_RETRY_PAUSE_MS, every) << min(attempt - 1, 8)


def execute_due(context: Context, records: Sequence[JobRecord], holder: str) -> int:
    """Execute all that is due now, in the order of their instants, and return how many succeeded.

    A query that fails is tried again at once; after the last attempt it is STOPPED, and the others continue.
    """
    queries = {record.definition.id: record for record in records if is_active(record)}
    due = heapq.merge(*(_due_instants(context, record) for record in queries.values()))
    count = 0
    for instant, _, job_id in due:
        if job_id in queries:
            if _execute_or_stop(context, queries[job_id], instant, holder):
                count += 1
            else:
                del queries[job_id]
    return count


def _due_instants(context: Context, record: JobRecord) -> Iterator[tuple[int, str, str]]:
    for instant in executions.due(context, record.definition):
        yield instant, record.definition.name, record.definition.id


def _execute_or_stop(context: Context, record: JobRecord, instant: int, holder: str) -> bool:
    """Execute one instant; return False if the query is STOPPED or gone."""
    while True:
        try:
            executions.execute(context, record.definition, instant, holder)
            return True
        except NotFoundError:
            return False
        except Error as error:
            if not may_try_again(context, record, instant, error):
                return False


def may_try_again(context: Context, record: JobRecord, instant: int, error: Error) -> bool:
    """Return whether to try a failed execution again. After the last attempt, the query is marked STOPPED."""
    execution = context.catalog.executions.get(record.definition.id, instant)
    if execution is not None and execution.state is ExecutionState.RUNNING:
        logger.info("leaving continuous query %s: %s", record.definition.name, error.message)
        return False
    if execution is not None and execution.attempt < context.settings.cq_attempts:
        return True
    stop_stream(context, record.definition.id, error)
    return False


class QueryTimers:
    """Executes the continuous queries of an snode when they are due, each query one execution at a time."""

    def __init__(self, context: Context, holder: str, is_own: Callable[[JobRecord], bool]) -> None:
        """Prepare the timers of the queries for which `is_own` holds."""
        self._context = context
        self._holder = holder
        self._is_own = is_own
        self._queries: dict[str, JobRecord] = {}
        self._in_flight: dict[str, Future[None]] = {}
        self._last: dict[str, int | None] = {}
        self._retry_at: dict[str, int] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._pool = ThreadPoolExecutor(context.settings.cq_threads, thread_name_prefix="cq")
        self._thread = threading.Thread(target=self._run, name="cq-timers", daemon=True)

    def start(self) -> None:
        """Start the timers."""
        self._thread.start()

    def stop(self, grace_s: float) -> None:
        """Start nothing more, and wait for the executions in flight."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._pool.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + grace_s
        for future in list(self._in_flight.values()):
            if not future.cancelled():
                future.exception(max(0.0, deadline - time.monotonic()))

    def reconcile(self, records: Sequence[JobRecord]) -> None:
        """Take on the queries that are to be executed, and leave the others."""
        queries = {record.definition.id: record for record in records if is_active(record) and self._is_own(record)}
        with self._changed:
            for job_id in self._queries.keys() - queries.keys():
                self._last.pop(job_id, None)
                self._retry_at.pop(job_id, None)
            is_new = bool(queries.keys() - self._queries.keys())
            self._queries = queries
            if is_new:
                self._changed.notify_all()

    def _run(self) -> None:
        while not self._stopping:
            try:
                wait_s = self._start_due()
            except Error as error:
                logger.warning("reading the ledger of continuous queries again: %s", error.message)
                wait_s = MAX_WAIT_S
            with self._changed:
                if not self._stopping:
                    self._changed.wait(wait_s)

    def _start_due(self) -> float:
        """Start what is due, and return the seconds until something else is."""
        now, next_at = self._context.clock.now(), None
        for job_id, record in list(self._queries.items()):
            if job_id in self._in_flight:
                continue
            instant = self._next_instant(record)
            if instant > now:
                next_at = instant if next_at is None else min(next_at, instant)
            else:
                self._in_flight[job_id] = self._pool.submit(self._execute_all, record)
        return MAX_WAIT_S if next_at is None else min(MAX_WAIT_S, max(0, next_at - self._context.clock.now()) / 1000)

    def _next_instant(self, record: JobRecord) -> int:
        """Return when a query is due next: after the last execution, or when a failed one may be tried again."""
        job_id, schedule = record.definition.id, record.definition.schedule
        if job_id in self._retry_at:
            return self._retry_at[job_id]
        if job_id not in self._last:
            if self._context.catalog.executions.unfinished(job_id):
                return self._context.clock.now()
            self._last[job_id] = self._context.catalog.executions.last(job_id, schedule.first)
        return schedule.next_after(self._last[job_id])

    def _execute_all(self, record: JobRecord) -> None:
        """Execute what is due of one query, in order."""
        job_id = record.definition.id
        try:
            self._retry_at.pop(job_id, None)
            for instant in executions.due(self._context, record.definition):
                if self._stopping or job_id not in self._queries or not self._try(record, instant):
                    break
                self._last[job_id] = max(instant, self._last.get(job_id) or instant)
        except Exception:
            logger.exception("executing continuous query %s", record.definition.name)
            self._retry_at[job_id] = self._context.clock.now() + retry_pause_ms(record.definition.schedule.every, 1)
        finally:
            with self._changed:
                self._in_flight.pop(job_id, None)
                self._changed.notify_all()

    def _try(self, record: JobRecord, instant: int) -> bool:
        """Execute one instant; return False if it failed, and will be tried again or has stopped the query."""
        definition = record.definition
        try:
            executions.execute(self._context, definition, instant, self._holder)
        except (FencedError, NotFoundError) as error:
            logger.info("leaving continuous query %s: %s", definition.name, error.message)
            return False
        except Error as error:
            may_try_again(self._context, record, instant, error)
            execution = self._context.catalog.executions.get(definition.id, instant)
            pause = retry_pause_ms(definition.schedule.every, 1 if execution is None else execution.attempt)
            self._retry_at[definition.id] = self._context.clock.now() + pause
            return False
        return True
