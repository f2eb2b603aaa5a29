"""Executing what a run of a continuous query's DAG has to, in its own process with Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Final

from headrace.catalog.processes import has_ended
from headrace.context import Context
from headrace.errors import Error, FencedError, NotFoundError, PermissionDeniedError, TransientError
from headrace.model.continuous_queries import Execution
from headrace.model.jobs import JobDefinition
from headrace.queries import executions
from headrace.queries.kind import is_active
from headrace.runtime.query_runs import MAX_CATCH_UP, QueryWork, instant_text, is_done_for, is_running, on_behalf
from headrace.streams.failures import stop_job

logger = logging.getLogger(__name__)

RIVAL_WAIT_S: Final = 60.0
"""How long to wait for another process that is at the same execution, which rarely takes more than a second."""
RIVAL_POLL_S: Final = 0.2


def execute_work(context: Context, work: QueryWork) -> None:
    """Execute the work of a process.

    Raises:
        Error: An execution failed. The ledger says why, and the query is STOPPED if the work asks for that.
    """
    try:
        definition = context.catalog.jobs.by_id(work.job_id).definition
        if work.range is not None:
            _recompute(context, definition, work, *work.range)
        else:
            _execute_instants(context, definition, work)
    except Error as error:
        if not _is_active(context, work.job_id):
            logger.info("leaving the continuous query, which was dropped, paused or stopped: %s", error.message)
            return
        # Further tries of a run cannot help who has lost a right.
        if (work.stop or isinstance(error, PermissionDeniedError)) and not isinstance(error, FencedError):
            stop_job(context, work.job_id, error)
        raise


def _recompute(context: Context, definition: JobDefinition, work: QueryWork, start: int | None, end: int | None) -> None:
    instants = executions.recomputed_instants(definition.schedule, start, end, context.clock.now())
    for number, instant in enumerate(instants, start=1):
        if not _is_active(context, definition.id):
            return
        _execute_once(context, definition, instant, work.holder, again=True)
        logger.info("%d of %d executions done", number, len(instants))


def _execute_instants(context: Context, definition: JobDefinition, work: QueryWork) -> None:
    """Execute what is due before the instant, unless another process is at it, the instant, and then what later runs would."""
    due = list(executions.due(context, definition)) if work.catch_up else []
    earlier = (instant for instant in due if instant < work.instant)
    for instant in earlier:
        if _is_active(context, definition.id) and not is_rivals(context, definition.id, instant, work.holder):
            _execute_once(context, definition, instant, work.holder, again=False)
    if _is_active(context, definition.id):
        _execute_once(context, definition, work.instant, work.holder, again=work.again)
    for instant, holder, again in _later(work, due):
        if not _is_active(context, definition.id) or not _try_ahead(context, definition, instant, holder, work, again):
            return


def _later(work: QueryWork, due: list[int]) -> Iterator[tuple[int, str, bool]]:
    """Yield the instants to execute ahead, the run for which, and whether to execute them again."""
    later = [instant for instant in due if instant > work.instant]
    yield from ((instant, work.holder, False) for instant in later[:MAX_CATCH_UP])
    yield from ((instant, holder, True) for instant, holder in work.ahead)


def _try_ahead(context: Context, definition: JobDefinition, instant: int, holder: str, work: QueryWork, again: bool) -> bool:
    """Execute an instant for a later run; return False if that failed, which is then for that run to report."""
    if is_done_for(context.catalog.executions.get(definition.id, instant), holder, again):
        return True
    worker = work.holder if holder == work.holder else on_behalf(holder, work.run)
    try:
        _log_done(definition, executions.execute(context, definition, instant, worker, again=again))
    except Error as error:
        if is_rivals(context, definition.id, instant, worker) or isinstance(error, FencedError):
            return True
        logger.warning("leaving the execution at %s to its own run: %s", instant_text(instant), error.message)
        return False
    return True


def _execute_once(context: Context, definition: JobDefinition, instant: int, holder: str, *, again: bool) -> None:
    """Execute an instant unless it is done for this holder, after waiting for another process that is at it."""
    deadline = time.monotonic() + RIVAL_WAIT_S
    while not is_done_for(context.catalog.executions.get(definition.id, instant), holder, again):
        try:
            _log_done(definition, executions.execute(context, definition, instant, holder, again=again))
            return
        except TransientError:
            if not is_rivals(context, definition.id, instant, holder) or time.monotonic() > deadline:
                raise
        time.sleep(RIVAL_POLL_S)


def is_rivals(context: Context, job_id: str, instant: int, holder: str) -> bool:
    """Return whether another holder is at an execution, unless a sign shows that its process has ended."""
    execution = context.catalog.executions.get(job_id, instant)
    return execution is not None and is_running(execution) and execution.holder != holder and not has_ended(execution.holder)


def _is_active(context: Context, job_id: str) -> bool:
    try:
        return is_active(context.catalog.jobs.by_id(job_id))
    except NotFoundError:
        return False


def _log_done(definition: JobDefinition, execution: Execution) -> None:
    logger.info(
        "%s at %s over [%s, %s): %s values, attempt %d",
        definition,
        instant_text(execution.scheduled),
        instant_text(execution.start),
        instant_text(execution.end),
        execution.rows,
        execution.attempt,
    )
