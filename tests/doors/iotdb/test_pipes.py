"""Pipes that send here: Headrace's own, and one of a real IoTDB server."""

from __future__ import annotations

import datetime as dt
import struct
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from headrace.doors.iotdb.door import IotdbDoor
from headrace.doors.iotdb.statuses import PIPE_HANDSHAKE_ERROR, PIPE_TYPE_ERROR, PIPE_USER_CONFLICT, WRONG_LOGIN
from headrace.model.time import Precision
from headrace.model.tree_types import TREE_TYPES
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DeleteEvent, DeviceRows, InsertEvent, Measurement
from headrace.pipes.iotdb import messages, requests
from headrace.pipes.iotdb.connection import Connection, Login, Node
from headrace.pipes.iotdb.queries import query
from headrace.pipes.iotdb.receiver import ThriftSink, transfer
from headrace.pipes.iotdb.tablets import encode_tablets
from headrace.pipes.plugins import Delivery
from tests.docs.pages import ROOT, parse_blocks
from tests.doors.iotdb.conftest import PASSWORD, USER
from tests.pipes.iotdb_results import execute
from tests.pipes.thrift import sink
from tests.support.iotdb_server import Server
from tests.support.waiting import wait_until

SLICE = 400
TSFILE_PIECE = 4
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "BOOLEAN": (pa.bool_(), [True, None, False]),
    "INT32": (pa.int32(), [-(2**31), 7, None]),
    "INT64": (pa.int64(), [None, 2**63 - 1, -1]),
    "FLOAT": (pa.float32(), [1.5, -0.25, None]),
    "DOUBLE": (pa.float64(), [None, 1e300, -1e-300]),
    "TEXT": (pa.string(), ["", "péñ", None]),
    "TIMESTAMP": (pa.int64(), [1, None, -1]),
    "DATE": (pa.date32(), [dt.date(1969, 12, 31), None, dt.date(9999, 12, 31)]),
    "BLOB": (pa.binary(), [b"\x00\xff", b"", None]),
    "STRING": (pa.string(), [None, "x" * 300, "y"]),
}
READ = {"DATE": [19691231, None, 99991231]}
"""What differs in results: dates are integers of digits."""


@pytest.fixture
def session(door: IotdbDoor) -> Iterator[Connection]:
    connection = Connection(Node("127.0.0.1", door.port), Login(USER, PASSWORD))
    yield connection
    connection.close()


def rows(session: Connection, sql: str) -> list[tuple[Any, ...]]:
    table = query(session, sql)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_columns else []


def own_sink(door: IotdbDoor, **options: str) -> ThriftSink:
    login = {"sink.user": USER, "sink.password": PASSWORD}
    return sink(PipeAttributes({"sink.ip": "127.0.0.1", "sink.port": str(door.port), **login, **options}))


def device_rows(device: str, *, aligned: bool = False) -> DeviceRows:
    arrays = {f"m_{name.lower()}": pa.array(values, type_) for name, (type_, values) in VALUES.items()}
    table = pa.table({"time": pa.array([1, 2, 3], pa.int64()), "device": [device] * 3, **arrays})
    measurements = {f"m_{name.lower()}": Measurement(f"m_{name.lower()}", TREE_TYPES[name]) for name in VALUES}
    return DeviceRows(table, measurements, Precision.MILLISECOND, "root.x", frozenset({device} if aligned else ()))


def test_rows_beyond_their_time_to_live_count_as_received(door: IotdbDoor, session: Connection) -> None:
    rows(session, "create database root.aged with ttl=3600000")
    now = time.time_ns() // 1_000_000
    arrays = {"time": pa.array([1, now], pa.int64()), "device": ["root.aged.d"] * 2, "s": pa.array([1, 2], pa.int32())}
    data = DeviceRows(pa.table(arrays), {"s": Measurement("s", TREE_TYPES["INT32"])}, Precision.MILLISECOND, "root.aged")
    one = own_sink(door)
    one.handshake()
    one.transfer(Delivery("pipe", 0, [InsertEvent(data)]))
    one.close()
    assert rows(session, "select s from root.aged.d") == [(now, 2)]


@pytest.mark.parametrize("compressor", ["", "snappy", "zstd,lzma2"])
def test_rows_of_an_own_pipe_arrive_and_are_deleted(door: IotdbDoor, session: Connection, compressor: str) -> None:
    device = f"root.own.d{len(compressor)}"
    one = own_sink(door, **({"sink.compressor": compressor} if compressor else {}))
    one.handshake()
    data = device_rows(device, aligned=bool(compressor))
    one.transfer(Delivery("pipe", 0, [InsertEvent(data)]))
    names = ", ".join(data.columns)
    expected = [READ.get(name, values) for name, (_, values) in VALUES.items()]
    assert rows(session, f"select {names} from {device}") == list(zip([1, 2, 3], *expected, strict=True))
    assert rows(session, f"show devices {device}")[0][1] == str(bool(compressor)).lower()
    one.transfer(Delivery("pipe", 1, [DeleteEvent(data)]))
    one.close()
    assert rows(session, f"select {names} from {device}") == []


def test_a_request_may_come_in_slices(session: Connection) -> None:
    introduce(session)
    (tablet,) = encode_tablets(device_rows("root.sliced.d"), Precision.MILLISECOND, 1 << 20)
    body = requests.tablet_batch([tablet]).body
    parts = [body[at : at + 100] for at in range(0, len(body), 100)]
    for index, part in enumerate(parts):
        head = struct.pack(">ihii", 7, requests.TABLET_BATCH, len(body), len(part))
        slice_ = head + part + struct.pack(">ii", index, len(parts))
        assert transfer(session, requests.Request(SLICE, slice_)).code == 200
    assert rows(session, "select count(m_int32) from root.sliced.d") == [(2,)]
    assert transfer(session, requests.Request(SLICE, struct.pack(">ihiiii", 7, 6, 9, 0, 3, 9))).code == PIPE_USER_CONFLICT


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def schema(name: str, type_: int) -> bytes:
    """Return a measurement as plans have it, without properties."""
    return text(name) + bytes([type_, 0, 0]) + struct.pack(">i", 0)


ROW = struct.pack(">q", 5) + text("root.plans.d") + struct.pack(">iB", 3, 0) + text("x") + text("t") + text("n")
VALUES_OF_ROW = b"\x01" + struct.pack(">i", 7) + b"\x05" + text("seven") + b"\xfe"
LOGGED_ROW = struct.pack(">hqq", 14, 1, 6) + text("root.plans.d") + struct.pack(">i", 1) + schema("x", 1)
PLANS = {
    2: struct.pack(">h", 14) + ROW + VALUES_OF_ROW + b"\x00\x00" + text("") + struct.pack(">i", 0),
    7: LOGGED_ROW + b"\x01" + struct.pack(">i", 8) + b"\x00",
}
"""Rows as a plan and as a log has them, by the type of the request."""
TABLET_PLAN = (
    struct.pack(">h", 13)
    + text("root.plans.d")
    + struct.pack(">iB", 2, 1)
    + schema("x", 1)
    + schema("b", 0)
    + bytes([1, 0])
    + struct.pack(">iqq", 2, 7, 8)
    + b"\x01\x00\x01\x02"
    + struct.pack(">ii", 9, 10)
    + b"\x01\x00\x00"
    + text("")
    + struct.pack(">i", 0)
)


def test_rows_come_as_plans_and_from_a_log(session: Connection) -> None:
    introduce(session)
    for kind, body in PLANS.items():
        assert transfer(session, requests.Request(kind, body)).code == 200
    logged = PLANS[7]
    batch = struct.pack(">ii", 1, len(logged)) + logged + struct.pack(">i", 1) + TABLET_PLAN + struct.pack(">i", 0)
    assert transfer(session, requests.Request(requests.TABLET_BATCH, batch)).code == 200
    assert rows(session, "select x, t, b from root.plans.d") == [
        (5, 7, "seven", None),
        (6, 8, None, None),
        (7, 9, None, True),
        (8, 10, None, None),
    ]


def introduce(session: Connection, **changes: str) -> messages.Status:
    settings = {"clusterID": "other", "timestampPrecision": "ms", "username": USER, "password": PASSWORD} | changes
    return transfer(session, requests.handshake(settings))


def test_what_cannot_be_received_is_answered_by_a_reason(session: Connection) -> None:
    assert introduce(session, timestampPrecision="ns").code == PIPE_HANDSHAKE_ERROR
    assert introduce(session, password="wrong").code == WRONG_LOGIN
    assert introduce(session).code == 200
    files = transfer(session, requests.Request(TSFILE_PIECE, b"TsFile"))
    assert (files.code, files.message) == (
        PIPE_TYPE_ERROR,
        "TsFiles are not supported (hint: create the pipe with 'sink.format'='tablet')",
    )
    assert transfer(session, requests.Request(requests.TABLET_BATCH, b"\x00\x00\x00\x01")).code == PIPE_USER_CONFLICT


PAGE = ROOT / "docs" / "guides" / "connect-iotdb.md"


def pipe_statements(door: IotdbDoor) -> list[str]:
    """Return the statements of the guide that create and start a pipe to the door."""
    (block,) = (one for one in parse_blocks(PAGE) if one.language == "sql")
    text = block.text.replace("6667", str(door.port)).replace("a password", PASSWORD).replace("root.plant", "root.sent")
    return [statement for statement in text.split(";") if statement.strip()]


@pytest.mark.timeout(600)
def test_a_pipe_of_a_real_server_sends_here(iotdb_server: Server, door: IotdbDoor, session: Connection) -> None:
    execute(
        iotdb_server,
        "create timeseries root.sent.d.day with datatype=DATE",
        "insert into root.sent.d(time, x, t, day) values(1, 1.5, 'before', '2024-02-29')",
        "insert into root.sent.al(time, x, y) aligned values(1, true, 2)",
        *pipe_statements(door),
        "insert into root.sent.d(time, x, t) values(2, 2.5, 'after'), (3, null, 'last')",
        "flush",
    )
    try:
        wait_until(lambda: len(rows(session, "select x, t, day from root.sent.d")) == 3, "the rows")
        assert rows(session, "select x, t, day from root.sent.d") == [
            (1, 1.5, "before", 20240229),
            (2, 2.5, "after", None),
            (3, None, "last", None),
        ]
        wait_until(lambda: rows(session, "select x, y from root.sent.al") == [(1, True, 2.0)], "the aligned row")
        assert [row[1] for row in rows(session, "show devices root.sent.al")] == ["true"]
    finally:
        execute(iotdb_server, "drop pipe to_headrace")
