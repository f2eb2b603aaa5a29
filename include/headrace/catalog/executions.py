"""The ledger of continuous queries: each execution is claimed by one process at a time, and done once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, delete, func, or_, select, update

from headrace.catalog.events import add_event
from headrace.catalog.processes import has_ended
from headrace.catalog.rows.jobs import EXECUTIONS, IS_STARTED, IS_UNFINISHED, JOBS
from headrace.catalog.store import Repository, insert
from headrace.errors import Error, FencedError, NotFoundError, TransientError
from headrace.model.clock import MAX_STEP_MS
from headrace.model.continuous_queries import Execution, ExecutionState, Schedule
from headrace.model.conversion import from_row, to_row
from headrace.model.events import Event
from headrace.model.execution_history import ExecutionHistory

# An execution takes minutes at most, so the holder of a claim older than this has died, on whichever machine it was.
ABANDONED_MS: Final = 3_600_000
# With EVERY 1s this is about the last three hours. Old executions that failed are removed too, once newer ones have been done.
KEPT: Final = 10_000
# Removing the oldest rows with each claim would double its writes.
PRUNED_EVERY: Final = 100
# Enough to see which intervals were left out lately.
RECENT: Final = 20
NO_INSTANT: Final = -(2**63)
"""Earlier than all instants of schedules."""


class Executions(Repository):
    """Executions by job and instant of the schedule. The newest are kept."""

    def claim(
        self, job_id: str, schedule: Schedule, scheduled: int, holder: str, *, again: bool = False, abandoned_ms: int = ABANDONED_MS
    ) -> Execution:
        """Claim an execution; it is then RUNNING for this holder, or DONE if it was done before.

        With `again` it is DONE only if it was done by this holder, or on its behalf. That is decided here and not by callers:
        two processes that both find an execution undone would otherwise do it one after the other.

        One that failed can be claimed, and a RUNNING one by the same holder, if the process of its holder has certainly ended,
        or if claimed at least `abandoned_ms` ago.

        Raises:
            TransientError: Another holder has claimed it.
            NotFoundError: The job was dropped.
        """
        with self._store.write() as connection:
            now = self._store.now(connection)
            return _claim(connection, job_id, schedule, scheduled, Claim(holder, now, again, now - abandoned_ms))

    def claim_all(self, wanted: Sequence[tuple[str, Schedule, int]], holder: str) -> list[Execution | Error]:
        """Claim executions of jobs in one transaction, as `claim` does; return what it would return or raise for each."""
        claimed: list[Execution | Error] = []
        with self._store.write() as connection:
            now = self._store.now(connection)
            for job_id, schedule, scheduled in wanted:
                try:
                    claimed.append(_claim(connection, job_id, schedule, scheduled, Claim(holder, now, False, now - ABANDONED_MS)))
                except (TransientError, NotFoundError) as error:
                    claimed.append(error)
        return claimed

    def check(self, execution: Execution) -> None:
        """Raise `FencedError` if a newer attempt has been claimed since, `NotFoundError` if the job was dropped."""
        with self._store.read() as connection:
            _require_attempt(connection, execution)

    def check_all(self, executions: Sequence[Execution]) -> None:
        """Raise what `check` does for the first of some executions that is not current."""
        with self._store.read() as connection:
            for execution in executions:
                _require_attempt(connection, execution)

    def finish(self, execution: Execution, rows: int) -> None:
        """Mark an attempt DONE, with the rows it wrote, and add them to the job's counters.

        Raises:
            FencedError: A newer attempt has been claimed since.
            NotFoundError: The job was dropped.
        """
        self.finish_all([(execution, rows)])

    def finish_all(self, finished: Sequence[tuple[Execution, int]]) -> None:
        """Mark attempts DONE in one transaction, as `finish` does; if it raises, none is."""
        with self._store.write() as connection:
            for execution, rows in finished:
                now = self._close(connection, execution, {"state": ExecutionState.DONE.value, "rows": rows, "message": None})
                _count(connection, execution.job_id, {"rows_out": rows, "batches": 1}, now)

    def fail(self, execution: Execution, message: str) -> None:
        """Mark an attempt FAILED, so that the execution can be claimed again, and count it.

        Raises what `finish` does, and `FencedError` too if the attempt has been done.
        """
        with self._store.write() as connection:
            if _require_attempt(connection, execution).state is ExecutionState.DONE:
                raise FencedError(f"attempt {execution.attempt} of {execution.holder} is done", hint="there is nothing to repeat")
            self._close(connection, execution, {"state": ExecutionState.FAILED.value, "message": message})
            _count(connection, execution.job_id, {"failures": 1})

    def release(self, executions: Sequence[Execution]) -> None:
        """Give up claims of first attempts that were not used, as if they had not been made. Those that are not current stay."""
        with self._store.write() as connection:
            for execution in executions:
                unused = and_(*_matches(execution.job_id, execution.scheduled), EXECUTIONS.c.attempt == execution.attempt)
                connection.execute(delete(EXECUTIONS).where(unused))

    def get(self, job_id: str, scheduled: int) -> Execution | None:
        """Return an execution, or None if it has not been started."""
        with self._store.read() as connection:
            return _find(connection, job_id, scheduled)

    def all(self, job_id: str, limit: int | None = None) -> list[Execution]:
        """Return the executions of a job, newest instant first."""
        query = select(EXECUTIONS).where(EXECUTIONS.c.job_id == job_id).order_by(EXECUTIONS.c.scheduled.desc()).limit(limit)
        return self._all(Execution, query)

    def last(self, job_id: str, first: int) -> int | None:
        """Return the last instant from `first` on that has been executed, whatever became of it."""
        at = EXECUTIONS.c.scheduled
        return self._scalar(select(func.max(at)).where(EXECUTIONS.c.job_id == job_id, at >= first, IS_STARTED))

    def postpone(self, job_id: str, now: int) -> None:
        """Make executions PENDING that lie or began ahead of `now`, by a clock that was wrong: they are repeated when due."""
        message = "it was executed before it was due, by a clock that was ahead"
        pending = {"state": ExecutionState.PENDING.value, "started": None, "finished": None, "rows": None, "message": message}
        is_ahead = or_(EXECUTIONS.c.scheduled > now, EXECUTIONS.c.started > now + MAX_STEP_MS)
        with self._store.write() as connection:
            count = connection.execute(
                update(EXECUTIONS).where(EXECUTIONS.c.job_id == job_id, is_ahead, IS_STARTED).values(pending)
            ).rowcount
            message = f"the clock was set back: {count} executions are repeated when they are due"
            add_event(connection, Event(self._store.now(connection), "job", job_id, "CLOCK_SET_BACK", message))

    def left_out(self, job_id: str, schedule: Schedule) -> list[int]:
        """Return the instants of a schedule, oldest first, that have no execution although a later one has.

        Those that the ledger has forgotten count as executed.
        """
        at = EXECUTIONS.c.scheduled
        with self._store.read() as connection:
            first = _first_known(connection, job_id, schedule)
            of_job = and_(EXECUTIONS.c.job_id == job_id, at >= first, IS_STARTED)
            number, newest = connection.execute(select(func.count(), func.max(at)).where(of_job)).one()
            if not number or number == (newest - first) // schedule.every + 1:
                return []
            recorded = set(connection.scalars(select(at).where(of_job)))
        return [instant for instant in range(first, newest, schedule.every) if instant not in recorded]

    def first_known(self, job_id: str, schedule: Schedule) -> int:
        """Return the first instant of a schedule of which the ledger knows whether it was executed."""
        with self._store.read() as connection:
            return _first_known(connection, job_id, schedule)

    def unfinished(self, job_id: str) -> list[Execution]:
        """Return the executions that were started and are not DONE, oldest instant first."""
        of_job = and_(EXECUTIONS.c.job_id == job_id, IS_UNFINISHED, IS_STARTED)
        query = select(EXECUTIONS).where(of_job).order_by(EXECUTIONS.c.scheduled)
        return self._all(Execution, query)

    def histories(self, limit: int = RECENT) -> dict[str, ExecutionHistory]:
        """Return the newest executions of each job, at most `limit`, and those that are not done, in two queries.

        Jobs of which nothing has been executed are left out.
        """
        newest = _newest(limit)
        unfinished = select(EXECUTIONS).where(IS_UNFINISHED, IS_STARTED).order_by(EXECUTIONS.c.scheduled)
        with self._store.read() as connection:
            recent, waiting = (_by_job(connection.execute(query).mappings()) for query in (newest, unfinished))
        return {
            job_id: ExecutionHistory(tuple(executions), tuple(waiting.get(job_id, ())), is_complete=len(executions) < limit)
            for job_id, executions in recent.items()
        }

    def _close(self, connection: Connection, execution: Execution, values: Mapping[str, Any]) -> int:
        """Record what became of an attempt, and return the time."""
        _require_attempt(connection, execution)
        now = self._store.now(connection)
        connection.execute(
            update(EXECUTIONS).where(*_matches(execution.job_id, execution.scheduled)).values(finished=now, **values)
        )
        return now


@dataclass(frozen=True, slots=True)
class Claim:
    """Who claims executions, when, whether also those that others have done, and until when claims count as abandoned."""

    holder: str
    now: int
    again: bool
    abandoned_at: int

    def is_ahead(self, execution: Execution) -> bool:
        """Return whether an execution was started by a clock that was ahead."""
        return (execution.started or 0) > self.now + MAX_STEP_MS


def _claim(connection: Connection, job_id: str, schedule: Schedule, scheduled: int, claim: Claim) -> Execution:
    _require_job(connection, job_id)
    present = _find(connection, job_id, scheduled)
    if present is not None:
        if present.is_done_for(claim.holder, claim.again) and not claim.is_ahead(present):
            return present
        _refuse_rival(present, claim)
    claimed = _claimed(connection, job_id, schedule, scheduled, present)
    claimed = replace(claimed, holder=claim.holder, started=claim.now)
    _write(connection, claimed)
    if scheduled // schedule.every % PRUNED_EVERY == 0:
        _prune(connection, job_id)
    return claimed


def _claimed(connection: Connection, job_id: str, schedule: Schedule, scheduled: int, present: Execution | None) -> Execution:
    """Return the next attempt of an execution, and whether earlier ones, or other executions, may have written to its range."""
    start, end = schedule.range_at(scheduled)
    others = select(func.max(EXECUTIONS.c.scheduled)).where(EXECUTIONS.c.job_id == job_id, EXECUTIONS.c.scheduled != scheduled)
    newest = connection.scalar(others)
    # The first one of a job may overlap what a dropped query of the same name has written.
    is_fresh = present is None and newest is not None and schedule.range_at(newest)[1] <= start
    attempt = 1 if present is None else present.attempt + 1
    takes_over = present is not None and present.state is not ExecutionState.DONE
    return Execution(job_id, scheduled, start, end, ExecutionState.RUNNING, attempt, replaces=not is_fresh, takes_over=takes_over)


def _newest(limit: int) -> Select[*tuple[Any, ...]]:
    """Return the query for the newest executions of each job, newest first. It reads no others: a job may have thousands."""
    of_job = EXECUTIONS.alias()
    is_of_job = and_(of_job.c.job_id == JOBS.c.id, of_job.c.state != ExecutionState.PENDING.value)
    instants = select(of_job.c.scheduled).where(is_of_job).order_by(of_job.c.scheduled.desc())
    nth = instants.limit(1).offset(limit - 1).correlate(JOBS).scalar_subquery()
    queries = select(JOBS.c.id, func.coalesce(nth, NO_INSTANT).label("since")).where(JOBS.c.continuous_query.is_not(None))
    # Without a table of its own, SQLite would look up the job of every execution instead.
    bounds = queries.cte("bounds").prefix_with("MATERIALIZED")
    is_recent = and_(EXECUTIONS.c.job_id == bounds.c.id, EXECUTIONS.c.scheduled >= bounds.c.since, IS_STARTED)
    return select(EXECUTIONS).select_from(bounds).join(EXECUTIONS, is_recent).order_by(EXECUTIONS.c.scheduled.desc())


def _by_job(rows: Iterable[RowMapping]) -> dict[str, list[Execution]]:
    executions: dict[str, list[Execution]] = {}
    for row in rows:
        executions.setdefault(row["job_id"], []).append(from_row(Execution, row))
    return executions


def _count(connection: Connection, job_id: str, added: Mapping[str, int], now: int | None = None) -> None:
    """Add to the counters of a job, and record when it moved unless `now` is None."""
    job = JOBS.c.id == job_id
    counters = connection.scalar(select(JOBS.c.counters).where(job).with_for_update()) or {}
    values: dict[str, Any] = {} if now is None else {"updated": now}
    changed = {**counters, **{name: counters.get(name, 0) + more for name, more in added.items()}}
    connection.execute(update(JOBS).where(job).values(counters=changed, **values))


def _write(connection: Connection, execution: Execution) -> None:
    row = to_row(execution, "replaces", "takes_over")
    statement = insert(connection, EXECUTIONS).values(row)
    connection.execute(statement.on_conflict_do_update(index_elements=["job_id", "scheduled"], set_=row))


def _require_job(connection: Connection, job_id: str) -> None:
    """Hold the job's row, so that claims of its executions wait for each other; raise `NotFoundError` if it was dropped."""
    if connection.scalar(select(JOBS.c.id).where(JOBS.c.id == job_id).with_for_update()) is None:
        raise NotFoundError(f"no job has the id {job_id}", hint="it was dropped")


def _require_attempt(connection: Connection, execution: Execution) -> Execution:
    """Return what is recorded of an attempt; raise `FencedError` or `NotFoundError` if it is not the current one."""
    current = _find(connection, execution.job_id, execution.scheduled)
    if current is None:
        raise NotFoundError(f"no job has the id {execution.job_id}", hint="it was dropped")
    if current.state is ExecutionState.PENDING:
        raise FencedError(f"attempt {execution.attempt} was begun by a clock that was ahead", hint="it is repeated when it is due")
    if current.attempt != execution.attempt:
        raise FencedError(
            f"attempt {execution.attempt} was superseded by attempt {current.attempt} of {current.holder}",
            hint="nothing was written; the newer attempt continues",
        )
    return current


def _refuse_rival(present: Execution, claim: Claim) -> None:
    """Raise `TransientError` if another holder is working on an execution."""
    is_abandoned = (present.started or 0) <= claim.abandoned_at or claim.is_ahead(present) or has_ended(present.holder)
    if present.state is ExecutionState.RUNNING and present.holder != claim.holder and not is_abandoned:
        raise TransientError(
            f"the execution is being worked on by {present.holder}",
            hint="wait for it, or try again when its claim is old enough to count as abandoned",
        )


def _prune(connection: Connection, job_id: str) -> None:
    """Remove all but the newest executions of a job, and those that run: they may be old ones that are executed again."""
    last = connection.scalar(
        select(EXECUTIONS.c.scheduled)
        .where(EXECUTIONS.c.job_id == job_id)
        .order_by(EXECUTIONS.c.scheduled.desc())
        .offset(KEPT)
        .limit(1)
    )
    if last is None:
        return
    is_running = EXECUTIONS.c.state == ExecutionState.RUNNING.value
    connection.execute(delete(EXECUTIONS).where(EXECUTIONS.c.job_id == job_id, EXECUTIONS.c.scheduled <= last, ~is_running))
    is_further = or_(JOBS.c.pruned.is_(None), JOBS.c.pruned < last)
    connection.execute(update(JOBS).where(JOBS.c.id == job_id, is_further).values(pruned=last))


def _first_known(connection: Connection, job_id: str, schedule: Schedule) -> int:
    pruned = connection.scalar(select(JOBS.c.pruned).where(JOBS.c.id == job_id))
    return schedule.first if pruned is None else max(schedule.first, schedule.at_or_after(pruned + 1))


def _find(connection: Connection, job_id: str, scheduled: int) -> Execution | None:
    row: RowMapping | None = connection.execute(select(EXECUTIONS).where(*_matches(job_id, scheduled))).mappings().one_or_none()
    return None if row is None else from_row(Execution, row)


def _matches(job_id: str, scheduled: int) -> tuple[ColumnElement[bool], ...]:
    return EXECUTIONS.c.job_id == job_id, EXECUTIONS.c.scheduled == scheduled
