"""Small writes, which the protocol of a connection answers itself, and the requests that it leaves to uvicorn."""

from __future__ import annotations

import base64
import gzip
import re
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace.doors.tdengine.small_writes import SmallWriteProtocol
from tests.doors.conftest import PASSWORD, Served
from tests.support.waiting import wait_until

HEAD = re.compile(rb"HTTP/1\.1 (\d+) .*?\r\n\r\n", re.DOTALL)
BASIC = base64.b64encode(f"root:{PASSWORD}".encode()).decode()
PATH = "/influxdb/v1/write?db=small&precision=ms"


@pytest.fixture(scope="module")
def door(served: Served) -> Served:
    """A door with a database, which knows the administrator's password."""
    assert served.sql("create database small")["code"] == 0
    return served


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note of each request whether the protocol answers it itself."""
    noted: list[bool] = []
    decide = SmallWriteProtocol._small_write

    def note(self: SmallWriteProtocol) -> object:
        write = decide(self)
        noted.append(write is not None)
        return write

    monkeypatch.setattr(SmallWriteProtocol, "_small_write", note)
    monkeypatch.setattr("headrace.doors.tdengine.access.VERIFIED_S", 3_600.0)
    return noted


@pytest.fixture
def wire(door: Served) -> Iterator[socket.socket]:
    """A connection."""
    host, _, port = door.door.address.partition(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as connection:
        yield connection


def request(body: bytes, *headers: str, path: str = PATH, authorization: str = f"Basic {BASIC}") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: {authorization}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def statuses(wire: socket.socket, count: int) -> list[int]:
    """Return the statuses of as many answers as are expected."""
    received = b""
    while len(found := HEAD.findall(received)) < count:
        part = wire.recv(1 << 16)
        assert part, received
        received += part
    return [int(status) for status in found]


def values(door: Served, table: str) -> list[object]:
    rows = door.context.tables.scan(door.context.catalog.tables.get("small", table))
    return sorted(rows["v"].to_pylist())


def log_in(wire: socket.socket) -> None:
    """Have the password checked, after which it is known for a short time."""
    wire.sendall(request(b"known v=0 1"))
    assert statuses(wire, 1) == [204]


def test_small_writes_are_taken_once_the_password_is_known(door: Served, wire: socket.socket, taken: list[bool]) -> None:
    log_in(wire)
    wire.sendall(request(b"a v=1 1"))
    assert statuses(wire, 1) == [204]
    wire.sendall(request(b"a v=2i 2"))
    assert statuses(wire, 1) == [400]
    assert taken[1:] == [True, True]
    assert values(door, "a") == [1.0]


def test_requests_in_a_row_are_answered_in_their_order(door: Served, wire: socket.socket, taken: list[bool]) -> None:
    log_in(wire)
    bodies = [b"b v=1 1", b"b v=wrong 2", b"b v=3 3"]
    wire.sendall(b"".join(map(request, bodies)))
    assert statuses(wire, 3) == [204, 400, 204]
    assert taken[1:] == [True, False, False]
    assert values(door, "b") == [1.0, 3.0]


def test_a_body_may_come_in_pieces(door: Served, wire: socket.socket, taken: list[bool]) -> None:
    log_in(wire)
    content = request(b"c v=1 1\nc v=2 2")
    for start in range(0, len(content), 40):
        wire.sendall(content[start : start + 40])
    assert statuses(wire, 1) == [204]
    assert taken[1:] == [True]
    assert values(door, "c") == [1.0, 2.0]


@pytest.mark.parametrize(
    "content",
    [
        request(gzip.compress(b"d v=1 1"), "Content-Encoding: gzip"),
        request(b"\n".join(b"d v=1 %d" % number for number in range(10_000))),
        request(b"d v=1 1", authorization=f"Basic {base64.b64encode(b'root:wrong').decode()}"),
        request(b"d v=1 1", authorization="nonsense"),
        request(b"d v=1 1", path="/influxdb/v1/write?db=small&precision=weeks"),
        request(b"d v=1 1").replace(b"HTTP/1.1", b"HTTP/1.0"),
        request(b"d v=1 1").replace(b"POST", b"PUT"),
    ],
)
def test_others_are_left_to_uvicorn(wire: socket.socket, taken: list[bool], content: bytes) -> None:
    log_in(wire)
    wire.sendall(content)
    assert wire.recv(1 << 16).startswith(b"HTTP/1.1 ")
    assert taken[1:] == [False]


def test_a_connection_ends_with_the_answer_if_the_client_asks_for_it(wire: socket.socket) -> None:
    log_in(wire)
    wire.sendall(request(b"e v=1 1", "Connection: close"))
    received = b""
    while part := wire.recv(1 << 16):
        received += part
    assert received.startswith(b"HTTP/1.1 204")
    assert b"connection: close\r\n" in received


@pytest.mark.parametrize("body", [b"f v=1 1", b"f v="])
def test_a_client_that_leaves_gives_its_memory_back(door: Served, wire: socket.socket, taken: list[bool], body: bytes) -> None:
    log_in(wire)
    ingestion = door.door._ingestion
    assert ingestion is not None
    wire.sendall(request(b"f v=1 1")[: -len(b"f v=1 1")] + body)
    wait_until(lambda: len(taken) == 2, "the second request")
    wire.close()
    wait_until(lambda: not ingestion._limits.memory._held, "the memory")
