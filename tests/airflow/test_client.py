"""The client of Airflow's REST API, against a server that responds like Airflow."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import OperationalError
from headrace.runtime import airflow
from headrace.runtime.airflow import AirflowClient
from headrace.runtime.login import Login
from headrace.runtime.processes import find_free_port
from headrace.settings import load
from tests.airflow.rest_server import Server
from tests.airflow.stream_dags import stream_dag_id
from tests.support.waiting import wait_until

DAG = "/api/v2/dags/headrace_stream__power__avg_v"


@pytest.fixture
def client(server: Server) -> Iterator[AirflowClient]:
    with AirflowClient(Login(server.url, "admin", "secret")) as client:
        yield client


def with_run(
    server: Server,
    state: str,
    *states: str | None,
    run_type: str = "scheduled",
    conf: Any = None,
    task_id: str = "supervise",
) -> None:
    """Let the stream's DAG have one run, with tasks in these states."""
    run = {"dag_run_id": "r1", "state": state, "run_type": run_type, "conf": conf}
    tasks = [{"task_id": task_id, "state": task_state} for task_state in states]
    server.answers["GET", f"{DAG}/dagRuns"] = lambda query: (200, {"dag_runs": [run] if run_type in query["run_type"] else []})
    server.answers["GET", f"{DAG}/dagRuns/r1/taskInstances"] = (200, {"task_instances": tasks, "total_entries": len(tasks)})
    server.answers["POST", f"{DAG}/clearTaskInstances"] = (200, {})
    server.answers["POST", f"{DAG}/dagRuns"] = (200, {"dag_run_id": "r2"})


def test_without_an_airflow_nothing_fails() -> None:
    with AirflowClient(Login(f"http://127.0.0.1:{find_free_port()}", "admin", "secret")) as client:
        assert not client.announce()
        assert not client.supervise(stream_dag_id("power", "avg_v"))
        with pytest.raises(OperationalError, match="cannot be reached") as raised:
            client.dag("any")
    assert "headrace up" in raised.value.hint


def test_without_a_started_airflow_there_is_no_client(tmp_path: Path) -> None:
    assert AirflowClient.find(load(home=tmp_path)) is None


def test_a_wrong_login_is_reported_without_the_password(server: Server, client: AirflowClient) -> None:
    server.answers["POST", "/auth/token"] = (401, {})
    with pytest.raises(OperationalError, match="refused the login 'admin'") as raised:
        client.runs("any")
    assert "secret" not in str(raised.value)
    assert not client.announce()


def test_announcing_has_the_dag_file_parsed_again(server: Server, client: AirflowClient) -> None:
    server.answers["GET", "/api/v2/dags"] = (200, {"dags": [{"dag_id": "headrace_snode__x", "file_token": "abc"}]})
    server.answers["PUT", "/api/v2/parseDagFile/abc"] = (201, None)
    assert client.announce()
    assert server.bodies("PUT", "/api/v2/parseDagFile/abc") == [None]


def test_announcing_fails_before_the_dags_have_been_parsed(server: Server, client: AirflowClient) -> None:
    server.answers["GET", "/api/v2/dags"] = (200, {"dags": []})
    assert not client.announce()


def test_a_token_that_has_expired_is_renewed(server: Server, client: AirflowClient) -> None:
    server.answers["GET", "/api/v2/dags/x"] = (401, {})
    client._token = "old"
    with pytest.raises(OperationalError, match="401"):
        client._get("/api/v2/dags/x")
    assert len(server.bodies("POST", "/auth/token")) == 1


def test_only_failed_tasks_of_a_run_are_cleared(server: Server, client: AirflowClient) -> None:
    with_run(server, "failed", "upstream_failed")
    assert client.supervise(stream_dag_id("power", "avg_v"))
    (body,) = server.bodies("POST", f"{DAG}/clearTaskInstances")
    assert (body["only_failed"], body["dry_run"], "task_ids" in body) == (True, False, False)


def test_supervision_that_was_skipped_is_cleared(server: Server, client: AirflowClient) -> None:
    with_run(server, "success", "skipped")
    assert client.supervise(stream_dag_id("power", "avg_v"))
    (body,) = server.bodies("POST", f"{DAG}/clearTaskInstances")
    assert body["task_ids"] == ["supervise"]


@pytest.mark.parametrize(("state", "cleared"), [("skipped", [["execute"]]), ("success", [])])
def test_an_execution_is_cleared_if_it_was_left_out(
    server: Server, client: AirflowClient, state: str, cleared: list[list[str]]
) -> None:
    """One that was done must not be repeated because its query was paused and resumed."""
    with_run(server, "success", state, task_id="execute")
    assert client.supervise(stream_dag_id("power", "avg_v"))
    assert [body["task_ids"] for body in server.bodies("POST", f"{DAG}/clearTaskInstances")] == cleared


def test_an_ending_run_is_cleared_after_its_end(server: Server, client: AirflowClient) -> None:
    """If it were cleared earlier, the scheduler would still end it, and nothing would supervise the stream."""
    with_run(server, "success", "skipped")
    ended_run = server.answers.pop(("GET", f"{DAG}/dagRuns"))
    with_run(server, "running", "skipped")
    client_thread = threading.Thread(target=client.supervise, args=(stream_dag_id("power", "avg_v"),))
    client_thread.start()
    wait_until(lambda: server.bodies("GET", f"{DAG}/dagRuns/r1/taskInstances"), "the client to read the tasks")
    assert server.bodies("POST", f"{DAG}/clearTaskInstances") == []
    server.answers["GET", f"{DAG}/dagRuns"] = ended_run
    client_thread.join()
    assert len(server.bodies("POST", f"{DAG}/clearTaskInstances")) == 1


@pytest.mark.parametrize("state", ["deferred", "up_for_retry", "scheduled", None])
def test_active_supervision_is_not_cleared(server: Server, client: AirflowClient, state: str | None) -> None:
    with_run(server, "running", state)
    assert client.supervise(stream_dag_id("power", "avg_v"))
    assert server.bodies("POST", f"{DAG}/clearTaskInstances") == []


def test_without_a_scheduled_run_nothing_is_cleared(server: Server, client: AirflowClient) -> None:
    with_run(server, "success", "skipped", run_type="manual", conf={"from": None})
    assert client.supervise(stream_dag_id("power", "avg_v"))
    assert {method for method, _, _ in server.requests} == {"POST", "GET"}
    assert server.bodies("POST", f"{DAG}/dagRuns") == server.bodies("POST", f"{DAG}/clearTaskInstances") == []


def test_a_backfill_is_tried_again_while_the_database_is_locked(
    server: Server, client: AirflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow, "SETTLING_S", 0.001)
    refusals = 3 * airflow.MAX_BUSY_RETRIES
    locked = iter([(503, {"detail": "Database is locked."})] * refusals + [(201, {})])
    server.answers["POST", "/api/v2/backfills"] = lambda _: next(locked)
    day = datetime(2024, 5, 1, tzinfo=UTC)
    client.backfill("headrace_cq__hourly", day, day)
    assert len(server.bodies("POST", "/api/v2/backfills")) == refusals + 1


def test_all_pages_of_a_runs_tasks_are_read(server: Server, client: AirflowClient) -> None:
    instances = [{"task_id": "fill_history", "map_index": index} for index in range(250)]

    def page(query: dict[str, list[str]]) -> tuple[int, Any]:
        first, limit = int(query["offset"][0]), min(100, int(query["limit"][0]))
        return 200, {"task_instances": instances[first : first + limit], "total_entries": len(instances)}

    server.answers["GET", f"{DAG}/dagRuns/r1/taskInstances"] = page
    assert client.tasks("headrace_stream__power__avg_v", "r1") == instances


def test_a_stale_dag_does_not_exist(server: Server, client: AirflowClient) -> None:
    server.answers["GET", "/api/v2/dags/gone"] = (200, {"dag_id": "gone", "is_stale": True})
    assert client.dag("gone") is None
    assert client.dag("never") is None


def test_a_resumed_job_is_supervised_however_many_manual_runs_its_dag_has(server: Server, client: AirflowClient) -> None:
    with_run(server, "success", "skipped")
    scheduled = {"dag_run_id": "r1", "state": "success", "run_type": "scheduled"}
    manual = [{"dag_run_id": f"m{number}", "state": "success", "run_type": "manual"} for number in range(20)]

    def page(query: dict[str, list[str]]) -> tuple[int, Any]:
        runs = [run for run in (*manual, scheduled) if run["run_type"] in query.get("run_type", ["manual", "scheduled"])]
        return 200, {"dag_runs": runs[: int(query["limit"][0])]}

    server.answers["GET", f"{DAG}/dagRuns"] = page
    assert client.supervise(stream_dag_id("power", "avg_v"))
    (body,) = server.bodies("POST", f"{DAG}/clearTaskInstances")
    assert (body["dag_run_id"], body["task_ids"]) == ("r1", ["supervise"])


def test_the_supervision_of_more_streams_than_fit_on_a_page_is_found(server: Server, client: AirflowClient) -> None:
    states = [("deferred", {"id": 1})] * 240 + [("deferred", None), ("queued", None)]
    tasks = [{"dag_id": f"s{number}", "state": state, "triggerer_job": job} for number, (state, job) in enumerate(states)]

    def page(query: dict[str, list[str]]) -> tuple[int, Any]:
        first, limit = int(query["offset"][0]), min(100, int(query["limit"][0]))
        return 200, {"task_instances": tasks[first : first + limit], "total_entries": len(tasks)}

    server.answers["GET", "/api/v2/dags/~/dagRuns/~/taskInstances"] = page
    supervised = client.find_supervised()
    assert len(supervised) == len(tasks)
    assert [dag_id for dag_id, has_triggerer in supervised.items() if not has_triggerer] == ["s240"]
