"""Runs of a continuous query's DAG: which instant each executes, how the ledger names it, and what becomes of the query."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from headrace.catalog.processes import has_ended
from headrace.context import Context
from headrace.errors import Error, NotFoundError
from headrace.model.continuous_queries import ON_BEHALF, Execution, ExecutionState, Schedule
from headrace.model.jobs import DesiredState, JobRecord, JobState, StopReason
from headrace.model.tree_statements import TimeoutPolicy
from headrace.queries import executions

EXECUTION_FAILED: Final = "EXECUTION"
RESUME_HINT: Final = "fix the cause, then run RESUME CONTINUOUS QUERY, or clear the failed task"
# Airflow allows no slash in a run id, so these names never collide.
PREFIX: Final = "airflow/"
MAX_AHEAD: Final = 100
"""Executions that a process does for runs that wait. A Spark driver starts in seconds, an execution takes a fraction of one."""
MAX_CATCH_UP: Final = 5_000
"""Executions that are due after its own that a process does. The ledger must still have them when their runs look for them."""


class RunType(StrEnum):
    """Why Airflow has created a run. One that another DAG or an asset has triggered is like one that a user has."""

    SCHEDULED = "scheduled"
    BACKFILL = "backfill"
    MANUAL = "manual"

    @classmethod
    def _missing_(cls, value: object) -> RunType:  # noqa: ARG003
        return cls.MANUAL


@dataclass(frozen=True, slots=True)
class QueryRun:
    """A run of a continuous query's DAG, which executes an instant of its schedule. Times are in epoch milliseconds.

    It was started at `started`, last after it was cleared, which a user has done `clear_number` times.
    """

    run_id: str
    type: RunType
    instant: int
    clear_number: int = 0
    started: int = 0

    @property
    def holder(self) -> str:
        """The name in the ledger; another one after each clearing, since a completed execution stays completed under its name."""
        return PREFIX + self.run_id + (f"/{self.clear_number + 1}" if self.clear_number else "")

    @property
    def repeats(self) -> bool:
        """Whether it executes an instant that has been executed before: all but scheduled runs that were not cleared."""
        return self.type is not RunType.SCHEDULED or self.clear_number > 0


@dataclass(frozen=True, slots=True)
class QueryWork:
    """What a process executes of a continuous query. Instants are in epoch milliseconds.

    Attributes:
        job_id: The query.
        holder: The process's name in the ledger.
        instant: The instant to execute.
        again: Whether to execute it again if it was done by another holder.
        catch_up: Whether to execute what is due and not done, first before the instant, then after it.
        ahead: Instants to execute again afterwards on behalf of waiting runs, with these runs' names in the ledger.
        range: Instead of the instant, all whose ranges overlap `[start, end)`; None is unbounded.
        stop: Whether to mark the query STOPPED if it fails.
    """

    job_id: str
    holder: str
    instant: int = 0
    again: bool = False
    catch_up: bool = False
    ahead: tuple[tuple[int, str], ...] = ()
    range: tuple[int | None, int | None] | None = None
    stop: bool = False

    @property
    def run(self) -> str:
        """The holder without its prefix, which names it behind the names of other runs."""
        return self.holder.removeprefix(PREFIX)


def instant_of(schedule: Schedule, data_interval_start: int | None, run_after: int) -> int:
    """Return the instant of a run from its data interval, or without one from the time when it was triggered."""
    if data_interval_start is not None:
        return schedule.at_or_before(data_interval_start + schedule.start_offset)
    return schedule.at_or_before(run_after)


def is_done_for(execution: Execution | None, holder: str, again: bool) -> bool:
    """Return whether nothing is left to do for a holder; without an execution there is."""
    return execution is not None and execution.is_done_for(holder, again)


def on_behalf(holder: str, worker: str) -> str:
    """Return the name under which a run executes an instant for another run, the holder."""
    return f"{holder}{ON_BEHALF}{worker}"


def working_run(holder: str) -> str | None:
    """Return the id of the DAG run whose process works under a name in the ledger; None if it is not Airflow's."""
    if not holder.startswith(PREFIX):
        return None
    return holder.removeprefix(PREFIX).rpartition(ON_BEHALF)[2].partition("/")[0]


def skip_reason(context: Context, record: JobRecord, run: QueryRun) -> str | None:
    """Return why a run must not execute anything; None if it may. A run that was cleared after a stop resumes the query."""
    if record.desired is DesiredState.PAUSED:
        return "the continuous query is PAUSED (run RESUME CONTINUOUS QUERY)"
    if record.desired is DesiredState.DROPPED:
        return "the continuous query was dropped"
    if record.state is not JobState.STOPPED or record.reason is None or _resume_cleared(context, record, record.reason, run):
        return None
    return f"the continuous query is STOPPED: {record.reason}"


def _resume_cleared(context: Context, record: JobRecord, reason: StopReason, run: QueryRun) -> bool:
    """Resume a query if a user has cleared one of its runs since it was stopped; a backfill clears runs for other reasons."""
    is_cleared = run.clear_number > 0 and run.type is not RunType.BACKFILL and run.started > reason.since
    if not is_cleared or not context.catalog.jobs.replace_state(record, record.resumed_state):
        return False
    context.catalog.events.record("job", record.definition.id, "RESUMED", "its task in Airflow was cleared")
    return True


def plan_work(context: Context, record: JobRecord, run: QueryRun, *, is_last_try: bool = False) -> QueryWork | None:
    """Return what a run has to execute; None if there is nothing, since another run has done it."""
    definition, ledger = record.definition, context.catalog.executions
    is_scheduled = run.type is RunType.SCHEDULED
    catch_up = is_scheduled and definition.schedule.policy is TimeoutPolicy.BLOCKED
    if is_done_for(ledger.get(definition.id, run.instant), run.holder, run.repeats):
        claimed = [execution for execution in ledger.unfinished(definition.id) if is_running(execution)]
        rivals = {claim.scheduled for claim in claimed if claim.holder != run.holder and not has_ended(claim.holder)}
        if not catch_up or all(instant in rivals for instant in executions.due(context, definition)):
            return None
    return QueryWork(definition.id, run.holder, run.instant, run.repeats, catch_up, stop=is_last_try and is_scheduled)


def plan_ahead(run: QueryRun, waiting: Iterable[QueryRun]) -> tuple[tuple[int, str], ...]:
    """Return the instants of waiting runs that repeat an execution, in order; those that do not find theirs done anyway."""
    repeating = [other for other in waiting if other.repeats and other.type is not RunType.MANUAL and other.run_id != run.run_id]
    return tuple(sorted((other.instant, other.holder) for other in repeating)[:MAX_AHEAD])


def is_running(execution: Execution) -> bool:
    return execution.state is ExecutionState.RUNNING


def release_dead(context: Context, job_id: str, run: QueryRun, is_alive: Callable[[str], bool]) -> None:
    """Mark executions FAILED whose DAG runs have ended or were cleared, so that they need not be waited for.

    Claims of this very run stay: it can claim them again.
    """
    for execution in context.catalog.executions.unfinished(job_id):
        if not is_running(execution) or (worker := working_run(execution.holder)) is None:
            continue
        is_own = worker == run.run_id
        if execution.holder.endswith(run.holder.removeprefix(PREFIX)) if is_own else is_alive(worker):
            continue
        _mark_failed(context, execution, f"the process of DAG run {worker} ended before it was done")


def release_own(context: Context, job_id: str, holder: str, message: str) -> str:
    """Mark the executions FAILED that a process was at when it ended, and return why it failed.

    The reason is the one that the process has recorded, or `message` if it could not.
    """
    own = [
        execution
        for execution in context.catalog.executions.unfinished(job_id)
        if execution.holder == holder or execution.holder.endswith(ON_BEHALF + holder.removeprefix(PREFIX))
    ]
    for execution in own:
        if is_running(execution):
            _mark_failed(context, execution, message)
    recorded = [execution for execution in own if execution.holder == holder and not is_running(execution)]
    return recorded[0].message or message if recorded else message


def _mark_failed(context: Context, execution: Execution, message: str) -> None:
    with suppress(Error):  # another process has claimed it, or the query was dropped
        context.catalog.executions.fail(execution, message)


def stop_failed_query(context: Context, job_id: str, message: str) -> StopReason | None:
    """Return why a query is STOPPED after a run has failed for good; stop it if the process could not.

    None if it was dropped, or has been resumed since.
    """
    try:
        record = context.catalog.jobs.by_id(job_id)
        if record.state is JobState.STOPPED or record.desired is not DesiredState.RUNNING:
            return record.reason
        reason = StopReason(EXECUTION_FAILED, message, RESUME_HINT, context.clock.now())
        if not context.catalog.jobs.replace_state(record, JobState.STOPPED, reason):
            return context.catalog.jobs.by_id(job_id).reason
    except NotFoundError:
        return None
    context.catalog.events.record("job", job_id, "STOPPED", str(reason))
    return reason


def arguments(work: QueryWork) -> list[str]:
    """Return the arguments of `spark_jobs/continuous_query.py` for this work."""
    result = ["--query", work.job_id, "--holder", work.holder]
    if work.range is None:
        result += ["--at", instant_text(work.instant)]
    else:
        bounds = zip(("--from", "--to"), work.range, strict=True)
        result += [word for name, bound in bounds if bound is not None for word in (name, instant_text(bound))]
    flags = {"--again": work.again, "--catch-up": work.catch_up, "--stop": work.stop}
    result += [name for name, is_set in flags.items() if is_set]
    return result + [word for instant, holder in work.ahead for word in ("--ahead", f"{instant_text(instant)}={holder}")]


def parsed_work(
    *,
    job_id: str,
    holder: str,
    instant: int | None,
    start: int | None,
    end: int | None,
    ahead: Iterable[tuple[int, str]],
    **flags: bool,
) -> QueryWork:
    """Return the work that the parsed arguments describe: a range if they name no instant."""
    range_ = (start, end) if instant is None else None
    return QueryWork(job_id, holder, instant or 0, ahead=tuple(ahead), range=range_, **flags)


def instant_text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def parse_instant(text: str) -> int:
    """Return the epoch milliseconds of an instant in ISO 8601; without a zone it is in UTC."""
    instant = datetime.fromisoformat(text)
    return round((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_ahead(text: str) -> tuple[int, str]:
    """Return the instant and the holder of an argument `--ahead`."""
    instant, _, holder = text.partition("=")
    return parse_instant(instant), holder
