"""INSERT of a thousand rows through the connection: text in, commit out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.bench import Bench
from benchmarks.data import START_MS, STEP_MS, make_meters, subtable_names
from benchmarks.measure import interleave
from benchmarks.results import Line, Wanted

INSERTS_A_ROUND: Final = 10
LIMIT_SECONDS: Final = 0.050


class Inserter:
    """Inserts batch after batch into a supertable; a share of each updates rows of the one before."""

    def __init__(self, bench: Bench, name: str, subtables: int, updates: float) -> None:
        self.bench = bench
        make_meters(bench, name, subtables)
        self.names = subtable_names(name, subtables)
        self.each = bench.sizes.batch_rows // subtables
        self.again = round(self.each * updates)
        self.next = 0

    def __call__(self) -> Sequence[float]:
        taken = []
        for _ in range(INSERTS_A_ROUND):
            text = self.statement()
            began = time.perf_counter()
            cursor = self.bench.connection.execute(text)
            taken.append(time.perf_counter() - began)
            assert cursor.rowcount == self.each * len(self.names)
        return taken

    def statement(self) -> str:
        """The next batch, as SQL."""
        first = max(0, self.next - self.again)
        self.next = first + self.each
        return "INSERT INTO " + " ".join(f"{name} VALUES {self._rows(name, first)}" for name in self.names)

    def _rows(self, name: str, first: int) -> str:
        salt = self.next + len(name)
        seconds = range(first, first + self.each)
        return " ".join(
            f"({START_MS + second * STEP_MS}, {(second * 31 + salt) % 100 / 10}, {210 + (second + salt) % 30}, 0.{second % 997})"
            for second in seconds
        )


def run(bench: Bench) -> Iterator[Line]:
    """New rows of one subtable and of a hundred, then a tenth of updates."""
    rows = bench.sizes.batch_rows
    many = min(100, max(1, rows // 10))
    sides = {
        f"INSERT of {rows} new rows, 1 subtable": Inserter(bench, "inserts_one", 1, 0.0),
        f"INSERT of {rows} new rows, {many} subtables": Inserter(bench, "inserts_many", many, 0.0),
        f"INSERT of {rows} rows, 1 subtable, 10 % updates": Inserter(bench, "inserts_one_updates", 1, 0.1),
        f"INSERT of {rows} rows, {many} subtables, 10 % updates": Inserter(bench, "inserts_many_updates", many, 0.1),
    }
    found = interleave(sides, bench.sizes.rounds, bench.log)
    for what, timings in found.items():
        yield Line(what, timings, wanted=Wanted(seconds=LIMIT_SECONDS))
