"""A connection that speaks the IoTDB language, to an empty home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace

START = 1_700_000_000_000


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(tmp_path / "home", dialect="iotdb", clock=headrace.ManualClock(START)) as opened:
        yield opened


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    """Provide what `connection` does to those tests of a file that change nothing after its fixtures."""
    with headrace.connect(tmp_path_factory.mktemp("unchanged"), dialect="iotdb", clock=headrace.ManualClock(START)) as opened:
        yield opened


@pytest.fixture
def plant(connection: headrace.Connection) -> headrace.Connection:
    """The connection with two devices of `root.plant`: `line1` (s1 INT32, s2 DOUBLE) and `line2` (s1 INT32)."""
    return with_plant(connection)


def with_plant(connection: headrace.Connection) -> headrace.Connection:
    """Create the devices of `plant`."""
    connection.execute("create database root.plant")
    connection.execute("create timeseries root.plant.line1.s1 with datatype=INT32, encoding=PLAIN")
    connection.execute("create timeseries root.plant.line1.s2 with datatype=DOUBLE, encoding=PLAIN")
    connection.execute("create timeseries root.plant.line2.s1 with datatype=INT32, encoding=PLAIN")
    return connection
