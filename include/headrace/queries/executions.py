"""Executions of continuous queries: each computes one range, replaces what was computed for it before, and is in the ledger."""

from __future__ import annotations

import heapq
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from headrace.catalog.executions import ABANDONED_MS
from headrace.catalog.processes import has_ended
from headrace.context import Context
from headrace.errors import Error, FencedError, NotFoundError, OperationalError, TriggerFireError
from headrace.jobs.needs import needs_of
from headrace.model.clock import MAX_STEP_MS
from headrace.model.continuous_queries import Execution, ExecutionState, Schedule
from headrace.model.execution_history import is_repeated
from headrace.model.failpoints import failpoint
from headrace.model.jobs import JobDefinition
from headrace.model.progress import Progress, no_progress
from headrace.model.run_reports import RunReport, RunState, reported
from headrace.model.tree_statements import TimeoutPolicy
from headrace.model.trees import TREE_TABLE
from headrace.queries.continuous_query import bind_body, is_divisible, recorded_query, target_databases
from headrace.queries.into import IntoPoints, compute_into
from headrace.queries.into_layout import has_time
from headrace.streams.failures import to_error
from headrace.trees.owners import as_owner, check_needs
from headrace.trees.points import write_points

logger = logging.getLogger(__name__)

MAX_TOGETHER: Final = 1_000
"""Executions of one query that are computed at once when it has fallen behind."""


def due(context: Context, definition: JobDefinition) -> Iterator[int]:
    """Yield the instants whose executions are due now, in order: those that have not succeeded, then new ones.

    With BLOCKED this includes instants that were left out when later ones were executed on demand.
    """
    schedule, ledger = definition.schedule, context.catalog.executions
    last = last_execution(context, definition)
    new = schedule.due(last, context.clock.now())
    if schedule.policy is TimeoutPolicy.BLOCKED:
        now, regular_from = context.clock.now(), schedule.first if last is None else last
        unfinished = (
            execution.scheduled
            for execution in ledger.unfinished(definition.id)
            if not is_repeated_elsewhere(execution, regular_from, now)
        )
        yield from heapq.merge(unfinished, ledger.left_out(definition.id, schedule))
        yield from new
        return
    latest = list(new)
    failed = [execution.scheduled for execution in ledger.unfinished(definition.id) if execution.scheduled == last]
    yield from latest or failed


def last_execution(context: Context, definition: JobDefinition) -> int | None:
    """Return the last instant that was executed; those far ahead of a clock that was set back become due again."""
    ledger, first, now = context.catalog.executions, definition.schedule.first, context.clock.now()
    last = ledger.last(definition.id, first)
    if last is None or last <= now + MAX_STEP_MS:
        return last
    ledger.postpone(definition.id, now)
    return ledger.last(definition.id, first)


def is_repeated_elsewhere(execution: Execution, regular_from: int, now: int) -> bool:
    """Return whether another process computes an old range again, so that later executions need not wait for it."""
    is_claimed = now - ABANDONED_MS < (execution.started or 0) <= now + MAX_STEP_MS and not has_ended(execution.holder)
    return is_claimed and is_repeated(execution, regular_from)


def due_together(context: Context, definition: JobDefinition) -> list[int]:
    """Return the first instants that are due and can be computed at once; empty if nothing is due.

    One that was tried before is computed alone.
    """
    if not is_divisible(definition, context) or context.catalog.executions.unfinished(definition.id):
        return list(islice(due(context, definition), 1))
    instants = list(islice(due(context, definition), MAX_TOGETHER))
    every = definition.schedule.every
    return [instant for place, instant in enumerate(instants) if instant == instants[0] + place * every]


def execute(
    context: Context,
    definition: JobDefinition,
    scheduled: int,
    holder: str,
    *,
    again: bool = False,
    abandoned_ms: int = ABANDONED_MS,
) -> Execution:
    """Execute a continuous query at an instant of its schedule, unless it is DONE already; with `again`, by this holder.

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
    with reported(context.reports, report_of(definition, claimed, RunState.START)) as ended:
        values = run_claimed(context, definition, claimed)
        failpoint("queries.execution.written")
        ledger.finish(claimed, values)
        ended[0] = replace(ended[0], rows_out=values)
    done = ledger.get(definition.id, scheduled)
    if done is None:
        raise NotFoundError(f"no job has the id {definition.id}", hint="it was dropped")
    return done


def report_of(definition: JobDefinition, claimed: Execution, state: RunState) -> RunReport:
    """Return a report of an execution."""
    run, started = f"{claimed.scheduled}/{claimed.attempt}", claimed.started or claimed.scheduled
    return RunReport(definition, run, state, started=started, range=(claimed.start, claimed.end))


def run_claimed(context: Context, definition: JobDefinition, claimed: Execution) -> int:
    """Compute and write the range of an execution, and return the number of values; record why it failed if it does."""
    try:
        return compute_and_write(context, definition, claimed)
    except FencedError:
        raise
    except KeyboardInterrupt:
        record_failure(context, claimed, OperationalError("the execution was interrupted"))
        raise
    except Exception as error:
        record_failure(context, claimed, error)
        raise to_error(error) from error


@dataclass(frozen=True, slots=True)
class Run:
    """Executions of one continuous query to be computed at once, in order: one, or several that adjoin each other."""

    number: int
    definition: JobDefinition
    claims: tuple[Execution, ...]
    points: IntoPoints

    def finished(self) -> list[tuple[Execution, int]]:
        """Return each execution with the number of values that it has written."""
        if len(self.claims) == 1:
            return [(self.claims[0], self.points.values)]
        return list(zip(self.claims, self.points.values_by_range([claim.start for claim in self.claims]), strict=True))


Work = tuple[JobDefinition, Sequence[int]]
"""A continuous query and instants to execute. Several instants have to adjoin each other, and the query to be divisible."""


def execute_together(context: Context, work: Sequence[Work], holder: str) -> list[Error | None]:
    """Execute continuous queries that do not read each other's results, with one commit for each database.

    Return for each what `execute` would raise; None if its executions are DONE.
    """
    wanted = [(number, definition, instant) for number, (definition, instants) in enumerate(work) for instant in instants]
    claimed = context.catalog.executions.claim_all([(job.id, job.schedule, instant) for _, job, instant in wanted], holder)
    claims: dict[int, list[Execution]] = defaultdict(list)
    outcomes: list[Error | None] = [None] * len(work)
    for (number, _, _), claim in zip(wanted, claimed, strict=True):
        if isinstance(claim, Error):
            outcomes[number] = claim
        elif claim.state is not ExecutionState.DONE:
            claims[number].append(claim)
    failpoint("queries.execution.claimed")
    for number, failure in run_all(context, work, claims).items():
        outcomes[number] = failure
    return outcomes


def run_all(context: Context, work: Sequence[Work], claims: Mapping[int, Sequence[Execution]]) -> dict[int, Error]:
    failed: dict[int, Error] = {}
    waiting: list[Run] = []
    for number, own in claims.items():
        definition = work[number][0]
        report_all(context, definition, own, RunState.START)
        try:
            waiting.append(Run(number, definition, tuple(own), compute(context, definition, *own)))
        except Exception as error:
            failed[number] = fail_all(context, definition, own, error)
        driver_rows = sum(run.points.driver_rows for run in waiting)
        if driver_rows > context.settings.driver_rows or any(run.points.is_wide for run in waiting):
            failed |= write_runs(context, waiting)
            waiting = []
    return failed | write_runs(context, waiting)


def write_runs(context: Context, runs: Sequence[Run]) -> dict[int, Error]:
    """Write what runs have computed, together if possible, and return the error of each that failed."""
    alone = [[run] for run in runs if run.points.is_alone]
    together = [run for run in runs if not run.points.is_alone]
    failed: dict[int, Error] = {}
    for group in [*alone, *([together] if together else [])]:
        try:
            write_group(context, group)
        except Exception as error:
            if len(group) > 1:
                # One of them may have been dropped, or taken over.
                for run in group:
                    failed |= write_runs(context, [run])
            else:
                failed[group[0].number] = fail_all(context, group[0].definition, group[0].claims, error)
    return failed


def write_group(context: Context, group: Sequence[Run]) -> None:
    ledger = context.catalog.executions
    claims = [claim for run in group for claim in run.claims]
    with ExitStack() as opened:
        for run in group:
            opened.enter_context(closing(run.points))
        write_result(context, [run.points for run in group], lambda: ledger.check_all(claims))
        failpoint("queries.execution.written")
        ledger.finish_all([finished for run in group for finished in run.finished()])
    for run in group:
        for claim, values in run.finished():
            context.reports.report(replace(report_of(run.definition, claim, RunState.COMPLETE), rows_out=values))


def write_result(context: Context, points: Sequence[IntoPoints], check: Callable[[], None]) -> None:
    """Write what queries have computed. A trigger that fails does not fail the execution once the points are written."""
    try:
        write_points(context, points, check, drops_expired=True)
    except TriggerFireError as error:
        if not error.is_written:
            raise
        logger.warning("%s %s", error.message, error.hint)


def report_all(
    context: Context, definition: JobDefinition, claims: Sequence[Execution], state: RunState, error: str | None = None
) -> None:
    for claim in claims:
        context.reports.report(replace(report_of(definition, claim, state), error=error))


def fail_all(context: Context, definition: JobDefinition, claims: Sequence[Execution], error: Exception) -> Error:
    """Record a failure as that of the first of several executions, the others not having been started; return it as an error."""
    record_failure(context, claims[0], error)
    report_all(context, definition, claims[:1], RunState.FAIL, to_error(error).message)
    report_all(context, definition, claims[1:], RunState.ABORT)
    context.catalog.executions.release(claims[1:])
    return to_error(error)


def compute(context: Context, definition: JobDefinition, *claims: Execution) -> IntoPoints:
    """Compute the range of an execution, or of several that adjoin each other, with the rights of the query's owner."""
    details = definition.continuous_query
    assert details is not None
    if any(claim.takes_over for claim in claims):
        fence_targets(context, definition)
    start, end = claims[0].start, claims[-1].end
    query, owner = recorded_query(definition.sql, definition.dialect), as_owner(context, definition.owner)
    check_needs(owner.permissions(), definition.owner, needs_of(context.catalog, definition))
    body = bind_body(query, start, end, owner, details.timezone, definition.functions)
    if body.plan is None:
        return IntoPoints()
    # An aggregate over all rows is stored at the epoch by every execution, whatever its range.
    replaced = (start, end) if any(claim.replaces for claim in claims) or not has_time(body.plan) else None
    points = compute_into(context, body.plan, body.targets, replaced)
    try:
        owner.authorize_points(points.series)
    except Error:
        points.close()
        raise
    return points


def fence_targets(context: Context, definition: JobDefinition) -> None:
    """Prevent commits of processes that have checked their claims before, in all databases that a continuous query may write to.

    What they build on is outdated then, so they check again. Other commits do not ensure that: there may be none.
    """
    for name in target_databases(definition, context.catalog.trees.databases()):
        context.tables.writer.advance(context.catalog.tables.get(name, TREE_TABLE), definition.id)


def drop_query(context: Context, definition: JobDefinition) -> None:
    """Drop a continuous query. What it is about to write is not written afterwards."""
    unfinished = context.catalog.executions.unfinished(definition.id)
    context.catalog.jobs.drop(definition.id)
    if any(execution.state is ExecutionState.RUNNING for execution in unfinished):
        fence_targets(context, definition)


def compute_and_write(context: Context, definition: JobDefinition, claimed: Execution) -> int:
    with closing(compute(context, definition, claimed)) as points:
        write_result(context, [points], lambda: context.catalog.executions.check(claimed))
    return points.values


def record_failure(context: Context, execution: Execution, error: Exception) -> None:
    """Record why an attempt failed, unless another process has taken it over or the query was dropped."""
    failure = to_error(error)
    message = f"{failure.message} ({failure.hint})" if failure.hint else failure.message
    try:
        context.catalog.executions.fail(execution, message)
    except (FencedError, NotFoundError) as lost:
        logger.info("not recording the failure of an execution: %s", lost.message)


def recomputed_instants(schedule: Schedule, start: int | None, end: int | None, now: int) -> range:
    """Return the instants whose ranges overlap `[start, end)` in epoch milliseconds and that are due, in order.

    `start` is None for the range of the first execution, `end` for the present.
    """
    first = schedule.range_at(schedule.first)[0] if start is None else start
    instants = schedule.overlapping(first, now if end is None else end)
    return range(instants.start, min(instants.stop, now + 1), schedule.every)


def recompute(
    context: Context, definition: JobDefinition, start: int | None, end: int | None, holder: str, progress: Progress = no_progress
) -> list[Execution]:
    """Execute again all instants whose ranges overlap `[start, end)`, in order; see `recomputed_instants`.

    `progress` is called with the number of executions that are done and their total.
    """
    instants = recomputed_instants(definition.schedule, start, end, context.clock.now())
    done = []
    progress(0, len(instants))
    for number, instant in enumerate(instants, start=1):
        done.append(execute(context, definition, instant, holder, again=True))
        progress(number, len(instants))
    return done
