"""The sink that is a WebSocket server, with real clients."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from headrace.errors import OperationalError, ProgrammingError
from headrace.pipes.events import DeleteEvent, Event, InsertEvent, StatementEvent
from headrace.runtime.processes import find_free_port
from tests.pipes.formats.samples import device_rows
from tests.pipes.running import created, delivery


@pytest.fixture
def port() -> int:
    return find_free_port()


@pytest.fixture
def sink(port: int) -> Iterator[Any]:
    with closing(created("websocket-sink", {"websocket.port": str(port), "timeout-seconds": "600"})) as sink:
        sink.handshake()
        yield sink


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def client(port: int, **options: Any) -> ClientConnection:
    connection: ClientConnection = connect(f"ws://127.0.0.1:{port}", proxy=None, **options)
    return connection


def receive(connection: ClientConnection, *, acknowledges: bool = True) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(connection.recv(60))
    if acknowledges:
        connection.send(json.dumps({"ack": frame["id"]}))
    return frame


def test_client_receives_rows_and_acknowledges_them(sink: Any, port: int, pool: ThreadPoolExecutor) -> None:
    rows = device_rows([1, 2], ["root.sg.d1", "root.sg.d2"], s1=[0.5, None], s2=[None, "x"])
    events: list[Event] = [
        StatementEvent("CREATE DATABASE root.sg", "schema.database.create"),
        InsertEvent(rows),
        DeleteEvent(rows),
    ]

    done = pool.submit(sink.transfer, delivery(*events, batch=4))
    with client(port) as connection:
        frames = [receive(connection) for _ in range(3)]
        done.result(60)

    assert frames[0] == {
        "id": "pipe-1/4/0",
        "kind": "statement",
        "category": "schema.database.create",
        "sql": "CREATE DATABASE root.sg",
    }
    assert frames[1] == {
        "id": "pipe-1/4/1",
        "kind": "insert",
        "precision": "ms",
        "rows": [
            {"device": "root.sg.d1", "timestamp": 1, "measurements": ["s1"], "values": [0.5]},
            {"device": "root.sg.d2", "timestamp": 2, "measurements": ["s2"], "values": ["x"]},
        ],
    }
    assert frames[2]["kind"] == "delete"


def test_transfer_waits_until_all_frames_are_acknowledged(sink: Any, port: int, pool: ThreadPoolExecutor) -> None:
    count = 25_000
    done: Future[None] = pool.submit(sink.transfer, delivery(device_rows(range(count), ["root.sg.d1"] * count, s1=[1.0] * count)))
    with client(port) as connection:
        held = [receive(connection, acknowledges=False) for _ in range(8)]
        assert not done.done()
        with pytest.raises(TimeoutError):
            connection.recv(0.2)
        for frame in held:
            connection.send(json.dumps({"ack": frame["id"]}))
        frames = [*held, *(receive(connection) for _ in range(17))]
        done.result(60)

    assert [row["timestamp"] for frame in frames for row in frame["rows"]] == list(range(count))


def test_next_client_gets_what_was_not_acknowledged(sink: Any, port: int, pool: ThreadPoolExecutor) -> None:
    rows = device_rows([1], ["root.sg.d1"], s1=[0.5])
    done = pool.submit(sink.transfer, delivery(rows, rows))
    with client(port) as second_in_line:
        first = second_in_line
        with client(port) as other:
            receive(first)
            first.recv(60)
            first.close()
            frame = receive(other)
            done.result(60)

    assert frame["id"] == "pipe-1/0/1"


@pytest.mark.parametrize(("attributes", "timeout_ms"), [({"timeout-seconds": "1"}, 600_000), ({}, 500)])
def test_transfer_without_a_client_fails_in_the_end(port: int, attributes: dict[str, str], timeout_ms: int) -> None:
    with closing(created("websocket-sink", {"websocket.port": str(port), **attributes}, timeout_ms=timeout_ms)) as sink:
        rows = delivery(device_rows([1], ["root.sg.d1"], s1=[0.5]))
        with pytest.raises(OperationalError, match="no client has connected"):
            sink.transfer(rows)
        with client(port), pytest.raises(OperationalError, match="acknowledges nothing"):
            sink.transfer(rows)


def test_closing_ends_a_transfer(sink: Any, pool: ThreadPoolExecutor) -> None:
    done = pool.submit(sink.transfer, delivery(device_rows([1], ["root.sg.d1"], s1=[0.5])))
    threading.Timer(0.1, sink.close).start()
    with pytest.raises(OperationalError, match="closed"):
        done.result(60)


def test_client_that_talks_nonsense_is_disconnected(sink: Any, port: int) -> None:  # noqa: ARG001
    with client(port) as connection:
        connection.send("hello")
        with pytest.raises(ConnectionClosed):
            connection.recv(60)


def test_password_is_required(port: int) -> None:
    with closing(created("websocket-sink", {"websocket.port": str(port), "password": "secret"})) as sink:
        sink.handshake()
        with pytest.raises(InvalidStatus):
            client(port)
        client(port, additional_headers={"Authorization": "Bearer secret"}).close()


def test_port_may_be_that_of_an_equal_sink_only(sink: Any, port: int) -> None:  # noqa: ARG001
    with closing(created("websocket-sink", {"websocket.port": str(port)})) as other:
        other.handshake()
        with pytest.raises(OperationalError, match="cannot listen"):
            other.transfer(delivery(device_rows([1], ["root.sg.d1"], s1=[0.5])))


@pytest.mark.parametrize("attributes", [{"websocket.port": "0"}, {"websocket.port": "x"}, {"timeout-seconds": "0"}])
def test_invalid_attributes_are_rejected(attributes: dict[str, str]) -> None:
    with pytest.raises(ProgrammingError) as caught:
        created("websocket-sink", attributes)
    assert caught.value.status is not None
