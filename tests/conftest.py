"""Fixtures that every room's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.settings import Settings, load
from tests.support import waiting
from tests.support.postgres import postgres, postgres_url  # noqa: F401  (fixtures)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of an empty home of the test's own."""
    return load(home=tmp_path / "home")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of this test process."""
    from headrace.storage.spark.session import start_session

    session = start_session(load(home=tmp_path_factory.mktemp("spark"), spark_master="local[2]", driver_memory="2g"))
    yield session
    session.stop()


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note a test that came near its time limit."""
    mark = item.get_closest_marker("timeout")
    limit = float(mark.args[0]) if mark is not None else float(item.config.getini("timeout"))
    if call.when == "call":
        waiting.note(waiting.Wait(item.nodeid, call.duration, limit))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which waits came near their bound."""
    waiting.append_report()
    for wait in waiting.near_waits:
        terminalreporter.write_line(f"near its bound: {wait}")
