"""What a run of a continuous query's DAG has to execute, and what becomes of the query, from the catalog alone."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.context import Context
from headrace.errors import Error
from headrace.model.clock import ManualClock
from headrace.model.continuous_queries import Execution, ExecutionState
from headrace.model.jobs import DesiredState, JobDefinition, JobState, StopReason
from headrace.model.tree_statements import TimeoutPolicy
from headrace.runtime import query_runs
from headrace.runtime.query_runs import QueryRun, QueryWork, RunType, plan_work
from headrace.settings import Settings
from tests.airflow.conftest import NOW
from tests.airflow.samples import MINUTE, add_query, repository, without_spark

FIRST = NOW // MINUTE * MINUTE - 10 * MINUTE
"""Ten minutes before the present, so that eleven executions are due."""


@pytest.fixture
def context(home: Settings, catalog: Catalog, clock: ManualClock) -> Context:
    return without_spark(home, catalog, clock)


@pytest.fixture
def query(catalog: Catalog) -> JobDefinition:
    return add_query(catalog, first=FIRST)


def instant(number: int) -> int:
    return FIRST + number * MINUTE


def run(number: int = 0, type_: RunType = RunType.SCHEDULED, **options: Any) -> QueryRun:
    return QueryRun(f"{type_}-{number}", type_, instant(number), **options)


def execute(catalog: Catalog, query: JobDefinition, number: int, holder: str, *, again: bool = False) -> Execution:
    """Execute an instant, as far as the ledger is concerned."""
    execution = catalog.executions.claim(query.id, query.schedule, instant(number), holder, again=again)
    catalog.executions.finish(execution, 1)
    return execution


def plan(context: Context, query: JobDefinition, run_: QueryRun, **options: Any) -> QueryWork | None:
    return plan_work(context, context.catalog.jobs.by_id(query.id), run_, **options)


def skip_reason(context: Context, query: JobDefinition, run_: QueryRun) -> str | None:
    return query_runs.skip_reason(context, context.catalog.jobs.by_id(query.id), run_)


def stop(context: Context, query: JobDefinition) -> StopReason:
    reason = StopReason("TYPE", "a value does not fit", "fix it", context.clock.now())
    context.catalog.jobs.set_state(query.id, JobState.STOPPED, reason)
    return reason


@pytest.mark.parametrize(
    ("run_after", "interval_start", "expected"), [(1, 0, 0), (1, 60_000, 1), (59_999, None, -1), (0, None, -1), (60_000, None, 0)]
)
def test_the_instant_of_a_run_follows_from_its_interval(
    query: JobDefinition, run_after: int, interval_start: int | None, expected: int
) -> None:
    start = None if interval_start is None else FIRST - MINUTE + interval_start
    assert query_runs.instant_of(query.schedule, start, FIRST - MINUTE + run_after) == instant(expected)


def test_a_scheduled_run_catches_up_with_what_is_due(context: Context, query: JobDefinition) -> None:
    assert plan(context, query, run(3)) == QueryWork(query.id, "airflow/scheduled-3", instant(3), catch_up=True)


def test_a_run_has_nothing_to_do_after_another_has_done_its_work(context: Context, query: JobDefinition) -> None:
    for number in range(11):
        assert plan(context, query, run(5)) is not None
        execute(context.catalog, query, number, "airflow/scheduled-0")
    assert plan(context, query, run(5)) is None


def test_what_another_process_is_at_is_not_due(context: Context, query: JobDefinition) -> None:
    for number in range(10):
        execute(context.catalog, query, number, "airflow/scheduled-0")
    context.catalog.executions.claim(query.id, query.schedule, instant(10), "airflow/scheduled-0")
    assert plan(context, query, run(5)) is None
    assert plan(context, query, run(0)) is not None, "its own claim is left from a process that died"


def test_a_run_of_a_query_that_discards_executes_its_instant_alone(catalog: Catalog, context: Context) -> None:
    query = add_query(catalog, policy=TimeoutPolicy.DISCARD, first=FIRST)
    assert plan(context, query, run(10)) == QueryWork(query.id, "airflow/scheduled-10", instant(10))
    execute(catalog, query, 10, "snode default")
    assert plan(context, query, run(10)) is None


@pytest.mark.parametrize("repeating", [run(2, RunType.BACKFILL), run(2, RunType.MANUAL), run(2, clear_number=1)])
def test_a_backfill_a_manual_run_and_a_cleared_one_execute_their_instant_again(
    context: Context, query: JobDefinition, repeating: QueryRun
) -> None:
    for number in range(11):
        execute(context.catalog, query, number, "airflow/scheduled-2")
    work = plan(context, query, repeating)
    assert work is not None
    assert (work.instant, work.again) == (instant(2), True)
    execute(context.catalog, query, 2, work.holder, again=True)
    assert plan(context, query, repeating) is None, "a retry of the same run does nothing"
    cleared = QueryRun(repeating.run_id, repeating.type, repeating.instant, repeating.clear_number + 1)
    assert plan(context, query, cleared) is not None


def test_a_backfill_also_executes_what_its_waiting_runs_would(context: Context, query: JobDefinition) -> None:
    waiting = [
        run(4, RunType.BACKFILL),
        run(3, RunType.BACKFILL, clear_number=2),
        run(2, RunType.BACKFILL),
        run(5),
        run(6, clear_number=1),
        run(7, RunType.MANUAL),
    ]
    ahead = query_runs.plan_ahead(run(2, RunType.BACKFILL), waiting)
    assert ahead == (
        (instant(3), "airflow/backfill-3/3"),
        (instant(4), "airflow/backfill-4"),
        (instant(6), "airflow/scheduled-6/2"),
    )
    for at, holder in ahead:
        execute(context.catalog, query, (at - FIRST) // MINUTE, query_runs.on_behalf(holder, "backfill-2"), again=True)
    assert [plan(context, query, other) for other in (waiting[0], waiting[1])] == [None, None]
    assert plan(context, query, run(3, RunType.BACKFILL, clear_number=3)) is not None, "it was cleared since"


def test_only_the_last_try_of_a_scheduled_run_stops_the_query(context: Context, query: JobDefinition) -> None:
    stops = {
        (type_, is_last): work is not None and work.stop
        for type_ in RunType
        for is_last in (False, True)
        for work in [plan(context, query, run(0, type_), is_last_try=is_last)]
    }
    assert [key for key, is_stopped in stops.items() if is_stopped] == [(RunType.SCHEDULED, True)]


@pytest.mark.parametrize(
    "work",
    [
        QueryWork("cq-1", "airflow/scheduled__2026-01-01T00:00:00+00:00", NOW + 1, catch_up=True),
        QueryWork("cq-1", "airflow/x/2", -1, again=True, stop=True, ahead=((NOW, "airflow/a=b/2"), (NOW + MINUTE, "airflow/c"))),
        QueryWork("cq-1", "airflow/x", range=(NOW, NOW + 1)),
        QueryWork("cq-1", "airflow/x", range=(None, NOW)),
        QueryWork("cq-1", "airflow/x", range=(None, None)),
    ],
)
def test_the_script_parses_the_work_that_a_task_passes(work: QueryWork) -> None:
    script = runpy.run_path(str(repository() / "spark_jobs" / "continuous_query.py"))
    parsed = script["build_parser"]().parse_args(query_runs.arguments(work))
    assert query_runs.parsed_work(**vars(parsed)) == work


def test_a_paused_query_is_left_alone(context: Context, query: JobDefinition) -> None:
    assert skip_reason(context, query, run()) is None
    context.catalog.jobs.set_desired(query.id, DesiredState.PAUSED)
    for type_ in RunType:
        assert skip_reason(context, query, run(0, type_, clear_number=1, started=NOW)) == (
            "the continuous query is PAUSED (run RESUME CONTINUOUS QUERY)"
        )


def test_runs_of_a_stopped_query_are_skipped_with_the_reason(context: Context, query: JobDefinition) -> None:
    reason = stop(context, query)
    assert skip_reason(context, query, run(1)) == f"the continuous query is STOPPED: {reason}"
    assert skip_reason(context, query, run(1, clear_number=1, started=NOW - 1)) is not None, "it was cleared before the stop"
    assert skip_reason(context, query, run(1, RunType.BACKFILL, clear_number=1, started=NOW + 1)) is not None


def test_clearing_a_run_resumes_a_stopped_query(context: Context, query: JobDefinition) -> None:
    stop(context, query)
    assert skip_reason(context, query, run(1, clear_number=1, started=NOW + 1)) is None
    record = context.catalog.jobs.by_id(query.id)
    assert (record.state, record.reason) == (JobState.RUNNING, None)
    assert [event.kind for event in context.catalog.events.all("job", query.id)] == ["RESUMED"]


def test_claims_of_runs_that_have_ended_are_released(context: Context, query: JobDefinition) -> None:
    ledger = context.catalog.executions
    holders = [
        "airflow/dead",
        "airflow/alive",
        "airflow/waiting/by/dead",
        "airflow/waiting/2/by/alive/3",
        "airflow/scheduled-9",
        "airflow/other/by/scheduled-9",
        "airflow/scheduled-9/2",
        "snode default",
    ]
    for number, holder in enumerate(holders):
        ledger.claim(query.id, query.schedule, instant(number), holder)
    query_runs.release_dead(context, query.id, run(9), lambda run_id: run_id == "alive")
    released = [execution for execution in ledger.unfinished(query.id) if execution.state is ExecutionState.FAILED]
    assert [execution.holder for execution in released] == ["airflow/dead", "airflow/waiting/by/dead", "airflow/scheduled-9/2"]
    assert released[0].message == "the process of DAG run dead ended before it was done"
    assert released[2].message == "the process of DAG run scheduled-9 ended before it was done"


def test_a_process_that_dies_leaves_nothing_claimed_and_its_reason_counts(context: Context, query: JobDefinition) -> None:
    ledger = context.catalog.executions
    failed = ledger.claim(query.id, query.schedule, instant(0), "airflow/r")
    ledger.fail(failed, "no such function")
    ledger.claim(query.id, query.schedule, instant(1), "airflow/r")
    ledger.claim(query.id, query.schedule, instant(2), "airflow/x/by/r")
    ledger.claim(query.id, query.schedule, instant(3), "airflow/other")
    assert query_runs.release_own(context, query.id, "airflow/r", "exit code -9") == "no such function"
    assert [(execution.state, execution.message) for execution in ledger.unfinished(query.id)] == [
        (ExecutionState.FAILED, "no such function"),
        (ExecutionState.FAILED, "exit code -9"),
        (ExecutionState.FAILED, "exit code -9"),
        (ExecutionState.RUNNING, None),
    ]
    assert query_runs.release_own(context, query.id, "airflow/none", "exit code -9") == "exit code -9"


def test_a_query_is_stopped_once_with_one_reason(context: Context, query: JobDefinition) -> None:
    reason = query_runs.stop_failed_query(context, query.id, "exit code -9")
    record = context.catalog.jobs.by_id(query.id)
    assert record.reason == reason
    assert str(reason) == f"[EXECUTION] exit code -9 ({query_runs.RESUME_HINT})"
    assert query_runs.stop_failed_query(context, query.id, "something else") == reason
    assert [event.message for event in context.catalog.events.all("job", query.id)] == [str(reason)]


def test_a_query_that_was_paused_or_dropped_is_not_stopped(context: Context, query: JobDefinition) -> None:
    context.catalog.jobs.set_desired(query.id, DesiredState.PAUSED)
    assert query_runs.stop_failed_query(context, query.id, "x") is None
    context.catalog.jobs.drop(query.id)
    assert query_runs.stop_failed_query(context, query.id, "x") is None
    with pytest.raises(Error):
        context.catalog.jobs.by_id(query.id)
