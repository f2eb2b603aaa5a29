"""Many clients that write a few rows at a time through the door `tdengine`, from their requests to the answers.

The clients run in a process of their own, on the same machine.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psutil

from benchmarks.bench import DATABASE, Bench
from benchmarks.measure import Timings
from benchmarks.results import Limit, Measurement

CONNECTIONS: Final = 50
ROWS: Final = 100
REQUESTS: Final = 40
"""Requests of each connection in a round."""
MIN_ROWS_PER_S: Final = 300_000
MAX_P99_S: Final = 0.1
PASSWORD: Final = "ingest"


@dataclass(slots=True)
class Clients:
    """Processes of clients that write rows of which no two are the same."""

    address: str
    first: int = 0

    def write(self, rate: float) -> tuple[float, list[float]]:
        """Write `REQUESTS` of each connection, and return the seconds of all and of each."""
        authorization = "Basic " + base64.b64encode(f"root:{PASSWORD}".encode()).decode()
        numbers = [str(number) for number in (CONNECTIONS, ROWS, REQUESTS, rate, self.first)]
        self.first += CONNECTIONS * REQUESTS
        command = [sys.executable, "-m", "benchmarks.ingest_client", self.address, authorization, DATABASE, *numbers]
        output = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return output["seconds"], output["latencies"]


@contextmanager
def open_door(bench: Bench) -> Iterator[str]:
    """Open the door to the benchmarks' home, and return its address."""
    from headrace.doors import with_group_commit
    from headrace.doors.gate import Gate
    from headrace.doors.options import DoorOptions
    from headrace.doors.tdengine.door import TDengineDoor
    from headrace.runtime.credentials import are_equal

    def authenticate(user: str, password: str) -> str:
        assert are_equal(password, PASSWORD)
        return user

    door = TDengineDoor(Gate(with_group_commit(bench.context), authenticate), DoorOptions("127.0.0.1", 0))
    door.start()
    try:
        yield door.address
    finally:
        door.stop()


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure the rows that are written in a second, the longest waits at half of the required pace, and the memory."""
    if bench.has_table("meters"):
        bench.execute("DROP STABLE meters")
    with open_door(bench) as address:
        clients = Clients(address)
        clients.write(0)
        rounds = [clients.write(0) for _ in range(bench.sizes.rounds)]
        per_second = [CONNECTIONS * ROWS * REQUESTS / seconds for seconds, _ in rounds]
        name = f"{CONNECTIONS} connections, {ROWS} rows a request"
        yield Measurement(
            f"{name}: time of {MIN_ROWS_PER_S} rows",
            Timings(tuple(MIN_ROWS_PER_S / pace for pace in per_second)),
            limit=Limit(seconds=1.0),
            note=f"{max(per_second):,.0f} rows/s; memory of the process {psutil.Process().memory_info().rss >> 20} MiB",
        )
        _, latencies = clients.write(MIN_ROWS_PER_S / 2 / ROWS)
        p99 = Timings(tuple(latencies)).quantile(0.99)
        yield Measurement(f"{name}: p99 of an answer at half of that pace", Timings((p99,)), limit=Limit(seconds=MAX_P99_S))
