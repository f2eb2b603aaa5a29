"""Pipes from the trees of a home to an IoTDB server, and from the server back into another home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import Error
from headrace.runtime.processes import find_free_port
from headrace.settings import load
from tests.pipes.iotdb_results import execute, rows
from tests.support.iotdb_server import Server

pytestmark = pytest.mark.timeout(600)
INSERTS = (
    "CREATE DATABASE root.plant",
    "CREATE TIMESERIES root.plant.line1.speed INT32",
    "CREATE ALIGNED TIMESERIES root.plant.line2(speed INT32, name TEXT)",
    "INSERT INTO root.plant.line1(time, speed, `heat 1`) VALUES (1, 10, 0.5), (2, 20, NULL), (3, NULL, 1.5)",
    "INSERT INTO root.plant.line2(time, speed, name) ALIGNED VALUES (1, 11, 'a'), (2, 12, NULL)",
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path / "home")) as opened:
        yield opened


def run(connection: headrace.Connection, *statements: str) -> None:
    for sql in statements:
        connection.session.execute(sql)


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    table = connection.session.execute(sql).table
    return [] if table is None else list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_a_pipe_sends_history_updates_and_deletes_to_a_server(connection: headrace.Connection, iotdb_server: Server) -> None:
    run(connection, *INSERTS)
    sink = f"'sink'='iotdb-thrift-sink', 'sink.ip'='127.0.0.1', 'sink.port'='{iotdb_server.port}'"
    run(connection, f"CREATE PIPE out WITH SOURCE ('source.inclusion'='data', 'source.path'='root.plant.**') WITH SINK ({sink})")
    connection.settle()
    line1 = [(1, 10, 0.5), (2, 20, None), (3, None, 1.5)]
    assert rows(iotdb_server, "SELECT speed, `heat 1` FROM root.plant.line1") == line1
    assert rows(iotdb_server, "SELECT speed, name FROM root.plant.line2") == [(1, 11, "a"), (2, 12, None)]
    assert rows(iotdb_server, "SHOW DEVICES root.plant.line2")[0][1] == "true"
    run(
        connection,
        "INSERT INTO root.plant.line1(time, speed) VALUES (2, 21), (4, 40)",
        "DELETE FROM root.plant.line1.speed WHERE time <= 1",
        "DELETE FROM root.plant.line2.** WHERE time = 2",
    )
    connection.settle()
    assert rows(iotdb_server, "SELECT speed FROM root.plant.line1") == [(2, 21), (4, 40)]
    assert rows(iotdb_server, "SELECT speed FROM root.plant.line2") == [(1, 11)]


def test_a_receiver_that_is_away_fails_the_statement(connection: headrace.Connection) -> None:
    port = find_free_port()
    with pytest.raises(Error) as caught:
        run(connection, f"CREATE PIPE out WITH SINK ('sink.ip'='127.0.0.1', 'sink.port'='{port}', 'sink.password'='hidden123')")
    assert caught.value.message == f"1107: All target servers [127.0.0.1:{port}] are not available"
    assert "hidden123" not in str(caught.value)


def test_a_pipe_moves_the_series_of_a_server(connection: headrace.Connection, iotdb_server: Server) -> None:
    execute(iotdb_server, *(sql.replace("root.plant", "root.moved") for sql in INSERTS))
    source = f"'source'='iotdb-session-source', 'source.host'='127.0.0.1', 'source.port'='{iotdb_server.port}'"
    options = "'source.path'='root.moved.**', 'source.mode'='snapshot'"
    run(connection, f"CREATE PIPE move WITH SOURCE ({source}, {options}) WITH SINK ('sink'='write-back-sink')")
    connection.settle()
    assert fetch(connection, "SHOW PIPES") == []
    line1 = fetch(connection, "SELECT speed, `heat 1` FROM root.moved.line1")
    assert [row[1:] for row in line1] == [(10, 0.5), (20, None), (None, 1.5)]
    assert [row[1:] for row in fetch(connection, "SELECT speed, name FROM root.moved.line2")] == [(11, "a"), (12, None)]
    shown = {row[0]: row[3] for row in fetch(connection, "SHOW TIMESERIES root.moved.**")}
    assert shown == {row[0]: row[3] for row in rows(iotdb_server, "SHOW TIMESERIES root.moved.**")}
    assert dict(row[:2] for row in fetch(connection, "SHOW DEVICES root.moved.**")) == {
        "root.moved.line1": "false",
        "root.moved.line2": "true",
    }
