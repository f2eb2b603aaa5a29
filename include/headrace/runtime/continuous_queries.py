"""Executing continuous queries when they are due: at once for a connection, by timers in an snode."""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import combinations
from typing import Final

from headrace.context import Context
from headrace.errors import Error, FencedError, NotFoundError
from headrace.jobs.hosts import Driving, JobActivity
from headrace.model.clock import MAX_STEP_MS
from headrace.model.continuous_queries import Execution, ExecutionState
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.queries import executions
from headrace.queries.continuous_query import may_read
from headrace.queries.kind import CONTINUOUS_QUERY, is_resident
from headrace.runtime.pauses import Pause
from headrace.streams.failures import stop_job

logger = logging.getLogger(__name__)

MAX_RETRY_PAUSE_MS: Final = 20_000
MAX_WAIT_S: Final = 1.0
"""The timers look at the clock at least this often, since it may be set."""


def is_active(record: JobRecord) -> bool:
    """Return whether a continuous query is to be executed."""
    return record.desired is DesiredState.RUNNING and record.state is JobState.RUNNING


def retry_pause_ms(every: int, attempt: int) -> int:
    """Return how long to wait after a failed attempt: as IoTDB at least EVERY or 20 s, doubling with each attempt."""
    return min(MAX_RETRY_PAUSE_MS, every) << min(attempt - 1, 8)


def execute_due(context: Context, records: Sequence[JobRecord], holder: str) -> int:
    """Execute all that is due now, in the order of their instants, and return how many succeeded.

    A query that fails is tried again at once; after the last attempt it is STOPPED, and the others continue.
    """
    queries = {
        record.definition.id: record for record in records if record.definition.kind == CONTINUOUS_QUERY and is_active(record)
    }
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
    stop_job(context, record.definition.id, error)
    return False


Work = tuple[JobRecord, list[int]]
"""A continuous query, and the instants to execute at once."""


class QueryTimers:
    """Executes the continuous queries of an snode when they are due, each query one execution at a time.

    Queries that are due at the same time and do not read each other's results are executed together, with one commit for each
    database. One that has fallen behind catches up on several intervals at once if its query allows it.
    """

    def __init__(self, context: Context, holder: str, is_own: Callable[[JobRecord], bool]) -> None:
        """Prepare the timers of the queries for which `is_own` holds."""
        self._context = context
        self._holder = holder
        self._is_own = is_own
        self._queries: dict[str, JobRecord] = {}
        self._in_flight: dict[str, Future[None]] = {}
        self._linked: set[str] = set()
        self._last: dict[str, int | None] = {}
        self._pauses: dict[str, Pause] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._pool = ThreadPoolExecutor(context.settings.cq_threads, thread_name_prefix="cq")
        self._thread = threading.Thread(target=self._run, name="cq-timers", daemon=True)

    @property
    def running(self) -> Collection[str]:
        """No query keeps its snode from handing it over or dropping it: the ledger fences executions in flight."""
        return ()

    def start(self) -> None:
        self._thread.start()

    def prepare(self, record: JobRecord) -> bool:
        """Return whether to execute a query when it is due."""
        return is_active(record) and self._is_own(record)

    def poll(self, timeout_s: float) -> bool:  # noqa: ARG002
        """Return False: the timers have a thread of their own."""
        return False

    def activity(self) -> Mapping[str, JobActivity]:
        """Report nothing: the ledger shows what is being executed."""
        return {}

    def close(self) -> None:
        """Do nothing more than `stop`."""

    def stop(self, grace_s: float) -> None:
        """Start nothing more, and wait for the executions in flight."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            in_flight = list(self._in_flight.values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait(in_flight, grace_s)

    def reconcile(self, records: Sequence[JobRecord]) -> None:
        """Take on the queries that are to be executed, and leave the others."""
        queries = {record.definition.id: record for record in records if self.prepare(record)}
        with self._changed:
            for job_id in self._queries.keys() - queries.keys():
                self._last.pop(job_id, None)
                self._pauses.pop(job_id, None)
            is_same, self._queries = queries.keys() == self._queries.keys(), queries
            if not is_same:
                self._linked = linked_ids(list(queries.values()))
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
        due: list[JobRecord] = []
        for job_id, record in list(self._queries.items()):
            if job_id in self._in_flight:
                continue
            instant = self._next_instant(record)
            if instant <= now:
                due.append(record)
            else:
                next_at = instant if next_at is None else min(next_at, instant)
        for group in split_work(due, self._linked, self._context.settings.cq_threads):
            self._submit(group)
        return MAX_WAIT_S if next_at is None else min(MAX_WAIT_S, max(0, next_at - self._context.clock.now()) / 1000)

    def _submit(self, group: Sequence[Sequence[JobRecord]]) -> None:
        with self._changed:
            if self._stopping:
                return
            future = self._pool.submit(self._execute_waves, group)
            self._in_flight |= {record.definition.id: future for wave in group for record in wave}

    def _next_instant(self, record: JobRecord) -> int:
        """Return when a query is due next: after the last execution, or when a failed one may be tried again."""
        job_id, schedule, now = record.definition.id, record.definition.schedule, self._context.clock.now()
        if job_id in self._pauses:
            return self._pauses[job_id].end_at(now)
        if job_id not in self._last or (self._last[job_id] or 0) > now + MAX_STEP_MS:  # the clock was set back
            if self._context.catalog.executions.unfinished(job_id):
                return now
            self._last[job_id] = executions.last_execution(self._context, record.definition)
        return schedule.next_after(self._last[job_id])

    def _execute_waves(self, waves: Sequence[Sequence[JobRecord]]) -> None:
        for wave in waves:
            try:
                self._execute_wave(wave)
            except Exception:  # a bug that affects one query must not end the timers
                logger.exception("executing continuous queries %s", ", ".join(record.definition.name for record in wave))
                self._postpone(wave)
            finally:
                with self._changed:
                    for record in wave:
                        self._in_flight.pop(record.definition.id, None)
                    self._changed.notify_all()

    def _execute_wave(self, wave: Sequence[JobRecord]) -> None:
        active = [record for record in wave if record.definition.id in self._queries and not self._stopping]
        work = [(record, executions.due_together(self._context, record.definition)) for record in active]
        for record, instants in work:
            if not instants:
                self._recall(record)
        work = [(record, instants) for record, instants in work if instants]
        outcomes = executions.execute_together(
            self._context, [(record.definition, instants) for record, instants in work], self._holder
        )
        for (record, instants), error in zip(work, outcomes, strict=True):
            self._conclude(record, instants, error)

    def _recall(self, record: JobRecord) -> None:
        """Read how far a query has come of which nothing is due: what was due is done, or is being computed again elsewhere."""
        definition = record.definition
        self._pauses.pop(definition.id, None)
        self._last[definition.id] = executions.last_execution(self._context, definition)

    def _conclude(self, record: JobRecord, instants: Sequence[int], error: Error | None) -> None:
        """Remember how far a query has come, or when to try again; after the last attempt it is STOPPED."""
        job_id = record.definition.id
        self._pauses.pop(job_id, None)
        if error is None:
            last = self._last.get(job_id)
            self._last[job_id] = instants[-1] if last is None else max(instants[-1], last)
        elif isinstance(error, FencedError | NotFoundError):
            logger.info("leaving continuous query %s: %s", record.definition.name, error.message)
            self._postpone([record])
        else:
            may_try_again(self._context, record, instants[0], error)
            execution = self._context.catalog.executions.get(job_id, instants[0])
            self._postpone([record], execution)

    def _postpone(self, records: Sequence[JobRecord], failed: Execution | None = None) -> None:
        """Try queries again after a pause, which begins with the failure."""
        now = self._context.clock.now()
        for record in records:
            pause = retry_pause_ms(record.definition.schedule.every, 1 if failed is None else failed.attempt)
            start = failure_time(failed, now, pause)
            self._pauses[record.definition.id] = Pause(start, start + pause)


def timers_of(driving: Driving) -> QueryTimers:
    """Return the timers of a driver, which leaves queries that are due less often to Airflow."""
    settings = driving.context.settings

    def is_own(record: JobRecord) -> bool:
        return driving.runs_all or is_resident(record.definition, settings)

    return QueryTimers(driving.context, f"snode {driving.snode}", is_own)


def failure_time(failed: Execution | None, now: int, pause: int) -> int:
    """Return when an execution failed, as the ledger has it; now if the clock of the catalog's machine differs much."""
    finished = None if failed is None else failed.finished
    return finished if finished is not None and now - pause <= finished <= now else now


def split_work(due: Sequence[JobRecord], linked: Collection[str], groups: int) -> list[list[list[JobRecord]]]:
    """Split queries into groups that threads execute side by side, each a list of waves.

    Those whose id is in `linked` are executed one after the other, in one group.
    """
    ordered = sorted(due, key=lambda record: record.definition.name)
    dependent = [[record] for record in ordered if record.definition.id in linked]
    free = [record for record in ordered if record.definition.id not in linked]
    shares = [[free[number::groups]] for number in range(groups) if free[number::groups]]
    return [*shares, *([dependent] if dependent else [])]


def linked_ids(queries: Sequence[JobRecord]) -> set[str]:
    """Return the ids of the queries that may read what another one writes, or the other way around."""
    linked: set[str] = set()
    for one, other in combinations((record.definition for record in queries), 2):
        if may_read(one, other) or may_read(other, one):
            linked |= {one.id, other.id}
    return linked
