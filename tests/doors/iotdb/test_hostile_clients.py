"""Clients that break the protocol: their connection ends, and nobody else notices."""

from __future__ import annotations

import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest
from thrift.transport.TTransport import TFramedTransport

from headrace.doors.iotdb.door import IotdbDoor
from headrace.doors.iotdb.frames import MAX_FRAME_BYTES, MAX_LOGIN_FRAME_BYTES, MAX_PENDING_BYTES
from headrace.doors.iotdb.statuses import NOT_LOGGED_IN
from headrace.pipes.iotdb import messages
from headrace.pipes.iotdb.connection import Connection, Login, Node
from headrace.pipes.iotdb.queries import query
from tests.doors.iotdb.conftest import PASSWORD, USER


def call(method: str, arguments: bytes) -> bytes:
    """Return a call in the binary protocol."""
    name = method.encode()
    return b"\x80\x01\x00\x01" + struct.pack(">i", len(name)) + name + struct.pack(">i", 1) + arguments


TOO_DEEP = call("openSession", b"\x0c\x00\x01" * 4_000)
LONG_LIST = call("insertTablet", b"\x0c\x00\x01\x0f\x00\x03\x0b" + struct.pack(">i", 2**31 - 1))
NESTED = call("openSession", b"\x0f\x00\x09\x0f" + struct.pack(">iB", 3, 15) * 3_000)

LARGE_BYTES = 1 << 20


@pytest.fixture
def raw(door: IotdbDoor) -> Any:
    """A connection without a session."""
    with socket.create_connection(("127.0.0.1", door.port), 30) as opened:
        yield opened


@pytest.fixture
def session(door: IotdbDoor) -> Any:
    connection = Connection(Node("127.0.0.1", door.port), Login(USER, PASSWORD))
    yield connection
    connection.close()


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def is_served(session: Connection) -> bool:
    return bool(query(session, "show version").num_rows == 1)


@pytest.mark.parametrize(
    "content",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", MAX_LOGIN_FRAME_BYTES + 1),
        struct.pack(">i", MAX_FRAME_BYTES + 1),
        framed(b"GET / HTTP/1.1\r\n\r\n"),
        framed(call("openSession", b"")[:-2]),
        framed(TOO_DEEP),
        framed(NESTED),
        framed(LONG_LIST),
        framed(b"\x82\x21\x01"),
    ],
    ids=["negative", "empty", "large", "huge", "http", "cut", "deep", "nested", "list", "compact"],
)
def test_what_is_no_call_ends_the_connection(raw: socket.socket, session: Connection, content: bytes) -> None:
    raw.sendall(content)
    assert raw.recv(1) == b""
    assert is_served(session)


def test_half_a_frame_harms_nobody(raw: socket.socket, session: Connection) -> None:
    raw.sendall(struct.pack(">i", 100) + b"\x80\x01")
    assert is_served(session)
    raw.shutdown(socket.SHUT_WR)
    assert raw.recv(1) == b""


def test_an_unknown_method_is_answered_and_the_connection_stays(raw: socket.socket) -> None:
    for _ in range(2):
        raw.sendall(framed(call("call", b"\x00")))
        size = struct.unpack(">i", raw.recv(4))[0]
        assert b"Invalid method name: 'call'" in raw.recv(size)


def test_calls_that_come_at_once_or_byte_by_byte_are_answered_in_order(raw: socket.socket) -> None:
    calls = b"".join(framed(call(f"call{number}", b"\x00")) for number in range(3))
    parts = [calls, *(calls[at : at + 1] for at in range(len(calls)))]
    for part in parts:
        raw.sendall(part)
    for number in (0, 1, 2, 0, 1, 2):
        size = struct.unpack(">i", raw.recv(4, socket.MSG_WAITALL))[0]
        assert f"'call{number}'".encode() in raw.recv(size, socket.MSG_WAITALL)


def test_large_frames_wait_for_memory(door: IotdbDoor, session: Connection) -> None:
    """Two frames that together are larger than what is free are read one after the other."""
    taken = MAX_PENDING_BYTES - LARGE_BYTES
    door._loop.call_soon_threadsafe(door.budget.reserve, "user other", taken, lambda: None)
    with closing(Connection(Node("127.0.0.1", door.port), Login(USER, PASSWORD))) as other, ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda own: insert(own, "insertRecord", large_record(own)), (session, other)))
    door._loop.call_soon_threadsafe(door.budget.release, "user other", taken)
    assert [answer.code for answer in answers] == [200, 200]


def large_record(session: Connection) -> messages.InsertRecord:
    """Return a call of nearly `LARGE_BYTES`."""
    size = LARGE_BYTES - 1_000
    values = b"\x05" + struct.pack(">i", size) + b"x" * size
    return messages.InsertRecord(
        sessionId=session.session, prefixPath="root.large.d", measurements=["x"], values=values, timestamp=1
    )


def test_a_client_that_does_not_read_keeps_others_from_nothing(door: IotdbDoor, session: Connection) -> None:
    with socket.create_connection(("127.0.0.1", door.port), 30) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        opened.settimeout(0.2)
        with suppress(TimeoutError):
            while True:
                opened.sendall(framed(call("call" * 1_000, b"\x00")))
        assert is_served(session)


def test_nothing_is_done_without_a_session(door: IotdbDoor, session: Connection) -> None:
    with socket.create_connection(("127.0.0.1", door.port), 30) as opened:
        stranger = Connection.__new__(Connection)
        stranger.__dict__.update(session.__dict__)
        transport = TFramedTransport(PlainFile(opened), MAX_FRAME_BYTES)
        stranger._transport, stranger._protocol = transport, type(session._protocol)(transport)
        answer = stranger.call(
            "executeBatchStatement", messages.Statements(sessionId=session.session, statements=["create database root.stolen"])
        )
        assert answer.code == NOT_LOGGED_IN
        assert (
            stranger.call(
                "executeQueryStatementV2", messages.Statement(sessionId=session.session, statement="show databases")
            ).status.code
            == NOT_LOGGED_IN
        )
        transferred = stranger.call("pipeTransfer", messages.Transfer(version=1, type=6, body=struct.pack(">iii", 0, 0, 0)))
        assert transferred.status.code == NOT_LOGGED_IN
    assert query(session, "show databases root.stolen").num_rows == 0


class PlainFile:
    """The socket of a connection that is open already, as Thrift's transports take it."""

    def __init__(self, opened: socket.socket) -> None:
        self._opened = opened

    def write(self, content: bytes) -> None:
        self._opened.sendall(content)

    def flush(self) -> None:
        """Do nothing."""

    def readAll(self, size: int) -> bytes:  # noqa: N802  (the name of Thrift)
        return self._opened.recv(size, socket.MSG_WAITALL)


def test_idle_connections_need_no_threads(door: IotdbDoor, session: Connection) -> None:
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(90):
            stack.enter_context(socket.create_connection(("127.0.0.1", door.port), 30))
        assert is_served(session)
        assert threading.active_count() <= before + 2


def test_connections_beyond_the_limit_take_the_place_of_those_that_have_not_logged_in(door: IotdbDoor, session: Connection) -> None:
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", door.port), 30)) for _ in range(110)]
        assert is_closed(opened[0])
        assert is_served(session)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("device", ["root.a; drop database root.b", "root.a.*", "root..b", "etc/passwd", "root", "", "root.`a"])
def test_a_path_that_is_none_is_rejected(session: Connection, device: str) -> None:
    request = messages.InsertRecord(
        sessionId=session.session, prefixPath=device, measurements=["x"], values=b"\x01\x00\x00\x00\x01", timestamp=1
    )
    assert insert(session, "insertRecord", request).code == 509


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("values", b"\x00"),
        ("timestamps", b"\x00" * 7),
        ("types", [99]),
        ("types", []),
        ("size", -1),
        ("size", 2**31 - 1),
        ("measurements", ["x", "x"]),
    ],
)
def test_a_damaged_tablet_is_rejected(session: Connection, field: str, value: Any) -> None:
    fields = {"measurements": ["x"], "values": b"\x00" * 4, "timestamps": b"\x00" * 8, "types": [1], "size": 1} | {field: value}
    request = messages.InsertTablet(sessionId=session.session, prefixPath="root.damaged.d", **fields)
    assert insert(session, "insertTablet", request).code not in (200, 305)
    assert query(session, "show databases root.damaged").num_rows == 0


def test_a_request_without_a_field_is_rejected(session: Connection) -> None:
    status = insert(session, "insertTablet", messages.InsertTablet(sessionId=session.session, prefixPath="root.a.b"))
    assert (status.code, status.message.partition(" (")[0]) == (303, "insertTablet lacks its measurements")


def insert(session: Connection, method: str, request: messages.Message) -> Any:
    """Return the status of a call that pipes do not make."""
    return session._exchange(method, lambda: write(session, request), lambda: read(session))


def write(session: Connection, request: messages.Message) -> None:
    session._protocol.writeFieldBegin("request", 12, 1)
    request.write(session._protocol)


def read(session: Connection) -> messages.Status:
    status = messages.Status()
    status.read(session._protocol)
    return status
