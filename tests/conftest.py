"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from headrace.settings import Settings, load
from tests.support import drawing, waiting
from tests.support.interpreted import shorten_sessions
from tests.support.iotdb_server import iotdb_server  # noqa: F401  (fixture)
from tests.support.kafka_broker import Broker, has_jars, running_broker
from tests.support.mqtt_broker import mqtt  # noqa: F401  (fixture)
from tests.support.object_store import object_store, warehouse_options  # noqa: F401  (fixture)
from tests.support.postgres import postgres, postgres_url  # noqa: F401  (fixtures)
from tests.support.sessions import running_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No power failure hits a test: only those of power failures sync.
os.environ.setdefault("HEADRACE_SYNC_COMMITS", "false")

# No test fails because the machine is slow.
hypothesis.settings.register_profile(
    "headrace", hypothesis.settings.default, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("headrace")

shorten_sessions()

# Imported modules and collected tests are never garbage. Collecting among them takes much of a short test's time.
GARBAGE_THRESHOLD = 20_000
gc.set_threshold(GARBAGE_THRESHOLD)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of runs of the whole suite."""
    parser.addoption("--drawn", action="store_true", help="leave out the tests marked `drawn` that this run does not draw")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests that a run of the whole suite does not draw."""
    if not config.getoption("drawn"):
        return
    left_out = [
        item for item in items if (mark := item.get_closest_marker("drawn")) and not drawing.is_drawn(item.nodeid, mark.args[0])
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def pytest_collection_finish() -> None:
    """Leave what is there before the first test out of all later collections of garbage."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let libraries free at the end what they would otherwise report as leaked."""
    gc.unfreeze()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the settings of an empty home for one test."""
    return load(home=tmp_path / "home")


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    """Provide the Kafka broker of a module of tests, which are skipped if its jars cannot be fetched."""
    if not has_jars():
        pytest.skip("the jars of the Kafka broker cannot be fetched")
    with running_broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Provide the Spark session that all tests of the process share."""
    home = tmp_path_factory.mktemp("spark")
    with running_session(load(home=home, spark_master="local[2]", driver_memory="2g", **warehouse_options())) as session:
        yield session


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Record a test that came near its time limit."""
    mark = item.get_closest_marker("timeout")
    limit = float(mark.args[0]) if mark is not None else float(item.config.getini("timeout"))
    if call.when == "call":
        waiting.note(waiting.Wait(item.nodeid, call.duration, limit))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report by what seed cases were drawn, and the waits that came near their time limit."""
    terminalreporter.write_line(drawing.NOTE)
    waiting.append_report()
    for wait in waiting.near_waits:
        terminalreporter.write_line(f"near its bound: {wait}")
