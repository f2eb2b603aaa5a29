"""A server that is killed under load has every row that it has acknowledged through any door, once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np

import headrace
from headrace.errors import OperationalError
from headrace.model.trees import TREE_TABLE
from headrace.pipes.iotdb.connection import BrokenConnectionError, Connection, Login, Node
from headrace.pipes.iotdb.messages import InsertTablet
from tests.doors.conftest import PASSWORD
from tests.doors.iotdb.test_hostile_clients import insert

CLIENTS = 12
MIN_ACKNOWLEDGED = 120
"""Rows of each kind of clients."""
INT32, SUCCESS = 1, 200

Numbers = list[int]


def test_every_acknowledged_row_is_there_once_after_a_kill(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with headrace.connect(home) as connection:
        connection.execute("create database d")
        connection.execute("create table d.f (ts timestamp, v int)")
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.doors.serving", str(home), PASSWORD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        addresses = json.loads(server.stdout.readline())
        loads = [Load(client, addresses[door]) for door, client in CLIENTS_OF_DOORS.items()]
        with ThreadPoolExecutor(CLIENTS) as pool:
            running = [pool.submit(loads[number % len(loads)].run, number) for number in range(CLIENTS)]
            for load in loads:
                load.enough.wait(600)
            server.kill()
            for one in running:
                one.result()
    finally:
        server.kill()
        server.wait()
    with headrace.connect(home) as connection:
        context = connection.session.context
        tables = (("d", "f"), ("root.tree", TREE_TABLE), ("d", "m"))
        for load, name in zip(loads, tables, strict=True):
            stored = context.tables.scan(context.catalog.tables.get(*name))["v"].to_pylist()
            assert Counter(stored).most_common(1)[0][1] == 1
            assert set(load.acknowledged) <= set(stored)


class Load:
    """Clients of one door, and the rows that were acknowledged."""

    def __init__(self, client: Callable[[str, int], Iterator[Numbers]], address: str) -> None:
        self._client, self._address = client, address
        self.acknowledged: Numbers = []
        self.enough = threading.Event()

    def run(self, number: int) -> None:
        """Write until the server is gone."""
        try:
            for rows in self._client(self._address, number):
                self.acknowledged.extend(rows)
                if len(self.acknowledged) >= MIN_ACKNOWLEDGED:
                    self.enough.set()
        finally:
            # If a client fails, its error ends the test.
            self.enough.set()


def rows_of(number: int) -> Iterator[Numbers]:
    """Yield two rows at a time, which no other client writes."""
    for turn in range(100_000):
        yield [number * 1_000_000 + turn * 2 + 1, number * 1_000_000 + turn * 2 + 2]


def write_over_http(address: str, number: int) -> Iterator[Numbers]:
    """Write by line protocol and by INSERT in turn."""
    with httpx.Client(base_url=f"http://{address}", auth=("root", PASSWORD), timeout=600, trust_env=False) as client:
        for turn, rows in enumerate(rows_of(number)):
            try:
                if turn % 2:
                    values = " ".join(f"({row}, {row})" for row in rows)
                    sql = f"insert into s{number} using m tags ('c{number}') (_ts, v) values {values}"
                    is_written = client.post("/rest/sql/d", content=sql).json()["code"] == 0
                else:
                    lines = "\n".join(f"m,g=c{number} v={row}i32 {row}" for row in rows)
                    is_written = client.post("/influxdb/v1/write?db=d&precision=ms", content=lines).status_code == 204
            except httpx.TransportError:
                return
            assert is_written
            yield rows


def write_tablets(address: str, number: int) -> Iterator[Numbers]:
    """Write by insertTablet."""
    host, _, port = address.rpartition(":")
    with closing(Connection(Node(host, int(port)), Login("root", PASSWORD, timeout_ms=600_000))) as client:
        for rows in rows_of(number):
            request = InsertTablet(
                sessionId=client.session,
                prefixPath=f"root.tree.s{number}",
                measurements=["v"],
                values=np.array(rows, ">i4").tobytes(),
                timestamps=np.array(rows, ">i8").tobytes(),
                types=[INT32],
                size=len(rows),
            )
            try:
                status = insert(client, "insertTablet", request)
                assert status.code == SUCCESS, status.message
            except BrokenConnectionError:
                return
            yield rows


def write_over_flight(address: str, number: int) -> Iterator[Numbers]:
    """Write by INSERT."""
    with headrace.connect(f"grpc://{address}", user="root", password=PASSWORD) as client:
        for rows in rows_of(number):
            try:
                client.execute("insert into d.f values " + " ".join(f"({row}, {row})" for row in rows))
            except OperationalError:
                return
            yield rows


CLIENTS_OF_DOORS = {"flight": write_over_flight, "iotdb": write_tablets, "tdengine": write_over_http}
