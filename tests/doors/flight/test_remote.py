"""Connections of `headrace.connect` to an snode by its address."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import headrace
from headrace.doors.flight import FlightDoor
from headrace.runtime.processes import find_free_port
from tests.doors.flight.conftest import PASSWORD


@pytest.fixture
def remote(door: FlightDoor) -> Iterator[headrace.Connection]:
    with headrace.connect(f"grpc://{door.address}", user="root", password=PASSWORD, database="power") as connection:
        yield connection


def test_statements_run_at_the_snode(remote: headrace.Connection) -> None:
    remote.execute("CREATE TABLE far USING meters TAGS ('roof')")
    assert remote.cursor().executemany("INSERT INTO far VALUES (?, ?, ?)", [(1, 1.0, 1), (2, 2.0, None)]).rowcount == 2
    instant = datetime(2026, 1, 1, tzinfo=UTC)
    assert remote.append(pa.table({"ts": [instant], "v": [3.0], "tbname": ["far"]}), "meters") == 1
    assert [row[1:] for row in remote.execute("SELECT ts, v, n FROM far").fetchall()] == [(1.0, 1), (2.0, None), (3.0, None)]
    cursor = remote.execute("SELECT v FROM far WHERE n = ?", (1,))
    assert [name for name, *_ in cursor.description or ()] == ["v"]


def test_errors_are_those_of_the_snode(remote: headrace.Connection) -> None:
    with pytest.raises(headrace.NotFoundError, match="nowhere") as raised:
        remote.execute("SELECT v FROM nowhere")
    assert raised.value.hint
    with pytest.raises(headrace.SqlSyntaxError):
        remote.execute("SELEC 1")
    with pytest.raises(headrace.NotSupportedError, match="needs the files of the home"):
        remote.settle()


def test_whoever_has_no_password_does_not_come_in(door: FlightDoor) -> None:
    with pytest.raises(headrace.AuthenticationError):
        headrace.connect(f"grpc://{door.address}", user="root", password="another")


def test_an_address_where_nobody_listens_is_an_error() -> None:
    with pytest.raises(headrace.OperationalError, match="cannot be reached"):
        headrace.connect(f"grpc://127.0.0.1:{find_free_port()}", user="root", password=PASSWORD)
