"""Executions of continuous queries: each computes one range, replaces what was computed for it before, and is in the ledger."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from headrace.catalog.executions import ABANDONED_MS
from headrace.errors import FencedError, NotFoundError
from headrace.model.continuous_queries import Execution, ExecutionState
from headrace.model.failpoints import failpoint
from headrace.model.jobs import JobDefinition
from headrace.model.progress import Progress, no_progress
from headrace.model.tree_statements import TimeoutPolicy
from headrace.queries.continuous_query import bind_body, recorded_query
from headrace.queries.into import write_into
from headrace.streams.context import Context
from headrace.streams.failures import to_error

logger = logging.getLogger(__name__)


def due(context: Context, definition: JobDefinition) -> Iterator[int]:
    """Yield the instants whose executions are due now, in order: those that have not succeeded, then new ones."""
    schedule, ledger = definition.schedule, context.catalog.executions
    last = ledger.last(definition.id, schedule.first)
    new = schedule.due(last, context.clock.now())
    if schedule.policy is TimeoutPolicy.BLOCKED:
        yield from (execution.scheduled for execution in ledger.unfinished(definition.id))
        yield from new
        return
    latest = list(new)
    unfinished = [execution.scheduled for execution in ledger.unfinished(definition.id) if execution.scheduled == last]
    yield from latest or unfinished


def execute(
    context: Context,
    definition: JobDefinition,
    scheduled: int,
    holder: str,
    *,
    again: bool = False,
    abandoned_ms: int = ABANDONED_MS,
) -> Execution:
    """Execute a continuous query at an instant of its schedule, unless it was done before and `again` is False.

    Returns:
        The execution, which is DONE.

    Raises:
        TransientError: Another process is executing it.
        FencedError: Another process has taken the execution over.
        NotFoundError: The query was dropped.
        Error: The query failed; the ledger says so too.
    """
    ledger = context.catalog.executions
    claimed = ledger.claim(definition.id, definition.schedule, scheduled, holder, again=again, abandoned_ms=abandoned_ms)
    if claimed.state is ExecutionState.DONE:
        return claimed
    failpoint("queries.execution.claimed")
    try:
        rows = compute(context, definition, claimed)
    except FencedError:
        raise
    except Exception as error:
        record_failure(context, claimed, error)
        raise to_error(error) from error
    failpoint("queries.execution.written")
    ledger.finish(claimed, rows)
    done = ledger.get(definition.id, scheduled)
    if done is None:
        raise NotFoundError(f"no job has the id {definition.id}", hint="it was dropped")
    return done


def compute(context: Context, definition: JobDefinition, execution: Execution) -> int:
    """Compute the range of an execution and return the number of values written."""
    details = definition.continuous_query
    assert details is not None
    body = bind_body(recorded_query(definition), execution.start, execution.end, context, details.timezone)
    if body.plan is None:
        return 0
    written = write_into(
        context,
        body.plan,
        body.targets,
        replaced=(execution.start, execution.end) if execution.replaces else None,
        check=lambda: context.catalog.executions.check(execution),
    )
    return written.values


def record_failure(context: Context, execution: Execution, error: Exception) -> None:
    """Record why an attempt failed, unless another process has taken it over or the query was dropped."""
    failure = to_error(error)
    message = f"{failure.message} ({failure.hint})" if failure.hint else failure.message
    try:
        context.catalog.executions.fail(execution, message)
    except (FencedError, NotFoundError) as lost:
        logger.info("not recording the failure of an execution: %s", lost.message)


def recompute(
    context: Context,
    definition: JobDefinition,
    start: int | None,
    end: int | None,
    holder: str,
    progress: Progress = no_progress,
) -> list[Execution]:
    """Execute again all instants whose ranges overlap `[start, end)` in epoch milliseconds, in order.

    Args:
        context: The environment.
        definition: The continuous query.
        start: None for the first execution of its schedule.
        end: None for the present. Executions that are not due yet are left out.
        holder: Who executes them.
        progress: Called with the number of executions that are done and their total.
    """
    instants = overlapping_instants(context, definition, start, end)
    done = []
    for number, instant in enumerate(instants, start=1):
        done.append(execute(context, definition, instant, holder, again=True))
        progress(number, len(instants))
    return done


def overlapping_instants(context: Context, definition: JobDefinition, start: int | None, end: int | None) -> list[int]:
    """Return the instants that are due and whose ranges overlap `[start, end)`; see `recompute`."""
    schedule, now = definition.schedule, context.clock.now()
    first = schedule.range_at(schedule.first)[0] if start is None else start
    return [instant for instant in schedule.overlapping(first, now if end is None else end) if instant <= now]
