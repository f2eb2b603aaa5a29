"""A server that is killed under load has every row that it has acknowledged, once."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

import headrace
from tests.doors.conftest import PASSWORD

CLIENTS = 12
MIN_ACKNOWLEDGED = 120


def test_every_acknowledged_row_is_there_once_after_a_kill(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with headrace.connect(home) as connection:
        connection.execute("create database d")
    command = [sys.executable, "-m", "tests.doors.serving", str(home), PASSWORD]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        acknowledged: list[int] = []
        enough = threading.Event()
        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(write_until_killed, address, number, acknowledged, enough) for number in range(CLIENTS)]
            assert enough.wait(600)
            server.kill()
            for client in clients:
                client.result()
    finally:
        server.kill()
        server.wait()
    with headrace.connect(home) as connection:
        context = connection.session.context
        stored = context.tables.scan(context.catalog.tables.get("d", "m"))["v"].to_pylist()
    assert Counter(stored).most_common(1)[0][1] == 1
    assert set(acknowledged) <= set(stored)


def write_until_killed(address: str, number: int, acknowledged: list[int], enough: threading.Event) -> None:
    """Write two rows at a time until the server is gone, by line protocol and by INSERT in turn."""
    with httpx.Client(base_url=f"http://{address}", auth=("root", PASSWORD), timeout=600, trust_env=False) as client:
        for turn in range(100_000):
            rows = [number * 1_000_000 + turn * 2 + 1, number * 1_000_000 + turn * 2 + 2]
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
            acknowledged.extend(rows)
            if len(acknowledged) >= MIN_ACKNOWLEDGED:
                enough.set()
