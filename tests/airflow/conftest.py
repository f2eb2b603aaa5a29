"""A temporary Airflow home, set before Airflow is imported, and the catalog that DAGs, triggers and page share."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

ROOT = Path(__file__).parents[2]
AIRFLOW_HOME = tempfile.mkdtemp(prefix="headrace-airflow-tests-")
OWNER = os.getpid()
os.environ |= {
    "AIRFLOW_HOME": AIRFLOW_HOME,
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{AIRFLOW_HOME}/airflow.db",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
}
sys.path[:0] = [str(ROOT / "plugins"), str(ROOT / "dags")]

from headrace.catalog import Catalog  # noqa: E402
from headrace.model.clock import ManualClock  # noqa: E402
from headrace.settings import Settings, current, load  # noqa: E402
from headrace.web.app import create_app  # noqa: E402
from tests.airflow.own_dags import write_own_dags  # noqa: E402
from tests.airflow.rest_server import Server, running_rest_server  # noqa: E402
from tests.airflow.running import RunningSystem, running_system  # noqa: E402
from tests.airflow.web_page import Executed, Rights  # noqa: E402
from tests.support.postgres import find_programs, running_server  # noqa: E402

NOW = 1_790_000_000_000


@atexit.register
def remove_airflow_home() -> None:
    """Remove the home, unless this is a child that ends."""
    if os.getpid() == OWNER:
        shutil.rmtree(AIRFLOW_HOME, ignore_errors=True)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Provide the settings of a home that is configured in the environment, as for a task or a trigger."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADRACE_MAINTENANCE_SCHEDULE", "")
    current.cache_clear()
    yield load()
    current.cache_clear()


@pytest.fixture
def catalog(home: Settings, clock: ManualClock) -> Iterator[Catalog]:
    with Catalog.open(home.catalog, clock=clock.now) as opened:
        yield opened


@pytest.fixture
def rights() -> Rights:
    return Rights()


@pytest.fixture
def executed() -> Executed:
    return Executed()


@pytest.fixture
def page(home: Settings, catalog: Catalog, clock: ManualClock, rights: Rights, executed: Executed) -> Iterator[TestClient]:
    """Serve the page of a home whose catalog exists."""
    assert catalog
    with TestClient(create_app(rights, home, execute=executed, clock=clock), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def server() -> Iterator[Server]:
    """Provide a server that responds like Airflow's REST API."""
    with running_rest_server() as running:
        yield running


POLICY = """
def task_policy(task):
    if task.dag_id == "headrace_cq__killed" and task.task_id == "execute":
        task.env_vars = {"HEADRACE_FAILPOINTS": "queries.execution.written:5:kill"}
"""
"""The Spark process of this query dies when it has written its fifth execution, and before the ledger says so."""


HOOK = "/hook"


@pytest.fixture(scope="session")
def airflow_database() -> Iterator[str]:
    """Provide the URL of an empty database, since Airflow refuses backfills on SQLite while its scheduler writes."""
    programs = find_programs()
    if programs is None:
        yield ""  # SQLite, on which the tests of backfills may fail on a busy machine
        return
    with running_server(programs) as server, server.database() as url:
        yield url


@pytest.fixture(scope="session")
def hook() -> Iterator[Server]:
    """Run the server to which the system posts its alerts."""
    with running_rest_server() as receiver:
        receiver.answers["POST", HOOK] = (200, {})
        yield receiver


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory, airflow_database: str, hook: Server) -> Iterator[RunningSystem]:
    """Run one system for the files `test_system*.py`, whose tests depend on each other and run in the order of their names."""
    home = tmp_path_factory.mktemp("system") / "home"
    local_settings = home / "airflow" / "config" / "airflow_local_settings.py"
    local_settings.parent.mkdir(parents=True)
    local_settings.write_text(POLICY)
    write_own_dags(home / "dags")
    # Every run of a query takes longer than a second, in which its process cannot start.
    alerts = {"alert_webhook": f"{hook.url}{HOOK}", "alert_lag_s": 1, "alert_every_s": 3_600}
    with running_system(
        home, cq_attempts=2, resident_history_rows=3, asset_event_s=1, airflow_database_url=airflow_database, **alerts
    ) as running:
        yield running
