"""A connection to an empty home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from tests.support.interpreted import interpret_plans

interpret_plans()

START = 1_700_000_000_000


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(tmp_path / "home", clock=headrace.ManualClock(START)) as opened:
        opened.execute("create database d")
        opened.execute("use d")
        yield opened


@pytest.fixture
def readings(connection: headrace.Connection) -> headrace.Connection:
    """The connection with a supertable `readings` and its subtables `dev1` and `dev2`."""
    connection.execute("create stable readings (ts timestamp, a int, b double) tags (place varchar(20), floor int)")
    connection.execute("create table dev1 using readings tags ('north', 1) dev2 using readings tags ('south', 2)")
    return connection
