"""The maintenance DAG, and what its tasks do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

import headrace
from headrace.runtime.airflow import AirflowClient
from headrace.runtime.dag_ids import MAINTENANCE_DAG
from headrace.runtime.login import Login
from headrace.settings import Settings, current, load
from headrace_generators import generate
from headrace_maintenance import DeleteOldRuns, MaintainTables
from tests.airflow.rest_server import Server

pytestmark = pytest.mark.airflow
RUNS = "/api/v2/dags/~/dagRuns"


def test_small_files_are_compacted(home: Settings) -> None:
    with headrace.connect(settings=home) as connection:
        connection.execute("CREATE DATABASE power")
        connection.execute("CREATE TABLE power.meter (ts TIMESTAMP, v INT)")
        for second in range(12):
            connection.execute(f"INSERT INTO power.meter VALUES ('2026-01-01 00:00:{second:02}', {second})")
        done = MaintainTables(task_id="maintain_tables").execute({})
        assert done == {"tables": 1, "dropped": 0, "compacted": 12, "removed": 0}
        assert MaintainTables(task_id="maintain_tables").execute({})["compacted"] == 0


def test_old_runs_are_left_to_the_scheduler_of_the_embedded_airflow(home: Settings) -> None:
    assert home
    with pytest.raises(AirflowSkipException, match="set HEADRACE_AIRFLOW_URL"):
        DeleteOldRuns(task_id="delete_old_runs").execute({})


def test_old_runs_of_our_dags_are_deleted_from_another_airflow(
    server: Server, home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert home
    runs = [("headrace_stream__a__b", "r1"), ("report", "r2"), ("headrace_maintenance", "r3")]

    def list_runs(query: dict[str, list[str]]) -> tuple[int, Any]:
        offset = int(query["offset"][0])
        return 200, {"dag_runs": [{"dag_id": dag, "dag_run_id": run} for dag, run in runs[offset:]]}

    def delete(dag: str, run: str) -> Any:
        def answer(_: dict[str, list[str]]) -> tuple[int, Any]:
            runs.remove((dag, run))
            return 204, None

        return answer

    server.answers["GET", RUNS] = list_runs
    for dag, run in list(runs):
        server.answers["DELETE", f"/api/v2/dags/{dag}/dagRuns/{run}"] = delete(dag, run)
    monkeypatch.setenv("HEADRACE_AIRFLOW_URL", server.url)
    monkeypatch.setenv("HEADRACE_AIRFLOW_TOKEN", "t0")
    current.cache_clear()
    assert DeleteOldRuns(task_id="delete_old_runs").execute({}) == 2
    assert runs == [("report", "r2")]
    assert ("POST", "/auth/token", None) not in server.requests


def test_a_token_is_not_replaced_when_it_is_refused(server: Server) -> None:
    server.answers["GET", RUNS] = (401, {"detail": "expired"})
    with AirflowClient(Login(server.url, "", "", "t0")) as client, pytest.raises(headrace.OperationalError, match="login or token"):
        client.delete_ended_runs(datetime.now(UTC))
    assert [path for _, path, _ in server.requests] == [RUNS]


@pytest.mark.parametrize(("schedule", "expected"), [("0 3 * * *", [MAINTENANCE_DAG]), ("", [])])
def test_the_dag_has_the_schedule_of_the_settings(
    home: Settings, monkeypatch: pytest.MonkeyPatch, schedule: str, expected: list[str]
) -> None:
    assert home
    monkeypatch.setenv("HEADRACE_MAINTENANCE_SCHEDULE", schedule)
    current.cache_clear()
    dags = list(generate(MAINTENANCE_DAG))
    assert [dag.dag_id for dag in dags] == expected
    assert all(set(dag.task_ids) == {"maintain_tables", "delete_old_runs"} for dag in dags)
    assert load().maintenance_schedule == schedule
