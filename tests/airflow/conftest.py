"""A temporary Airflow home, set before Airflow is imported, and the catalog that DAGs, triggers and page share."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AIRFLOW_HOME = tempfile.mkdtemp(prefix="headrace-airflow-tests-")
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

NOW = 1_790_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Provide the settings of a home that is configured in the environment, as for a task or a trigger."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    current.cache_clear()
    yield load()
    current.cache_clear()


@pytest.fixture
def catalog(home: Settings, clock: ManualClock) -> Iterator[Catalog]:
    with Catalog.open(home.catalog, clock=clock.now) as opened:
        yield opened
