"""Statements over a tree of many devices with many measurements: creation, INSERT, SHOW, and queries of a few series."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.data import START_MS
from benchmarks.measure import Peak, interleave, sample_peak, time_call
from benchmarks.results import Limit, Measurement
from headrace.model.tables import Column
from headrace.model.trees import TREE_TABLE, Device, Timeseries
from headrace.model.types import DOUBLE

STATEMENTS_PER_ROUND: Final = 5
ROWS_PER_DEVICE: Final = 10
LIMIT_SECONDS: Final = 1.0


@dataclass
class WideTree:
    """A database of `root.wide` with many devices of the same measurements, which all have rows."""

    bench: Bench
    name: str = "root.wide"
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        sizes = self.bench.sizes
        self.measurements = [f"s{number}" for number in range(sizes.wide_measurements)]
        self.devices = [f"{self.name}.g{number // 100}.d{number:05d}" for number in range(sizes.wide_devices)]
        if self.name in self.context.catalog.trees.databases():
            self.bench.tree.execute(f"DELETE DATABASE {self.name}")
        self.create()
        self.fill()

    @property
    def context(self):  # type: ignore[no-untyped-def]
        return self.bench.tree.session.context

    def create(self) -> None:
        """Create the first device by a statement and the others in one transaction."""
        self.bench.tree.execute(f"CREATE DATABASE {self.name}")
        self.execute(self.creation(self.devices[0]))
        table = self.context.catalog.tables.get(self.name, TREE_TABLE)
        columns = {column.comment: column.name for column in table.columns if column.comment}
        series = tuple(Timeseries(name, DOUBLE, columns[name]) for name in self.measurements)
        others = [Device(self.name, path, series, aligned=True) for path in self.devices[1:]]
        self.context.catalog.trees.change(self.name, self.devices[1:], lambda _: others, ())

    def fill(self) -> None:
        """Write some rows of every device in a few commits."""
        database, table = self.context.catalog.databases.get(self.name), self.context.catalog.tables.get(self.name, TREE_TABLE)
        declared: list[Column] = [column for column in table.columns if column.comment]
        for first in range(0, len(self.devices), 1000):
            devices = self.devices[first : first + 1000]
            length = ROWS_PER_DEVICE * len(devices)
            times = [(START_MS + row % ROWS_PER_DEVICE * 1000) * 1000 for row in range(length)]
            rows = {"time": pa.array(times, pa.timestamp("us", "UTC"))}
            rows |= {column.name: pa.array([float(row % 97) for row in range(length)]) for column in declared}
            rows["device"] = pa.array([devices[row // ROWS_PER_DEVICE] for row in range(length)])
            self.context.tables.writer.write(table, database, pa.table(rows))

    def execute(self, sql: str) -> int:
        """Run a statement, fetch its result, and return the number of rows."""
        cursor = self.bench.tree.execute(sql)
        return len(cursor.fetchall()) if cursor.description else 0

    def creation(self, path: str) -> str:
        """Return the statement that creates a device."""
        return f"CREATE ALIGNED TIMESERIES {path}({', '.join(f'{name} DOUBLE' for name in self.measurements)})"

    def insertion(self, path: str) -> str:
        """Return the statement that inserts a row of all measurements; a new device is created."""
        values = ", ".join(str(number / 7) for number in range(len(self.measurements)))
        return f"INSERT INTO {path}(time, {', '.join(self.measurements)}) VALUES ({START_MS + next(self.numbers) * 1000}, {values})"

    def new_device(self) -> str:
        """Return the path of a device that does not exist."""
        return f"{self.name}.new.d{next(self.numbers):05d}"


def statements(tree: WideTree) -> dict[str, Callable[[], str]]:
    """Return makers of the measured statements; the text of those that change the tree is new each time."""
    device, five = tree.devices[len(tree.devices) // 2], ", ".join(tree.measurements[:5])
    return {
        "CREATE ALIGNED TIMESERIES, one device": lambda: tree.creation(tree.new_device()),
        "INSERT of a row, new device": lambda: tree.insertion(tree.new_device()),
        "INSERT of a row, existing device": lambda: tree.insertion(device),
        "SELECT of 5 series of a device": lambda: f"SELECT {five} FROM {device}",
        "SELECT LAST of 5 series of a device": lambda: f"SELECT LAST {five} FROM {device}",
        "SELECT of a mean of all devices by device": lambda: (
            f"SELECT avg({tree.measurements[0]}) FROM {tree.name}.** ALIGN BY DEVICE"
        ),
        "SHOW DEVICES LIMIT 10": lambda: "SHOW DEVICES LIMIT 10",
        "SHOW TIMESERIES of a device": lambda: f"SHOW TIMESERIES {device}.*",
        "SHOW TIMESERIES LIMIT 10": lambda: "SHOW TIMESERIES LIMIT 10",
        "COUNT TIMESERIES": lambda: f"COUNT TIMESERIES {tree.name}.**",
    }


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure each kind of statement, with the memory of the process."""
    bench.log("root.wide: generating")
    tree = WideTree(bench)
    peaks: dict[str, Peak] = {}

    def side(name: str, make: Callable[[], str]) -> Callable[[], Sequence[float]]:
        def turn() -> Sequence[float]:
            with sample_peak(peaks.setdefault(name, Peak())):
                return [seconds for _ in range(STATEMENTS_PER_ROUND) for seconds in time_call(lambda: tree.execute(make()))()]

        return turn

    sides = {name: side(name, make) for name, make in statements(tree).items()}
    timings = interleave(sides, bench.sizes.rounds, bench.log)
    size = f"{len(tree.devices):,} × {len(tree.measurements):,} series"
    for name, samples in timings.items():
        yield Measurement(f"{name}, {size}", samples, limit=Limit(seconds=LIMIT_SECONDS), peaks={"headrace": peaks[name]})
