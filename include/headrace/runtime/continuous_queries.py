"""Executing continuous queries when they are due: at once for a connection, together in an snode."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import Any, Final

from headrace.context import Context
from headrace.errors import Error, FencedError, NotFoundError
from headrace.jobs.hosts import Driving, HostedJob, Source
from headrace.jobs.runners import Advance, Runner
from headrace.model.clock import MAX_STEP_MS
from headrace.model.continuous_queries import Execution, ExecutionState
from headrace.model.jobs import JobRecord
from headrace.queries import executions
from headrace.queries.continuous_query import may_read
from headrace.queries.kind import CONTINUOUS_QUERY, is_active
from headrace.runtime.pauses import Pause
from headrace.streams.failures import stop_job

logger = logging.getLogger(__name__)

MAX_RETRY_PAUSE_MS: Final = 20_000


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


class QueryRunner(Runner):
    """One continuous query: knows how far it has come, and until when to wait after a failure."""

    def __init__(self, context: Context, record: JobRecord, _: Any) -> None:
        self.record = record
        self.progress = record.progress
        self._context = context
        self._is_known = False
        self._last: int | None = None
        self._pause: Pause | None = None

    @property
    def wake_at(self) -> int:
        """When the query is due next: after the last execution, or when a failed one may be tried again."""
        now = self._context.clock.now()
        if self._pause is not None:
            return self._pause.end_at(now)
        if not self._is_known or (self._last or 0) > now + MAX_STEP_MS:  # the ledger is to be read; the clock was set back
            return now
        return self.record.definition.schedule.next_after(self._last)

    def is_due(self) -> bool:
        return self.wake_at <= self._context.clock.now()

    def due_together(self) -> list[int]:
        """Return the instants to execute at once; if there are none, find out how far the query has come."""
        instants = executions.due_together(self._context, self.record.definition)
        if not instants:  # what was due is done, or is being computed again elsewhere
            self._pause = None
            self._move_to(executions.last_execution(self._context, self.record.definition))
        return instants

    def _move_to(self, last: int | None) -> None:
        self._last, self._is_known = last, True

    def conclude(self, instants: Sequence[int], error: Error | None) -> None:
        """Remember how far the query has come, or when to try again; after the last attempt it is STOPPED."""
        self._pause = None
        if error is None:
            self._move_to(max(instants[-1], self._last or instants[-1]))
        elif isinstance(error, FencedError | NotFoundError):
            logger.info("leaving continuous query %s: %s", self.record.definition.name, error.message)
            self.postpone()
        else:
            may_try_again(self._context, self.record, instants[0], error)
            self.postpone(self._context.catalog.executions.get(self.record.definition.id, instants[0]))

    def postpone(self, failed: Execution | None = None) -> None:
        """Try again after a pause, which begins with the failure."""
        now = self._context.clock.now()
        pause = retry_pause_ms(self.record.definition.schedule.every, 1 if failed is None else failed.attempt)
        start = failure_time(failed, now, pause)
        self._pause = Pause(start, start + pause)


class QuerySchedule(Source):
    """What the continuous queries of an snode share: those that are due at the same time are executed together.

    They have one commit for each database, unless one may read another one's results. A query that has fallen behind catches up on
    several intervals at once if it allows that.
    """

    name = "cq"

    def __init__(self, driving: Driving) -> None:
        self._context = driving.context
        self._holder = f"snode {driving.snode}"
        self.threads = driving.context.settings.cq_threads
        self._ids: frozenset[str] = frozenset()
        self._linked: set[str] = set()

    def source(self, record: JobRecord) -> Source:  # noqa: ARG002
        return self

    def refresh(self, records: Sequence[JobRecord], runnable: Sequence[JobRecord]) -> None:  # noqa: ARG002
        ids = frozenset(record.definition.id for record in runnable)
        if ids != self._ids:
            self._ids, self._linked = ids, linked_ids(runnable)

    def batches(self, due: Sequence[HostedJob], busy: Sequence[HostedJob]) -> Sequence[Sequence[HostedJob]]:  # noqa: ARG002
        return split_work(due, self._linked, self.threads)

    def advance(self, jobs: Sequence[HostedJob]) -> Sequence[Advance]:
        """Execute what is due of queries: together, or one after the other if they may read each other's results."""
        are_linked = any(job.id in self._linked for job in jobs)
        for wave in [[job] for job in jobs] if are_linked else [jobs]:
            runners = [job.runner for job in wave if isinstance(job.runner, QueryRunner) and not job.is_removed]
            try:
                if not self.is_stopping:
                    self._execute(runners)
            except Exception:  # a bug that affects one query must not end the others
                logger.exception("executing continuous queries %s", ", ".join(runner.record.definition.name for runner in runners))
                for runner in runners:
                    runner.postpone()
        return [Advance.HANDLED] * len(jobs)

    def _execute(self, runners: Sequence[QueryRunner]) -> None:
        work = [(runner, instants) for runner in runners if (instants := runner.due_together())]
        wanted = [(runner.record.definition, instants) for runner, instants in work]
        outcomes = executions.execute_together(self._context, wanted, self._holder)
        for (runner, instants), error in zip(work, outcomes, strict=True):
            runner.conclude(instants, error)


def failure_time(failed: Execution | None, now: int, pause: int) -> int:
    """Return when an execution failed, as the ledger has it; now if the clock of the catalog's machine differs much."""
    finished = None if failed is None else failed.finished
    return finished if finished is not None and now - pause <= finished <= now else now


def split_work(due: Sequence[HostedJob], linked: Collection[str], groups: int) -> list[list[HostedJob]]:
    """Split queries into groups that threads execute side by side. Those whose id is in `linked` are one group, in order."""
    ordered = sorted(due, key=lambda job: job.record.definition.name)
    free = [job for job in ordered if job.id not in linked]
    dependent = [job for job in ordered if job.id in linked]
    return [group for group in (*(free[number::groups] for number in range(groups)), dependent) if group]


def linked_ids(queries: Sequence[JobRecord]) -> set[str]:
    """Return the ids of the queries that may read what another one writes, or the other way around."""
    linked: set[str] = set()
    for one, other in combinations((record.definition for record in queries), 2):
        if may_read(one, other) or may_read(other, one):
            linked |= {one.id, other.id}
    return linked
