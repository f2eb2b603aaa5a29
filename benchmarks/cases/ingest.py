"""Many clients that write a few rows at a time through the doors of an snode, from their requests to the answers.

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
from typing import TYPE_CHECKING, Final

import psutil

from benchmarks.bench import DATABASE, Bench
from benchmarks.measure import Timings
from benchmarks.results import Limit, Measurement

if TYPE_CHECKING:
    from headrace.runtime.door import Door

MAX_P99_S: Final = 0.1
PASSWORD: Final = "ingest"
LOGIN: Final = f"root:{PASSWORD}"
BASIC: Final = "Basic " + base64.b64encode(LOGIN.encode()).decode()
TREE: Final = f"{DATABASE}_tree"


@dataclass(frozen=True, slots=True)
class Load:
    """What clients write in a round, and the rows per second that they should achieve.

    With `is_paced`, answers are also measured at half of that pace.
    """

    what: str
    module: str
    database: str
    connections: int
    rows: int
    requests: int
    target: int
    is_paced: bool = True

    @property
    def total(self) -> int:
        """The rows of a round."""
        return self.connections * self.rows * self.requests


LINES: Final = Load("line protocol", "benchmarks.ingest_client", DATABASE, 50, 100, 40, 300_000)
TABLETS: Final = Load("insertTablet", "benchmarks.tablet_client", TREE, 50, 100, 40, 600_000)
LARGE_TABLETS: Final = Load("insertTablet", "benchmarks.tablet_client", TREE, 1, 10_000, 40, 600_000, is_paced=False)


@dataclass(slots=True)
class Clients:
    """Processes of clients that write rows of which no two are the same."""

    load: Load
    address: str
    authorization: str
    first: int = 0

    def write(self, rate: float) -> tuple[float, list[float]]:
        """Write the requests of each connection, and return the seconds of all and of each."""
        load = self.load
        numbers = [str(number) for number in (load.connections, load.rows, load.requests, rate, self.first)]
        self.first += load.connections * load.requests
        command = [sys.executable, "-m", load.module, self.address, self.authorization, load.database, *numbers]
        output = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return output["seconds"], output["latencies"]

    def measure(self, rounds: int) -> Iterator[Measurement]:
        """Measure the rows that are written in a second, and the longest waits at half of the required pace."""
        load = self.load
        name = f"{load.what}: {load.connections} connections, {load.rows} rows a request"
        self.write(0)
        per_second = [load.total / self.write(0)[0] for _ in range(rounds)]
        yield Measurement(
            f"{name}: time of {load.target} rows",
            Timings(tuple(load.target / pace for pace in per_second)),
            limit=Limit(seconds=1.0),
            note=f"{max(per_second):,.0f} rows/s; memory of the process {psutil.Process().memory_info().rss >> 20} MiB",
        )
        if load.is_paced:
            _, latencies = self.write(load.target / 2 / load.rows)
            p99 = Timings(tuple(latencies)).quantile(0.99)
            yield Measurement(f"{name}: p99 of an answer at half of that pace", Timings((p99,)), limit=Limit(seconds=MAX_P99_S))


@contextmanager
def open_doors(bench: Bench) -> Iterator[tuple[Door, Door]]:
    """Open the doors `tdengine` and `iotdb` to the benchmarks' home, which has no table `meters` yet."""
    from headrace.doors import with_group_commit
    from headrace.doors.gate import Gate
    from headrace.doors.iotdb.door import IotdbDoor
    from headrace.doors.options import DoorOptions
    from headrace.doors.tdengine.door import TDengineDoor
    from headrace.model.access import Principal
    from headrace.model.connections import Origin
    from headrace.runtime.credentials import are_equal

    def authenticate(user: str, password: str, origin: Origin) -> Principal:
        assert are_equal(password, PASSWORD)
        return Principal(user, origin=str(origin))

    if bench.has_table("meters"):
        bench.execute("DROP STABLE meters")
    gate, options = Gate(with_group_commit(bench.context), authenticate), DoorOptions("127.0.0.1", 0)
    doors = TDengineDoor(gate, options), IotdbDoor(gate, options, 1_000)
    for door in doors:
        door.start()
    try:
        yield doors
    finally:
        for door in doors:
            door.stop()


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure rows per second, the longest waits, and the memory, for lines and for tablets of few and of many rows."""
    with open_doors(bench) as (tdengine, iotdb):
        yield from Clients(LINES, tdengine.address, BASIC).measure(bench.sizes.rounds)
        yield from Clients(TABLETS, iotdb.address, LOGIN).measure(bench.sizes.rounds)
        # Other instants than those of the small tablets.
        yield from Clients(LARGE_TABLETS, iotdb.address, LOGIN, first=1_000_000).measure(bench.sizes.rounds)
