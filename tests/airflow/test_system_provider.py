"""The DAG of the page about DAGs of users runs in a real system."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.cli.doctor_airflow import check_airflow, check_components, check_pools, check_ports
from headrace.runtime.dag_ids import BACKFILL_POOL, MAINTENANCE_DAG, SPARK_CONNECTION
from headrace.settings import load
from headrace.sql import lexical_rules_of
from tests.airflow.own_dags import PAGE
from tests.airflow.running import RunningSystem
from tests.docs.pages import parse_blocks

pytestmark = [pytest.mark.airflow, pytest.mark.e2e]
DAG_ID, SCHEDULED_ID = "plant_report", "boiler_report"


def test_the_example_runs(up: RunningSystem) -> None:
    # Before windows close: Airflow does not run a DAG for an event from while it was paused.
    for dag_id in (DAG_ID, SCHEDULED_ID):
        up.until(lambda dag_id=dag_id: up.client.dag(dag_id), f"{dag_id} to be known")  # type: ignore[misc]
        up.client._call("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})
    setup = next(block.text for block in parse_blocks(PAGE) if block.language == "sql")
    for statement in lexical_rules_of().statements(setup):
        up.sql(statement)
    run_id = up.trigger(DAG_ID, {})
    tasks = up.until(lambda: ended_tasks(up, run_id), "the run to end")
    assert set(tasks.values()) == {"success"}, tasks
    assert set(tasks) == {"caught_up", "closed", "recompute", "verify", "report", "hottest"}
    assert xcom(up, run_id, "verify") == 2
    # Airflow keeps a tuple as a dictionary, with its values as data.
    assert [row["__data__"][1] for row in xcom(up, run_id, "report")] == [65.0, 70.0]
    assert xcom(up, run_id, "hottest") == 70.0
    ranges = up.until(lambda: closed_ranges(up), "a run after windows have closed")
    assert {"job": "plant.averages", "until": "2026-01-01T12:02:00.000+00:00"}.items() <= ranges[0].items()
    up.sql("DROP STREAM plant.averages")
    up.sql("DROP DATABASE plant")


def test_the_maintenance_runs_beside_streams(up: RunningSystem) -> None:
    run_id = up.trigger(MAINTENANCE_DAG, {})
    tasks = up.until(lambda: ended_tasks(up, run_id, MAINTENANCE_DAG), "the maintenance to end")
    assert tasks == {"maintain_tables": "success", "delete_old_runs": "skipped"}
    assert xcom(up, run_id, "maintain_tables", MAINTENANCE_DAG).keys() == {"tables", "dropped", "compacted", "removed"}


def test_a_running_system_is_well(up: RunningSystem) -> None:
    settings = up.settings
    assert check_airflow(settings).startswith("3.3")
    assert "healthy" in check_components(settings)
    assert f"{BACKFILL_POOL} has 2 slots" in check_pools(settings)
    assert f"Airflow {settings.airflow_port} ours" in check_ports(settings)


def test_an_airflow_that_a_user_has_is_set_up_once(up: RunningSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "HEADRACE_HOME": str(up.settings.home_path),
        "HEADRACE_AIRFLOW_URL": up.started.url,
        "HEADRACE_AIRFLOW_USER": up.started.user,
        "HEADRACE_AIRFLOW_PASSWORD": up.started.password,
        **dict.fromkeys(("HEADRACE_BACKFILL_POOL", "HEADRACE_CQ_POOL"), "own"),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    up.client._call("PATCH", f"/api/v2/dags/{MAINTENANCE_DAG}", json={"is_paused": True})
    for options in (["--dry-run"], ["--dry-run"], []):
        lines = run_setup(*options)
        assert [line.removeprefix("would ").partition(", ")[0] for line in lines] == [
            f"create the connection {SPARK_CONNECTION}",
            "create the pool own",
            f"unpause the DAG {MAINTENANCE_DAG}",
        ]
    assert run_setup()[0].endswith("needs no change")
    assert "Airflow: 3.3" in CliRunner().invoke(app, ["status"]).stdout
    up.client.set_connection(SPARK_CONNECTION, {"host": "elsewhere", "conn_type": "spark"}, exists=True)
    assert [line.partition(",")[0] for line in run_setup()] == [f"update the connection {SPARK_CONNECTION}"]
    connection = up.client.connection(SPARK_CONNECTION)
    assert connection is not None
    assert connection["host"] == load().spark_master


def run_setup(*options: str) -> list[str]:
    """Run the command, and return what it prints."""
    result = CliRunner().invoke(app, ["airflow", "setup", *options])
    assert result.exception is None, result.exception
    return result.stdout.splitlines()


def ended_tasks(system: RunningSystem, run_id: str, dag_id: str = DAG_ID) -> dict[str, str] | None:
    """Return the states of the tasks of a run that has ended; None before that."""
    (run,) = (run for run in system.client.runs(dag_id) if run["dag_run_id"] == run_id)
    if run["state"] not in ("success", "failed"):
        return None
    return {task["task_id"]: task["state"] for task in system.client.tasks(dag_id, run_id)}


def closed_ranges(system: RunningSystem) -> list[dict[str, Any]]:
    """Return the events of closed windows that a run of the scheduled DAG has got; none before there is such a run."""
    runs = [run["dag_run_id"] for run in system.client.runs(SCHEDULED_ID) if run["state"] == "success"]
    return next((ranges for run in runs if (ranges := xcom(system, run, "closed_windows", SCHEDULED_ID))), [])


def xcom(system: RunningSystem, run_id: str, task_id: str, dag_id: str = DAG_ID) -> Any:
    """Return what a task has returned."""
    path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
    value = system.client._get(path, {"deserialize": False})["value"]
    return json.loads(value) if isinstance(value, str) else value
