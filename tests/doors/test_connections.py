"""SHOW CONNECTIONS and KILL CONNECTION, and what clients ask about the server."""

from __future__ import annotations

import pytest

from headrace.doors.gate import Gate, TooManyConnectionsError
from headrace.errors import OperationalError
from headrace.model.access import Principal
from headrace.model.connections import Origin
from headrace.service.authentication import authenticator
from headrace.sql import parse, to_sql
from tests.doors.conftest import PASSWORD, Served


def test_a_connection_is_listed_and_killed(served: Served) -> None:
    connection = served.gate.open(Origin("iotdb", "10.0.0.7:1234"), "root", PASSWORD, "tdengine")
    answer = served.sql("show connections")
    names = [column[0] for column in answer["column_meta"]]
    assert names == ["conn_id", "user", "app", "pid", "end_point", "login_time", "last_access"]
    listed = {row[0]: row for row in answer["data"]}
    assert listed[connection.id][1:3] == ["root", "iotdb"]
    assert listed[connection.id][4] == "10.0.0.7:1234"
    assert [row[2] for row in listed.values()] == ["iotdb", "tdengine"], "the request itself is one"

    connection.execute("show databases")
    assert served.sql(f"kill connection {connection.id}")["code"] == 0
    with pytest.raises(OperationalError, match="was killed"):
        connection.execute("show databases")
    assert connection.id not in {row[0] for row in served.sql("show connections")["data"]}
    assert "no connection" in served.sql(f"kill connection {connection.id}")["desc"]
    served.gate.close(connection)


def test_a_statement_about_a_connection_is_written_as_it_is_read() -> None:
    assert to_sql(parse("kill  connection 7", "tdengine")) == "KILL CONNECTION 7"


def test_no_more_connections_are_opened_than_may_be(served: Served) -> None:
    gate = Gate(served.context, authenticator(served.context), max_connections=1)
    connection = gate.open_as(Origin("iotdb"), Principal("root"), "tdengine")
    with pytest.raises(TooManyConnectionsError):
        gate.open_as(Origin("iotdb"), Principal("root"), "tdengine")
    gate.close(connection)
    gate.close(gate.open_as(Origin("iotdb"), Principal("root"), "tdengine"))


def test_a_user_leaves_connections_to_others(served: Served) -> None:
    gate = Gate(served.context, authenticator(served.context), max_connections=10)
    opened = [gate.open_as(Origin("iotdb"), Principal("root"), "tdengine") for _ in range(9)]
    with pytest.raises(TooManyConnectionsError):
        gate.open_as(Origin("iotdb"), Principal("root"), "tdengine")
    opened.append(gate.open_as(Origin("iotdb"), Principal("nobody"), "tdengine"))
    for connection in opened:
        gate.close(connection)
    gate.close(gate.open_as(Origin("iotdb"), Principal("root"), "tdengine"))


def test_clients_learn_the_version_of_the_language_and_who_they_are(served: Served) -> None:
    served.sql("create database if not exists about")
    answer = served.sql("select server_version(), server_status() as ok, database(), current_user()", "about")
    assert answer["data"] == [["3.3.6.0", 1, "about", "root"]]
    assert [column[0] for column in answer["column_meta"]] == ["server_version()", "ok", "database()", "current_user()"]
