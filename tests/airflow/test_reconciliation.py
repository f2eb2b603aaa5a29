"""The pass that starts supervision again: a catalog, and a server that responds like Airflow."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.model.clock import ManualClock
from headrace.model.jobs import DesiredState, JobDefinition, JobState, StopReason
from headrace.runtime import supervision
from headrace.runtime.dag_ids import job_dag_id
from headrace.runtime.reconciliation import Reconciler
from headrace.settings import Settings, current, load
from tests.airflow.conftest import NOW
from tests.airflow.rest_server import Server
from tests.airflow.samples import MINUTE, add_query, add_stream, without_spark

pytestmark = pytest.mark.airflow

TASKS = "/api/v2/dags/~/dagRuns/~/taskInstances"
FAILED = StopReason("TYPE", "column v is gone", "fix the cause, then RESUME STREAM", NOW - 5_000)
PASSING = StopReason("OPERATIONAL", "storage does not answer", "it is retried automatically", NOW - 5_000, transient=True)
UNFILLED = StopReason("BACKFILL", "the history could not be filled", "", NOW - 5_000)


@pytest.fixture
def airflow(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Provide an Airflow that supervises nothing."""
    monkeypatch.setenv("HEADRACE_AIRFLOW_URL", server.url)
    current.cache_clear()
    supervise(server)
    return server


@pytest.fixture
def reconciler(airflow: Server, home: Settings, catalog: Catalog, clock: ManualClock) -> Reconciler:
    assert airflow
    return Reconciler(without_spark(load(home=home.home_path), catalog, clock), "default")


def supervise(server: Server, *tasks: dict[str, Any]) -> None:
    """Let tasks `supervise` be active."""
    server.answers["GET", TASKS] = (200, {"task_instances": list(tasks), "total_entries": len(tasks)})


def end_run(
    server: Server, job: JobDefinition, state: str = "success", task: str = "supervise", task_state: str = "skipped"
) -> str:
    """Let the latest scheduled run of a job have ended, and return the path of its DAG."""
    path = f"/api/v2/dags/{job_dag_id(job.kind, job.database, job.name)}"
    run = {"dag_run_id": "r1", "state": state, "run_type": "scheduled"}
    server.answers["GET", f"{path}/dagRuns"] = (200, {"dag_runs": [run]})
    tasks = [{"task_id": task, "state": task_state}]
    server.answers["GET", f"{path}/dagRuns/r1/taskInstances"] = (200, {"task_instances": tasks, "total_entries": 1})
    server.answers["POST", f"{path}/clearTaskInstances"] = (200, {})
    return path


def cleared(server: Server, path: str) -> list[list[str] | None]:
    """Return the tasks of each request to clear some."""
    return [body.get("task_ids") for body in server.bodies("POST", f"{path}/clearTaskInstances")]


def test_supervision_that_has_ended_starts_again(airflow: Server, catalog: Catalog, reconciler: Reconciler) -> None:
    """As after a RESUME that could not reach Airflow."""
    job = catalog.jobs.by_id(add_stream(catalog)).definition
    path = end_run(airflow, job)
    reconciler.reconcile()
    assert cleared(airflow, path) == [["supervise"]]
    assert [event.kind for event in catalog.events.all("job", job.id)] == ["SUPERVISED"]


def test_active_supervision_is_left_alone(airflow: Server, catalog: Catalog, reconciler: Reconciler) -> None:
    job = catalog.jobs.by_id(add_stream(catalog)).definition
    path = end_run(airflow, job)
    dag_id = job_dag_id(job.kind, job.database, job.name)
    supervise(airflow, {"dag_id": dag_id, "state": "deferred", "triggerer_job": {"id": 1}})
    reconciler.reconcile()
    assert cleared(airflow, path) == []


@pytest.mark.parametrize(
    ("desired", "state", "reason", "is_reported", "is_restarted"),
    [
        (DesiredState.PAUSED, JobState.PAUSED, None, False, False),
        (DesiredState.RUNNING, JobState.STOPPED, PASSING, True, True),
        (DesiredState.RUNNING, JobState.STOPPED, FAILED, False, True),
        (DesiredState.RUNNING, JobState.STOPPED, FAILED, True, False),
        (DesiredState.RUNNING, JobState.STOPPED, UNFILLED, False, False),
    ],
)
def test_a_stop_is_reported_once_and_a_reported_one_is_left_to_the_user(
    airflow: Server,
    catalog: Catalog,
    reconciler: Reconciler,
    desired: DesiredState,
    state: JobState,
    reason: StopReason | None,
    is_reported: bool,
    is_restarted: bool,
) -> None:
    stream = add_stream(catalog, state=state, reason=reason)
    catalog.jobs.set_desired(stream, desired)
    if is_reported and reason is not None:
        supervision.record_report(catalog, stream, reason, task_try="1")
    path = end_run(airflow, catalog.jobs.by_id(stream).definition, "failed", task_state="failed")
    reconciler.reconcile()
    assert bool(cleared(airflow, path)) is is_restarted


def test_a_stream_that_is_stopped_and_reported_meanwhile_is_left_alone(
    airflow: Server, catalog: Catalog, reconciler: Reconciler
) -> None:
    """Otherwise its supervision would take the cleared task for a user's wish to resume the stream."""
    stream = add_stream(catalog)
    path = end_run(airflow, catalog.jobs.by_id(stream).definition, "failed", task_state="failed")
    answer = airflow.answers["GET", f"{path}/dagRuns"]

    def stop(_: dict[str, list[str]]) -> tuple[int, Any]:
        catalog.jobs.set_state(stream, JobState.STOPPED, FAILED)
        supervision.record_report(catalog, stream, FAILED, task_try="1")
        assert not callable(answer)
        return answer

    airflow.answers["GET", f"{path}/dagRuns"] = stop
    reconciler.reconcile()
    assert cleared(airflow, path) == []


def test_a_run_of_a_dropped_stream_of_the_same_name_is_left_alone(
    airflow: Server, catalog: Catalog, reconciler: Reconciler
) -> None:
    job = catalog.jobs.by_id(add_stream(catalog)).definition
    path = end_run(airflow, job)
    answer, due = airflow.answers["GET", f"{path}/dagRuns"], "2020-01-01T00:00:00+00:00"

    def page(query: dict[str, list[str]]) -> tuple[int, Any]:
        return (200, {"dag_runs": []}) if query.get("run_after_gte", [""])[0] > due else answer  # type: ignore[return-value]

    airflow.answers["GET", f"{path}/dagRuns"] = page
    reconciler.reconcile()
    assert cleared(airflow, path) == []


def test_a_query_that_airflow_executes_is_helped_if_it_is_late(
    airflow: Server, catalog: Catalog, reconciler: Reconciler, clock: ManualClock
) -> None:
    """Its last run was skipped while it was paused; it was resumed when Airflow was away."""
    late = add_query(catalog, "late", every=60 * MINUTE, first=NOW - 5 * MINUTE)
    punctual = add_query(catalog, "punctual", every=60 * MINUTE, first=NOW + 5 * MINUTE)
    paths = [end_run(airflow, job, task="execute") for job in (late, punctual)]
    reconciler.reconcile()
    assert clock.now() == NOW
    assert [cleared(airflow, path) for path in paths] == [[["execute"]], []]


def test_a_dag_that_airflow_does_not_know_yet_does_not_end_the_pass(
    airflow: Server, catalog: Catalog, reconciler: Reconciler
) -> None:
    add_stream(catalog, "a_new")
    path = end_run(airflow, catalog.jobs.by_id(add_stream(catalog)).definition)
    reconciler.reconcile()
    assert cleared(airflow, path) == [["supervise"]]


def test_supervision_without_a_triggerer_is_reported_once(airflow: Server, catalog: Catalog, reconciler: Reconciler) -> None:
    waiting = {"dag_id": "headrace_stream__power__avg_v", "state": "deferred", "triggerer_job": None}
    supervise(airflow, waiting)
    reconciler.reconcile()
    assert catalog.events.all("snode") == []
    for _ in range(2):
        reconciler.reconcile()
    (event,) = catalog.events.all("snode")
    assert "headrace_stream__power__avg_v" in event.message
    supervise(airflow, waiting | {"triggerer_job": {"id": 1}})
    reconciler.reconcile()
    assert len(catalog.events.all("snode")) == 1
