"""Random operations on a system: writes of users, control of streams, and faults."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

import headrace
from tests.soak.pipes import PIPES, create_pipe_sql
from tests.soak.streams import STREAMS, STREAMS_OF_STREAMS, create_stream_sql
from tests.soak.system import System, is_away
from tests.support.waiting import wait_until

START_MS: Final = 1_700_000_000_000
SUBTABLES: Final = 12
LOADED_ROWS: Final = 5_000

WEIGHTS: Final = {
    "insert": 40,
    "insert_late": 10,
    "update": 10,
    "delete": 5,
    "load": 4,
    "pause": 3,
    "resume": 5,
    "recreate": 2,
    "toggle_pipe": 3,
    "kill_driver": 2,
    "freeze_driver": 1,
    "kill_worker": 2,
    "restart_catalog": 1,
    "cut_power": 1,
}
"""How often each operation is chosen."""


class Workload:
    """Performs operations and counts them. The same seed makes the same operations."""

    def __init__(self, system: System, seed: int) -> None:
        self._system = system
        self._random = random.Random(seed)
        self._connect()
        self._now = START_MS
        self._paused: set[str] = set()
        self._stopped: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.rows = 0

    def _connect(self) -> None:
        self._connection = self._system.connect()
        self._trees = self._system.connect("iotdb")

    def plan(self, operations: int) -> list[str]:
        """Return a random sequence in which every operation occurs."""
        chosen = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=max(0, operations - len(WEIGHTS)))
        planned = [*chosen, *WEIGHTS]
        self._random.shuffle(planned)
        return planned

    def choose(self) -> str:
        """Return a random operation."""
        return self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]

    def perform(self, operation: str) -> None:
        """Perform an operation, and count it if it did something."""
        action: Callable[[], bool | None] = getattr(self, operation)
        if action() is not False:
            self.counts[operation] += 1

    def begin(self) -> None:
        """Create the streams and pipes."""
        for name in STREAMS | STREAMS_OF_STREAMS:
            self.execute(create_stream_sql(name))
        for name in PIPES:
            self.execute_in_trees(create_pipe_sql(name, self._system.settings))

    def end(self) -> None:
        """Resume what is paused and close all windows, so that every stream and pipe can be compared."""
        for name in sorted(self._stopped):
            self.execute_in_trees(f"START PIPE {name}")
        for name in sorted(self._paused):
            self.execute(f"RESUME STREAM {name}")
        self._now += 3_600_000
        for table in ("readings", "ordered"):
            for _ in range(2):
                self._now += 1_000
                self.write(table, [(subtable, self._now, 1, "x") for subtable in range(SUBTABLES)])

    def execute(self, sql: str) -> None:
        """Execute a statement, again for as long as something is away."""
        self.retry(lambda: self._connection.execute(sql), sql)

    def execute_in_trees(self, sql: str) -> None:
        """Do the same with a statement of the IoTDB dialect."""
        self.retry(lambda: self._trees.execute(sql), sql)

    def write(self, table: str, rows: Sequence[tuple[int, int, int, str]]) -> None:
        """Insert rows (subtable, ms, a, b)."""
        parts = (f"{table}_{number} USING {table} TAGS ({number % 3}) VALUES ({ms}, {a}, '{b}')" for number, ms, a, b in rows)
        self.execute(f"INSERT INTO {' '.join(parts)}")
        self.rows += len(rows)

    def insert(self) -> None:
        """Insert rows in order."""
        rows = []
        for _ in range(self._random.randint(1, 40)):
            self._now += self._random.choice([1, 500, 3_000, 20_000])
            rows.append(self.row(self._now))
        self.write(self._random.choice(["readings", "readings", "ordered"]), rows)

    def insert_late(self) -> None:
        """Insert rows of up to an hour ago."""
        self.write("readings", [self.row(self.past()) for _ in range(self._random.randint(1, 10))])

    def update(self) -> None:
        """Write rows twice, with other values."""
        instants = [(self._random.randrange(SUBTABLES), self.past()) for _ in range(5)]
        for _ in range(2):
            self.write("readings", [(subtable, ms, self._random.randint(0, 5), "y") for subtable, ms in instants])

    def delete(self) -> None:
        """Delete a range of a subtable."""
        subtable, last = self._random.randrange(SUBTABLES), self.past()
        self.write("readings", [(subtable, last, 1, "x")])
        self.execute(f"DELETE FROM readings_{subtable} WHERE ts BETWEEN {last - 60_000} AND {last}")

    def load(self) -> None:
        """Load a file of rows in order."""
        start, self._now = self._now, self._now + LOADED_ROWS * 100
        rows = [self.row(start + number * 100) for number in range(LOADED_ROWS)]
        columns = {
            "tbname": [f"readings_{row[0]}" for row in rows],
            "ts": pa.array([row[1] for row in rows], pa.timestamp("ms", "UTC")),
            "a": pa.array([row[2] for row in rows], pa.int32()),
            "b": [row[3] for row in rows],
        }
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            pq.write_table(pa.table(columns), path)
            self.retry(lambda: self._connection.load(path, into="readings"))
        self.rows += LOADED_ROWS

    def retry(self, action: Callable[[], object], name: str = "an action") -> None:
        """Perform an action, again for as long as something is away."""

        def attempt() -> bool:
            try:
                action()
            except headrace.Error as error:
                if not is_away(error):
                    raise
                return False
            return True

        wait_until(attempt, f"{name[:80]} to succeed", details=self._system.logs)

    def pause(self) -> None:
        """Pause a stream."""
        name = self._random.choice(list(STREAMS))
        self.execute(f"PAUSE STREAM {name}")
        self._paused.add(name)

    def resume(self) -> bool | None:
        """Resume a stream that is paused."""
        if not self._paused:
            return False
        name = self._random.choice(sorted(self._paused))
        self.execute(f"RESUME STREAM {name}")
        self._paused.discard(name)
        return None

    def recreate(self) -> None:
        """Drop a stream and its target, and create it again, which fills its history."""
        name = self._random.choice([name for name in STREAMS if name != "minute"])
        target = STREAMS[name].split("INTO ")[1].split()[0]
        self.execute(f"DROP STREAM IF EXISTS {name}")
        self.execute(f"DROP STABLE IF EXISTS {target}")
        self.execute(create_stream_sql(name).replace("CREATE STREAM", "CREATE STREAM IF NOT EXISTS"))
        self._paused.discard(name)

    def toggle_pipe(self) -> None:
        """Stop a pipe, or start one that is stopped."""
        name = self._random.choice(list(PIPES))
        self.execute_in_trees(f"{'START' if name in self._stopped else 'STOP'} PIPE {name}")
        self._stopped ^= {name}

    def kill_driver(self) -> None:
        """Kill the driver, while it starts or at work."""
        self._maybe_let_driver_work()
        self._system.kill_driver()

    def freeze_driver(self) -> None:
        """Freeze the driver until another one has taken over."""
        self._maybe_let_driver_work()
        self._system.freeze_driver()

    def _maybe_let_driver_work(self) -> None:
        """Let the driver start and handle some rows three times out of four, or it might never get to do so."""
        if self._random.random() < 0.75:
            self._system.await_driver()
            for _ in range(10):
                self.insert()

    def kill_worker(self) -> bool:
        """Kill a Python worker."""
        return self._system.kill_worker(self._random)

    def cut_power(self) -> bool:
        """Cut the power while the driver works. This process's connections end too; what was acknowledged has to be there."""
        if self._system.disk is None:
            return False
        self._maybe_let_driver_work()
        self.close()
        is_cut = self._system.cut_power(self._random)
        self._connect()
        return is_cut

    def restart_catalog(self) -> None:
        """Restart the catalog's database."""
        self._system.restart_catalog()

    def row(self, ms: int) -> tuple[int, int, int, str]:
        """Return a row with random values."""
        return self._random.randrange(SUBTABLES), ms, self._random.randint(0, 5), self._random.choice(["x", "y", "z"])

    def past(self) -> int:
        """Return an instant of the last hour."""
        return self._now - self._random.randint(0, 3_600_000)

    def close(self) -> None:
        """Close the connections."""
        self._trees.close()
        self._connection.close()
