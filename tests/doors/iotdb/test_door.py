"""The door as an snode opens it: by settings, with TLS, and with the rights of users."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.compute import AnyPlan
from headrace.doors import create_doors
from headrace.doors.gate import DoorConnection, Gate
from headrace.doors.iotdb.calls import reads_rows
from headrace.doors.iotdb.door import IotdbDoor
from headrace.doors.iotdb.statuses import NO_PERMISSION, SUCCESS
from headrace.doors.options import DoorOptions
from headrace.errors import ConfigurationError, PermissionDeniedError
from headrace.model.access import Permissions, Principal, Privilege, administrator
from headrace.pipes.iotdb import messages
from headrace.pipes.iotdb.connection import BrokenConnectionError, Connection, Login, Node
from headrace.pipes.iotdb.queries import query
from headrace.pipes.iotdb.tls import client_context
from headrace.queries.running import RunningQueries
from headrace.service.results import Result
from headrace.service.rights import Action, Right
from headrace.settings import load
from tests.doors.iotdb.conftest import PASSWORD, USER, authenticate, opened_door
from tests.doors.iotdb.test_hostile_clients import insert
from tests.pipes.thrift import unlimited
from tests.support.certificates import make_certificate

HOST = "127.0.0.1"


def log_in(door: IotdbDoor, certificate: Path | None) -> None:
    tls = None if certificate is None else client_context(str(certificate), "")
    connection = Connection(Node(HOST, door.port), Login(USER, PASSWORD, tls, egress=unlimited()))
    assert query(connection, "show version").num_rows == 1
    connection.close()


def test_a_certificate_that_changes_is_used_by_new_connections(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    certificate, trusted = tmp_path / "certificate.pem", tmp_path / "trusted.pem"
    trusted.write_bytes(certificate.read_bytes())
    with opened_door(tmp_path / "home", DoorOptions(HOST, 0, str(certificate), str(tmp_path / "key.pem"))) as (door, _):
        log_in(door, trusted)
        with pytest.raises(BrokenConnectionError):
            log_in(door, None)
        make_certificate(tmp_path)
        with pytest.raises(BrokenConnectionError):
            log_in(door, trusted)
        log_in(door, certificate)


def test_settings_open_the_door(tmp_path: Path) -> None:
    with headrace.connect(tmp_path / "home") as connection:
        context = connection.session.context
        closed = replace(context, settings=load(home=tmp_path / "home"))
        assert create_doors(closed, "default", RunningQueries(closed)) == []
        opened = replace(context, settings=load(home=tmp_path / "home", doors="iotdb", iotdb_port=0))
        (door,) = create_doors(opened, "default", RunningQueries(opened))
        door.start()
        host, _, port = door.address.partition(":")
        with socket.create_connection((host, int(port)), 30):
            taken = replace(context, settings=load(home=tmp_path / "home", doors="iotdb", iotdb_port=int(port)))
            with pytest.raises(ConfigurationError, match=f"port {port} of {HOST} cannot be bound"):
                create_doors(taken, "default", RunningQueries(taken))[0].start()
        door.stop()


def test_a_certificate_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    options = DoorOptions(HOST, 0, str(tmp_path / "missing.pem"), str(tmp_path / "key.pem"))
    with pytest.raises(ConfigurationError, match="cannot be used"), opened_door(tmp_path / "home", options):
        pytest.fail("the door is open")


class ReadOnly:
    """Lets users read."""

    def authorize(self, principal: Principal, rights: Sequence[Right]) -> None:
        missing = [right for right in rights if right.action not in (Action.READ, Action.DESCRIBE, Privilege.READ_SCHEMA)]
        if missing:
            raise PermissionDeniedError(f"user {principal.name} may not {missing[0]}", hint="ask for it")

    def permissions(self, principal: Principal) -> Permissions:
        return administrator(principal.name)


def test_calls_that_need_a_right_are_rejected_without_it(tmp_path: Path) -> None:
    with headrace.connect(tmp_path / "home", dialect="iotdb") as owner:
        owner.execute("create timeseries root.a.d.x with datatype=INT32")
        gate = Gate(owner.session.context, authenticate, authorizer=ReadOnly())
        door = IotdbDoor(gate, DoorOptions(HOST, 0), 10)
        door.start()
        session = Connection(Node(HOST, door.port), Login(USER, PASSWORD))
        calls: dict[str, messages.Message] = {
            "insertRecord": messages.InsertRecord(
                sessionId=1, prefixPath="root.a.d", measurements=["x"], values=b"\x01\x00\x00\x00\x01", timestamp=1
            ),
            "insertStringRecord": messages.InsertStringRecord(
                sessionId=1, prefixPath="root.b.d", measurements=["x"], values=["1"], timestamp=1
            ),
            "deleteData": messages.DeleteData(sessionId=1, paths=["root.a.d.x"], startTime=0, endTime=9),
            "createTimeseries": messages.CreateSeries(sessionId=1, path="root.a.d.y", dataType=1, encoding=0, compressor=0),
            "dropSchemaTemplate": messages.DropTemplateRequest(sessionId=1, templateName="none"),
            "executeBatchStatement": messages.Statements(sessionId=1, statements=["create database root.c"]),
        }
        codes = {method: status_code(insert(session, method, request)) for method, request in calls.items()}
        session.close()
        door.stop()
        assert codes == dict.fromkeys(calls, NO_PERMISSION)
        assert [row[0] for row in owner.execute("show timeseries").fetchall()] == ["root.a.d.x"]
        assert [row[0] for row in owner.execute("show databases").fetchall()] == ["root.a"]


def test_long_queries_leave_threads_for_logins_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.doors.iotdb.door.MAX_CALLS", 1)
    has_begun, may_end, run = threading.Event(), threading.Event(), DoorConnection.run

    def wait_and_run(connection: DoorConnection, sql: str) -> tuple[Result, AnyPlan | None]:
        has_begun.set()
        assert may_end.wait(60)
        return run(connection, sql)

    monkeypatch.setattr(DoorConnection, "run", wait_and_run)
    row: dict[str, Any] = {"sessionId": 1, "prefixPath": "root.a.d", "measurements": ["x"], "timestamp": 1}
    writes = {
        "insertRecord": messages.InsertRecord(values=b"\x01\x00\x00\x00\x01", **row),
        "insertStringRecord": messages.InsertStringRecord(values=["2"], **row),
    }
    with opened_door(tmp_path / "home") as (door, _), ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        stack.callback(may_end.set)
        node = Node(HOST, door.port)
        reader = Connection(node, Login(USER, PASSWORD))
        rows = pool.submit(query, reader, "show version")
        assert has_begun.wait(60)
        writer = Connection(node, Login(USER, PASSWORD, timeout_ms=5_000))
        assert [status_code(insert(writer, method, request)) for method, request in writes.items()] == [SUCCESS] * len(writes)
        assert not rows.done()
        may_end.set()
        assert rows.result().num_rows == 1


@pytest.mark.parametrize(
    ("method", "text", "expected"),
    [
        ("executeQueryStatementV2", "select * from root.**", True),
        ("executeStatement", "SELECT x FROM root.a.insert", True),
        ("executeStatementV2", "insert into root.a.d(time, x) values (1, 1)", False),
        ("executeStatementV2", "  Delete  From root.a.d.x", False),
        ("executeStatementV2", "kill query 'q'", False),
        ("executeUpdateStatement", "create database root.a", False),
        ("fetchResultsV2", "", True),
        ("insertTablet", "root.a.d", False),
        ("openSession", "", False),
    ],
)
def test_calls_that_may_run_queries_are_known_by_their_frames(method: str, text: str, expected: bool) -> None:
    name = method.encode()
    frame = b"\x80\x01\x00\x01" + len(name).to_bytes(4, "big") + name + bytes(4)
    assert reads_rows(frame + b"\x0b\x00\x02" + len(text).to_bytes(4, "big") + text.encode()) is expected


def status_code(status: Any) -> int:
    """Return the status of the first part of a call."""
    return int(status.subStatus[0].code if status.subStatus else status.code)
