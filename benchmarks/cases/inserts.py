"""INSERT of a thousand rows through the connection, in both languages, from the statement's text to the commit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.bench import Bench
from benchmarks.data import START_MS, STEP_MS, create_meters, subtable_names
from benchmarks.measure import Side, interleave
from benchmarks.results import Limit, Measurement
from benchmarks.tree_data import COLUMNS

INSERTS_PER_ROUND: Final = 10
LIMIT_SECONDS: Final = 0.050


class Inserter:
    """Inserts batches into a supertable; a fraction of each batch updates rows of the previous one."""

    def __init__(self, bench: Bench, name: str, subtables: int, updates: float) -> None:
        self.bench = bench
        create_meters(bench, name, subtables)
        self.names = subtable_names(name, subtables)
        self.rows_per_subtable = bench.sizes.batch_rows // subtables
        self.updated_rows = round(self.rows_per_subtable * updates)
        self.next_row = 0

    def __call__(self) -> Sequence[float]:
        samples = []
        for _ in range(INSERTS_PER_ROUND):
            text = self.next_statement()
            start = time.perf_counter()
            cursor = self.bench.connection.execute(text)
            samples.append(time.perf_counter() - start)
            assert cursor.rowcount == self.rows_per_subtable * len(self.names)
        return samples

    def next_statement(self) -> str:
        """Return the INSERT of the next batch."""
        first = max(0, self.next_row - self.updated_rows)
        self.next_row = first + self.rows_per_subtable
        return "INSERT INTO " + " ".join(f"{name} VALUES {self._rows(name, first)}" for name in self.names)

    def _rows(self, name: str, first: int) -> str:
        salt = self.next_row + len(name)
        seconds = range(first, first + self.rows_per_subtable)
        return " ".join(
            f"({START_MS + second * STEP_MS}, {(second * 31 + salt) % 100 / 10}, {210 + (second + salt) % 30}, 0.{second % 997})"
            for second in seconds
        )


class TreeInserter:
    """Inserts batches into one device of a tree; a fraction of each batch updates rows of the previous one."""

    def __init__(self, bench: Bench, name: str, updates: float) -> None:
        self.bench = bench
        self.rows = bench.sizes.batch_rows
        self.updated_rows = round(self.rows * updates)
        self.device = f"{name}.d1"
        self.next_row = 0
        if name in bench.tree.session.context.catalog.trees.databases():
            bench.tree.execute(f"DELETE DATABASE {name}")
        bench.tree.execute(f"CREATE DATABASE {name}")
        bench.tree.execute(f"CREATE ALIGNED TIMESERIES {self.device}({COLUMNS})")

    def __call__(self) -> Sequence[float]:
        samples = []
        for _ in range(INSERTS_PER_ROUND):
            text = self.next_statement()
            start = time.perf_counter()
            self.bench.tree.execute(text)
            samples.append(time.perf_counter() - start)
        return samples

    def next_statement(self) -> str:
        """Return the INSERT of the next batch."""
        first = max(0, self.next_row - self.updated_rows)
        self.next_row = first + self.rows
        rows = ", ".join(
            f"({START_MS + second * STEP_MS}, {second * 31 % 100 / 10}, {210 + second % 30}, 0.{second % 997})"
            for second in range(first, self.next_row)
        )
        return f"INSERT INTO {self.device}(time, current, voltage, phase) VALUES {rows}"


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure inserts into one and into a hundred subtables, and into a device, without and with 10 % updates."""
    rows = bench.sizes.batch_rows
    many = min(100, max(1, rows // 10))
    sides: dict[str, Side] = {
        f"INSERT of {rows} new rows, 1 subtable": Inserter(bench, "inserts_one", 1, 0.0),
        f"INSERT of {rows} new rows, {many} subtables": Inserter(bench, "inserts_many", many, 0.0),
        f"INSERT of {rows} new rows, 1 device of a tree": TreeInserter(bench, "root.inserts", 0.0),
        f"INSERT of {rows} rows, 1 device of a tree, 10 % updates": TreeInserter(bench, "root.inserts_updates", 0.1),
        f"INSERT of {rows} rows, 1 subtable, 10 % updates": Inserter(bench, "inserts_one_updates", 1, 0.1),
        f"INSERT of {rows} rows, {many} subtables, 10 % updates": Inserter(bench, "inserts_many_updates", many, 0.1),
    }
    timings_by_name = interleave(sides, bench.sizes.rounds, bench.log)
    for name, timings in timings_by_name.items():
        yield Measurement(name, timings, limit=Limit(seconds=LIMIT_SECONDS))
