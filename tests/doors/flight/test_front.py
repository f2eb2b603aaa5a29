"""What clients of Flight cannot do to an snode: take its memory, end it, or have half of their rows written."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.flight as flight
import pytest

import headrace
from headrace.doors.flight import FlightDoor, front
from headrace.doors.flight.requests import DATA, HEADERS, PREFACE
from headrace.doors.gate import Gate
from headrace.doors.options import DoorOptions
from headrace.runtime.flight_sql import encode_command
from headrace.service import appending
from tests.doors.flight.conftest import PASSWORD
from tests.doors.flight.test_requests import field, frame, prefixed
from tests.support.certificates import make_certificate
from tests.support.waiting import wait_until

INGEST = encode_command("CommandStatementIngest", table="meters", schema="power")
TIMES = pa.array([1_000_000, 1_000_001, 1_000_002], pa.timestamp("ms"))
NAMES = pa.array(["d1"] * 3)
MAX_GROWTH_MIB = 200
BOMB_MIB = 1_024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[psutil.Process, str]]:
    """A process with all doors open, and the address of the one of Flight."""
    command = [sys.executable, "-m", "tests.doors.serving", str(tmp_path_factory.mktemp("front")), PASSWORD]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["flight"]
        with headrace.connect(f"grpc://{address}", user="root", password=PASSWORD) as connection:
            connection.execute("CREATE DATABASE power")
            connection.execute("CREATE TABLE power.meters (ts TIMESTAMP, v BIGINT)")
        yield psutil.Process(process.pid), address
    finally:
        process.kill()
        process.wait()


def test_folders_of_killed_servers_go_with_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folders = {name: tmp_path / f"{front.FOLDER_PREFIX}{name}" for name in ("dead", "starting", "alive", "new")}
    for folder in folders.values():
        folder.mkdir()
    with ExitStack() as stack:
        sockets = {name: stack.enter_context(socket.socket(socket.AF_UNIX)) for name in ("dead", "starting", "alive")}
        for name, own in sockets.items():
            own.bind(str(folders[name] / front.SERVER))
        sockets["alive"].listen()
        for name in ("dead", "alive"):
            os.utime(folders[name], (0, 0))
        front.remove_dead_sockets()
    assert [name for name, folder in folders.items() if folder.exists()] == ["starting", "alive", "new"]


def peak_mib(process: psutil.Process) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10


def send(address: str, batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    """Send rows to a table; return the answer."""
    with flight.connect(f"grpc://{address}") as client:
        token = client.authenticate_basic_token("root", PASSWORD)
        options = flight.FlightCallOptions(headers=[token], write_options=pa.ipc.IpcWriteOptions(compression=compression))
        writer, reader = client.do_put(flight.FlightDescriptor.for_command(INGEST), batch.schema, options)
        with writer:
            writer.write_batch(batch)
            writer.done_writing()
            return bytes(reader.read())


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_small_batch_that_would_become_a_large_one_takes_no_memory(server: tuple[psutil.Process, str], codec: str) -> None:
    process, address = server
    before = peak_mib(process)
    zeros = pa.record_batch({"v": np.zeros(BOMB_MIB << 17, np.int64)})
    with pytest.raises(flight.FlightServerError, match="record batches are compressed"):
        send(address, zeros, codec)
    assert peak_mib(process) - before < MAX_GROWTH_MIB


def test_who_has_not_logged_in_takes_little_memory(server: tuple[psutil.Process, str]) -> None:
    process, address = server
    before = peak_mib(process)
    with flight.connect(f"grpc://{address}") as client, pytest.raises(flight.FlightError):
        list(client.do_action(flight.Action("x", bytes(BOMB_MIB << 20)), flight.FlightCallOptions(timeout=3)))
    assert peak_mib(process) - before < MAX_GROWTH_MIB


def column(kind: pa.DataType, *buffers: bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, 3, [None, *map(pa.py_buffer, buffers)])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (column(pa.string(), np.array([0, 4, 2**31 - 1, 5], np.int32).tobytes(), b"abcdefgh"), "malformed"),
        (pa.DictionaryArray.from_arrays(pa.array([0, 10**8, 10**9], pa.int32()), pa.array(["a"]), safe=False), "malformed"),
        (column(pa.string(), np.arange(4, dtype=np.int32).tobytes(), b"\xff\xfe\xfd"), "malformed"),
        (pa.array([[1], [2], [3]]), "list<item: int64>"),
        (pa.RunEndEncodedArray.from_arrays([3], ["x"]), "run_end_encoded"),
    ],
)
def test_rows_that_are_no_rows_are_an_error(door: FlightDoor, values: pa.Array, message: str) -> None:
    with pytest.raises((flight.FlightServerError, pa.ArrowNotImplementedError), match=message):
        send(door.address, pa.RecordBatch.from_arrays([TIMES, values], ["ts", "v"]))


def test_texts_count_wherever_they_are_repeated(door: FlightDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x" * 1_000
    shared: Any = door._server._limits._sent
    monkeypatch.setattr(shared, "_share", 50_000)
    monkeypatch.setattr(shared, "_held", {"root": 1})
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 60, pa.int32()), pa.array([text]))
    view = struct.pack("<i4sii", len(text), text[:4].encode(), 0, 0)
    views = pa.Array.from_buffers(pa.string_view(), 60, [None, pa.py_buffer(view * 60), pa.py_buffer(text.encode())])
    for values in (repeated, views, pa.nulls(60_000)):
        with pytest.raises(flight.FlightServerError, match="sent at once"):
            send(door.address, pa.RecordBatch.from_arrays([values], ["v"]))


def test_rows_are_received_from_users_who_may_write_them(door: FlightDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    with headrace.connect(f"grpc://{door.address}", user="root", password=PASSWORD, dialect="iotdb") as root:
        root.execute("CREATE USER nobo 'secret12'")
    monkeypatch.setattr(appending, "open_batches", lambda _: pytest.fail("rows were read"))
    rows = pa.table({"v": [1.0]})
    with headrace.connect(f"grpc://{door.address}", user="nobo", password="secret12") as nobody:
        for table in ("power.meters", "power.nowhere", "root.plant"):
            with pytest.raises(headrace.PermissionDeniedError):
                nobody.append(rows, table)
    with headrace.connect(f"grpc://{door.address}", user="root", password=PASSWORD) as root, pytest.raises(headrace.NotFoundError):
        root.append(rows, "power.nowhere")


def test_rows_of_a_client_that_goes_are_not_written(door: FlightDoor) -> None:
    rows = pa.RecordBatch.from_arrays([TIMES, pa.array([1.0, 2.0, 3.0]), NAMES], ["ts", "v", "tbname"])
    with flight.connect(f"grpc://{door.address}") as client:
        options = flight.FlightCallOptions(headers=[client.authenticate_basic_token("root", PASSWORD)])
        writer, _ = client.do_put(flight.FlightDescriptor.for_command(INGEST), rows.schema, options)
        writer.write_batch(rows)
        wait_until(lambda: bool(door._server._limits._sent._held), "rows")
        for one in list(door._front._clients.values()):
            door._front._loop.call_soon_threadsafe(one.abort, "a test")
        wait_until(lambda: not door._server._limits._calls._held, "the end of the call")
    with headrace.connect(f"grpc://{door.address}", user="root", password=PASSWORD) as connection:
        assert connection.execute("SELECT count(*) FROM power.meters WHERE ts >= 1000000 AND ts < 1000009").fetchall() == [(0,)]


def test_what_waits_for_a_login_ends_with_its_connection(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "LOGIN_TIMEOUT_S", 0.01)
    door = FlightDoor(gate, DoorOptions("127.0.0.1", 0))
    door.start()
    try:
        with flight.connect(f"grpc://{door.address}") as client, pytest.raises(flight.FlightUnavailableError):
            list(client.do_action(flight.Action("x", bytes(64 << 20))))
        assert not door._front.strangers._held
    finally:
        door.stop()


def test_what_waits_for_the_rest_of_something_counts_before_the_login(door: FlightDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    strangers, reserved = door._front.strangers, 0
    reserve = strangers.try_reserve

    def record(owner: str, size: int) -> bool:
        nonlocal reserved
        reserved += size
        return reserve(owner, size)

    monkeypatch.setattr(strangers, "try_reserve", record)
    statement = prefixed(field(2, bytes(900_000)))[:500_000]
    pieces = b"".join(frame(DATA, 1, statement[at : at + 10_000]) for at in range(0, len(statement), 10_000))
    host, _, port = door.address.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(PREFACE + frame(HEADERS, 1) + pieces)
        wait_until(lambda: reserved > 0, "a reservation")
    wait_until(lambda: not strangers._held, "the end of the connection")


def test_the_certificate_is_verified(gate: Gate, tmp_path: Path) -> None:
    (certificate, key), (other, _) = (make_certificate(tmp_path / folder) for folder in ("a", "b"))
    door = FlightDoor(gate, DoorOptions("127.0.0.1", 0, str(certificate), str(key)))
    door.start()
    try:
        address = f"grpc+tls://{door.address}"
        with flight.connect(address, tls_root_certs=certificate.read_bytes()) as client:
            assert client.authenticate_basic_token("root", PASSWORD)
        with flight.connect(address, tls_root_certs=other.read_bytes()) as client, pytest.raises(flight.FlightError):
            client.authenticate_basic_token("root", PASSWORD)
        make_certificate(tmp_path / "a")
        with flight.connect(address, tls_root_certs=certificate.read_bytes()) as client:
            assert client.authenticate_basic_token("root", PASSWORD)
    finally:
        door.stop()
