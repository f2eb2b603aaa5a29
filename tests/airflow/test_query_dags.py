"""The DAGs of continuous queries, and their tasks as far as they start no Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.model.jobs import DesiredState, JobState, StopReason
from headrace.model.tree_statements import TimeoutPolicy
from headrace.runtime.query_runs import RunType
from headrace.settings import Settings
from tests.airflow.samples import MINUTE, add_query

pytestmark = pytest.mark.airflow

QUERY = "headrace_cq__q"


def generated(only: str | None = QUERY) -> dict[str, Any]:
    from headrace_generators import generate

    return {dag.dag_id: dag for dag in generate(only)}


def serialized(dag: Any) -> Any:
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.from_dict(DagSerialization.to_dict(dag))


def task_context(run_type: str = "scheduled", **options: Any) -> dict[str, Any]:
    """Return what a task gets to know of its run."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    dag_run = SimpleNamespace(
        run_id="r", run_type=run_type, run_after=start, data_interval_start=start, start_date=start, clear_number=0
    )
    return {"dag_run": dag_run, "params": {"from": None, "to": None}, **options}


def test_each_execution_has_a_run_and_blocked_ones_catch_up(catalog: Catalog) -> None:
    add_query(catalog)
    add_query(catalog, "latest", policy=TimeoutPolicy.DISCARD)
    dags = {dag_id: serialized(dag) for dag_id, dag in generated(None).items()}
    assert [(dags[name].catchup, dags[name].max_active_runs) for name in (QUERY, "headrace_cq__latest")] == [(True, 1), (False, 1)]
    assert dags[QUERY].timetable.periodic
    first = dags[QUERY].next_dagrun_info(last_automated_run_info=None)
    assert first.run_after.timestamp() == 0
    assert [run.logical_date.isoformat() for run in dags[QUERY].iter_dagrun_infos_between(*minutes(3, 5))] == [
        "2026-01-01T00:03:00+00:00",
        "2026-01-01T00:04:00+00:00",
        "2026-01-01T00:05:00+00:00",
    ]


def minutes(*numbers: int) -> list[datetime]:
    return [datetime(2026, 1, 1, 0, number, tzinfo=UTC) for number in numbers]


def test_the_dag_of_a_query_is_always_generated_identically(catalog: Catalog) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    query = add_query(catalog)
    first = DagSerialization.to_dict(generated()[QUERY])
    catalog.jobs.set_desired(query.id, DesiredState.PAUSED)
    assert DagSerialization.to_dict(generated()[QUERY]) == first


def test_a_run_is_one_guarded_spark_job_in_the_pool_of_queries(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.settings import current

    monkeypatch.setenv("HEADRACE_CQ_POOL", "headrace_cq")
    monkeypatch.setenv("HEADRACE_CQ_ATTEMPTS", "5")
    current.cache_clear()
    add_query(catalog)
    (task,) = generated()[QUERY].tasks
    assert (task.task_id, task.pool, task.retries) == ("execute", "headrace_cq", 4)
    command = task._get_hook()._build_spark_submit_command(task.application)
    assert command[0].endswith("/bin/spark-submit-guard")
    assert command[-1].endswith("/spark_jobs/continuous_query.py")


def test_a_query_that_is_due_often_is_only_supervised(catalog: Catalog, home: Settings) -> None:
    query = add_query(catalog, every=home.cq_resident_every_ms - 1)
    dag = generated()[QUERY]
    order = {task.task_id: set(task.downstream_task_ids) for task in dag.tasks}
    assert order == {"recompute": set(), "begin": {"supervise"}, "supervise": set()}
    assert dag.get_task("supervise").start_trigger_args.trigger_kwargs == {"job_id": query.id}
    assert not serialized(dag).timetable.periodic


def test_the_scheduled_run_of_such_a_query_supervises_and_a_manual_one_recomputes(catalog: Catalog) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    add_query(catalog, every=1_000)
    dag = generated()[QUERY]
    dag.get_task("begin").execute(task_context())
    for task_id, run_type in (("recompute", "scheduled"), ("begin", "manual")):
        with pytest.raises(AirflowSkipException):
            dag.get_task(task_id).execute(task_context(run_type))


def test_the_documentation_shows_the_statement_and_the_policy(catalog: Catalog) -> None:
    query = add_query(catalog)
    doc = str(generated()[QUERY].doc_md)
    assert query.sql in doc
    assert "**BLOCKED**" in doc
    assert "`root.out.d`" in doc


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED", "DROPPED"])
def test_the_task_of_a_query_that_does_not_run_is_skipped_with_the_reason(catalog: Catalog, state: str) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    query = add_query(catalog)
    task = generated()[QUERY].get_task("execute")
    reason = StopReason("TYPE", "a value does not fit", "", 1)
    match state:
        case "PAUSED":
            catalog.jobs.set_desired(query.id, DesiredState.PAUSED)
        case "STOPPED":
            catalog.jobs.set_state(query.id, JobState.STOPPED, reason)
        case _:
            catalog.jobs.drop(query.id)
    with pytest.raises(AirflowSkipException) as skipped:
        task.execute(task_context())
    assert state in str(skipped.value).upper()
    assert str(reason) in str(skipped.value) or state != "STOPPED"


def test_a_run_whose_instant_is_done_starts_no_spark(catalog: Catalog) -> None:
    query = add_query(catalog, policy=TimeoutPolicy.DISCARD)
    instant = round(datetime(2026, 1, 1, 0, 1, tzinfo=UTC).timestamp() * 1000)
    catalog.executions.finish(catalog.executions.claim(query.id, query.schedule, instant, "snode default"), 1)
    task = generated()[QUERY].get_task("execute")
    task.execute(task_context(ti=SimpleNamespace(try_number=1, max_tries=2)))
    assert task.application_args is None


@pytest.mark.parametrize("run_type", ["operator_triggered", "asset_triggered", "asset_materialization"])
def test_a_run_that_another_dag_or_an_asset_triggers_is_like_one_that_a_user_does(catalog: Catalog, run_type: str) -> None:
    from headrace_queries import query_run

    query = add_query(catalog)
    assert query_run(task_context(run_type)["dag_run"], query.schedule).type is RunType.MANUAL


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"from": None, "to": None}, None),
        ({"from": "2026-01-01T00:00:00+01:00", "to": None}, (1_767_222_000_000, None)),
        ({"from": None, "to": "2026-01-01T00:00:00"}, (None, 1_767_225_600_000)),
    ],
)
def test_a_form_becomes_a_range(catalog: Catalog, form: dict[str, Any], expected: Any) -> None:
    from headrace_queries import form_range

    query = add_query(catalog)
    assert form_range(form, catalog.jobs.by_id(query.id)) == expected


def test_the_failure_of_a_scheduled_run_stops_the_query(catalog: Catalog) -> None:
    from headrace_queries import stop_query_on_failure

    query = add_query(catalog, every=MINUTE)
    task = generated()[QUERY].get_task("execute")
    stop_query_on_failure(task_context("backfill", task=task, exception=ValueError("boom")))
    assert catalog.jobs.by_id(query.id).state is JobState.RUNNING
    stop_query_on_failure(task_context(task=task, exception=ValueError("boom")))
    assert "boom" in str(catalog.jobs.by_id(query.id).reason)
