"""`headrace airflow setup` against a server that responds like Airflow. `test_system_provider.py` has a real one."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.app import app
from headrace.cli.doctor_airflow import check_setup
from headrace.errors import ConfigurationError, Error, OperationalError
from headrace.runtime.dag_ids import MAINTENANCE_DAG, SPARK_CONNECTION, snode_dag_id
from headrace.runtime.processes import find_free_port
from headrace.service.connecting import connect
from headrace.settings import Settings, load
from tests.airflow.rest_server import Server

DAGS, POOL, CONNECTION = "/api/v2/dags", "/api/v2/pools/own", f"/api/v2/connections/{SPARK_CONNECTION}"
pytestmark = pytest.mark.airflow


@pytest.fixture
def external(server: Server, home: Settings, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Return an Airflow that is set up, and that the settings name."""
    for name, value in (("URL", server.url), ("TOKEN", "t")):
        monkeypatch.setenv(f"HEADRACE_AIRFLOW_{name}", value)
    for name in ("HEADRACE_BACKFILL_POOL", "HEADRACE_CQ_POOL"):
        monkeypatch.setenv(name, "own")
    monkeypatch.setenv("HEADRACE_SPARK_MASTER", "spark://master:7077")
    slots = home.backfill_slots + home.cq_threads
    server.answers["GET", "/api/v2/version"] = (200, {"version": "3.3.1"})
    server.answers["GET", "/api/v2/monitor/health"] = (
        200,
        {name: {"status": "healthy"} for name in ("scheduler", "triggerer", "dag_processor")},
    )
    server.answers["PUT", "/api/v2/parseDagFile/abc"] = (201, None)
    server.answers["GET", CONNECTION] = (200, {"conn_type": "spark", "host": "spark://master:7077", "port": None})
    server.answers["GET", POOL] = (200, {"slots": slots})
    server.answers["GET", "/api/v2/importErrors"] = (200, {"import_errors": []})
    server.answers["GET", "/api/v2/plugins/importErrors"] = (200, {"import_errors": []})
    with_dags(server, {MAINTENANCE_DAG: False, snode_dag_id("default"): False})
    return server


def with_dags(server: Server, dags: dict[str, bool]) -> None:
    """Let the server have DAGs, by id whether they are paused."""
    records = [{"dag_id": name, "is_paused": is_paused, "file_token": "abc"} for name, is_paused in dags.items()]
    server.answers["GET", DAGS] = (200, {"dags": records, "total_entries": len(records)})


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["airflow", "setup", *options])


def changes(server: Server) -> list[tuple[str, str, Any]]:
    return [request for request in server.requests if request[0] != "GET"]


def test_what_is_as_it_should_be_is_left_alone(external: Server) -> None:
    result = run()
    assert result.stdout == f"Airflow 3.3.1 at {external.url} needs no change\n"
    assert changes(external) == []
    assert check_setup(load()) == "has the connection, the pools and the DAGs"


def test_a_connection_may_have_its_port_apart(external: Server) -> None:
    external.answers["GET", CONNECTION] = (200, {"conn_type": "spark", "host": "spark://master", "port": 7077})
    assert "needs no change" in run().stdout


def test_a_dry_run_says_what_would_be_changed(external: Server) -> None:
    external.answers["GET", CONNECTION] = (200, {"conn_type": "spark", "host": "yarn"})
    external.answers["GET", POOL] = (404, {})
    with_dags(external, {MAINTENANCE_DAG: True, snode_dag_id("default"): False, "headrace-like": True})
    result = run("--dry-run")
    assert result.exit_code == 0
    assert [line.partition(", with")[0] for line in result.stdout.splitlines()] == [
        "would update the connection headrace_spark, to spark://master:7077",
        "would create the pool own",
        f"would unpause the DAG {MAINTENANCE_DAG}",
    ]
    assert changes(external) == []
    with pytest.raises(ConfigurationError, match="update the connection headrace_spark"):
        check_setup(load())
    assert "Not ready: Airflow is not set up" in CliRunner().invoke(app, ["status"]).stderr


def test_dags_of_snodes_stay_paused_if_airflow_does_not_run_snodes(external: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SNODES_IN_AIRFLOW", "false")
    with_dags(external, {snode_dag_id("default"): True})
    assert "needs no change" in run().stdout


@pytest.mark.usefixtures("external")
def test_airflows_own_pool_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADRACE_BACKFILL_POOL", "HEADRACE_CQ_POOL"):
        monkeypatch.delenv(name)
    result = run()
    assert "needs no change" in result.stdout
    assert "name pools by HEADRACE_BACKFILL_POOL" in result.stderr


def test_missing_dags_are_an_error_once_the_rest_is_done(external: Server) -> None:
    external.answers["GET", CONNECTION] = (404, {})
    external.answers["POST", "/api/v2/connections"] = (201, {})
    external.answers["GET", "/api/v2/importErrors"] = (
        200,
        {"import_errors": [{"filename": "/dags/headrace_dags.py", "stack_trace": "Boom"}]},
    )
    with_dags(external, {})
    error = run().exception
    assert isinstance(error, OperationalError)
    assert error.message.endswith("does not have any DAGs of Headrace yet; import error: /dags/headrace_dags.py: Boom")
    assert external.bodies("POST", "/api/v2/connections") == [
        {"connection_id": SPARK_CONNECTION, "conn_type": "spark", "host": "spark://master:7077", "port": None}
    ]


@pytest.mark.usefixtures("external")
def test_an_airflow_with_another_catalog_is_noticed(home: Settings) -> None:
    with connect(home=str(home.home_path)) as connection:
        connection.execute("CREATE DATABASE power")
        connection.execute("CREATE TABLE power.t (ts TIMESTAMP, a INT)")
        connection.execute("CREATE STREAM power.s INTO power.o AS SELECT _wstart, count(*) n FROM power.t INTERVAL(1m)")
    error = run().exception
    assert isinstance(error, OperationalError)
    assert error.message.endswith("does not have 1 DAGs such as headrace_stream__power__s yet")


def test_an_airflow_that_cannot_be_used_is_named(external: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    external.answers["GET", "/api/v2/version"] = (200, {"version": "2.11.0"})
    assert isinstance(run().exception, ConfigurationError)
    monkeypatch.setenv("HEADRACE_AIRFLOW_URL", f"http://127.0.0.1:{find_free_port()}")
    away = run().exception
    assert isinstance(away, OperationalError)
    assert "HEADRACE_AIRFLOW_URL" in away.hint
    monkeypatch.delenv("HEADRACE_AIRFLOW_URL")
    assert isinstance(run().exception, Error)
