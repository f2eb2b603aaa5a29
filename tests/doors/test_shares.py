"""What users take of a door: a share of its memory and threads, so that others are served."""

from __future__ import annotations

import base64
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pyarrow as pa
import pytest

import headrace
from headrace.doors.iotdb import transfer_memory
from headrace.doors.iotdb.client import Client
from headrace.doors.iotdb.results import ResultReader
from headrace.doors.iotdb.statuses import PIPE_TYPE_ERROR, PIPE_UNAVAILABLE, PIPE_USER_CONFLICT, SUCCESS
from headrace.doors.iotdb.transfer_memory import MAX_BODY_BYTES
from headrace.doors.iotdb.transfers import SLICE, receive
from headrace.doors.tdengine.ingest import MAX_BODY_BYTES as MAX_HTTP_BYTES
from headrace.errors import LimitError
from headrace.model.connections import Origin
from headrace.pipes.iotdb import messages
from headrace.pipes.iotdb.requests import CODECS, COMPRESSED, VERSION
from headrace.runtime.budget import Budget
from headrace.service.results import Result
from tests.doors.conftest import PASSWORD as ROOT_PASSWORD
from tests.doors.conftest import Served

PASSWORD = "secret12"
USERS = ("nobody", "writer")


@pytest.fixture(scope="module")
def users(served: Served) -> None:
    """Two users, of whom one may write."""
    trees = headrace.connect(served.context.settings.home_path, dialect="iotdb")
    for user in USERS:
        trees.execute(f"create user {user} '{PASSWORD}'")
    assert served.sql("create database shares")["code"] == 0
    assert served.sql("grant write on shares.* to writer")["code"] == 0
    trees.close()


@contextmanager
def unfinished(served: Served, path: str, user: str, size: int, count: int) -> Iterator[None]:
    """Begin requests of a user whose bodies do not come."""
    credentials = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {credentials}\r\nContent-Length: {size}\r\n\r\n"
    host, _, port = served.door.address.rpartition(":")
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection((host, int(port)), 30)).sendall(head.encode() + b"m")
        yield


def write(served: Served, user: str) -> int:
    with httpx.Client(base_url=f"http://{served.door.address}", auth=(user, PASSWORD), trust_env=False, timeout=50) as http:
        return http.post("/influxdb/v1/write?db=shares", content="m,t=1 v=1i 1700000000000000000").status_code


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize("path", ["/influxdb/v1/write?db=shares", "/opentsdb/v1/put/json/shares", "/rest/sql"])
def test_bodies_that_a_user_does_not_send_keep_no_other_user_from_writing(served: Served, path: str) -> None:
    with unfinished(served, path, "nobody", MAX_HTTP_BYTES if "rest" not in path else 16 << 20, 20):
        assert write(served, "writer") == 204


@pytest.fixture
def rpc(served: Served) -> Iterator[Client]:
    client = Client(served.gate, Origin("iotdb", "test:1"))
    client.log_in("root", ROOT_PASSWORD)
    yield client
    client.log_out()


def transfer(client: Client, kind: int, body: bytes) -> messages.Status:
    answer = receive(client, messages.Transfer(version=VERSION, type=kind, body=body))
    assert isinstance(answer, messages.TransferAnswer)
    status: messages.Status = answer.status
    return status


def compressed(name: str, content: bytes, size: int) -> bytes:
    """Return the body of a compressed request that says that it has a size."""
    return struct.pack(">bbi", 1, CODECS[name][0], size) + bytes(pa.Codec(CODECS[name][1]).compress(content, asbytes=True))


def test_requests_are_not_decompressed_beyond_the_share_of_a_user(rpc: Client) -> None:
    bomb = compressed("zstd", bytes(64 << 20), 64 << 20)
    with rpc.requests.expanded(rpc.owner, MAX_BODY_BYTES):
        assert transfer(rpc, COMPRESSED, bomb).code == PIPE_UNAVAILABLE
        with rpc.requests.expanded("user other", MAX_BODY_BYTES):
            pass
    assert transfer(rpc, COMPRESSED, bomb).code == PIPE_TYPE_ERROR


@pytest.mark.parametrize("name", CODECS)
def test_requests_that_are_shorter_than_they_say_show_no_other_memory(rpc: Client, name: str) -> None:
    content = b"\1" + struct.pack(">h", 4) + b"x" * 100
    assert transfer(rpc, COMPRESSED, compressed(name, content, len(content))).code == PIPE_TYPE_ERROR
    assert transfer(rpc, COMPRESSED, compressed(name, content, len(content) + 1)).code == PIPE_USER_CONFLICT


def test_a_request_is_not_decompressed_again_and_again(rpc: Client) -> None:
    methods = b"".join(struct.pack(">bi", 3, 200 << 20) for _ in range(2))
    assert transfer(rpc, COMPRESSED, b"\2" + methods).code == PIPE_USER_CONFLICT


def slice_of(order: int, size: int, part: bytes, index: int, count: int) -> bytes:
    return struct.pack(">ihii", order, 4, size, len(part)) + part + struct.pack(">ii", index, count)


def test_slices_that_do_not_continue_are_dropped_for_others(rpc: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_memory, "MAX_SLICED_BYTES", 2_000)
    other = Client(rpc.gate, rpc.origin, rpc.requests)
    other.log_in("root", ROOT_PASSWORD)
    first = slice_of(1, 1_500, b"x" * 800, 0, 2)
    assert transfer(rpc, SLICE, first).code == SUCCESS
    assert transfer(other, SLICE, first).code == PIPE_UNAVAILABLE
    monkeypatch.setattr(transfer_memory, "IDLE_S", 0.0)
    assert transfer(other, SLICE, first).code == SUCCESS
    assert transfer(rpc, SLICE, slice_of(1, 1_500, b"x", 1, 2)).code == PIPE_USER_CONFLICT
    assert transfer(other, SLICE, slice_of(1, 1_500, b"x", 1, 2)).code == PIPE_TYPE_ERROR
    other.log_out()


def test_results_that_are_not_read_take_no_more_than_the_share_of_a_user(rpc: Client) -> None:
    rpc.requests.results = Budget(200, 100)
    rows = ResultReader(Result(pa.table({"v": pa.array(range(10))})))
    number = rpc.keep(None, rows)
    with pytest.raises(LimitError, match="too many results"):
        rpc.keep(None, rows)
    rpc.drop_result(number)
    rpc.keep(None, rows)
