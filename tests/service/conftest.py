"""A connection to an empty home."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headrace
from tests.support.interpreted import interpret_plans

interpret_plans()

START = 1_700_000_000_000


@contextmanager
def opened_database(home: Path) -> Iterator[headrace.Connection]:
    """Open an empty home, and create and use a database `d`."""
    with headrace.connect(home, clock=headrace.ManualClock(START)) as opened:
        opened.execute("create database d")
        opened.execute("use d")
        yield opened


def with_readings(connection: headrace.Connection) -> headrace.Connection:
    """Create a supertable `readings` and its subtables `dev1` and `dev2`."""
    connection.execute("create stable readings (ts timestamp, a int, b double) tags (place varchar(20), floor int)")
    connection.execute("create table dev1 using readings tags ('north', 1) dev2 using readings tags ('south', 2)")
    return connection


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with opened_database(tmp_path / "home") as opened:
        yield opened


@contextmanager
def on_spark(connection: headrace.Connection) -> Iterator[headrace.Connection]:
    """Yield another connection to the same database, whose queries run on Spark however few rows they read."""
    context = connection.session.context
    settings = context.settings.replace({"local_rows": 0})
    with headrace.connect(settings=settings, database=connection.session.database, clock=context.clock) as opened:
        yield opened


@pytest.fixture
def readings(connection: headrace.Connection) -> headrace.Connection:
    """The connection with a supertable `readings` and its subtables `dev1` and `dev2`."""
    return with_readings(connection)


@pytest.fixture(scope="module")
def unchanged_readings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    """Provide what `readings` does to those tests of a file that change nothing, such as those of what is refused."""
    with opened_database(tmp_path_factory.mktemp("unchanged") / "home") as opened:
        yield with_readings(opened)
