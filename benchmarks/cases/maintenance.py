"""A live stream while all tables are compacted and vacuumed again and again by another process, and without that.

Another table is written in many small commits before each round, so that there is something to compact, and old files are removed
without retention, so that there is something to remove.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final

from benchmarks.bench import Bench
from benchmarks.cases.latency import HeadraceStreams, Source, Task, measure_commit
from benchmarks.data import create_meters, generate_batch
from benchmarks.measure import Side, interleave
from benchmarks.results import Measurement

MAX_RATIO: Final = 2.0
SMALL_COMMITS: Final = 30
RUNS: Final = 2
"""Runs of maintenance that end in a round, of which a large part is the start of the process."""
SUBTABLES: Final = 10
ALONE: Final = "no maintenance"


class MaintainedSource(Source):
    """The source of a stream that maintenance may not slow down."""

    PREFIX: ClassVar[str] = "maintained"


class Maintenance:
    """`headrace maintain` as a process, again and again, over all tables of the home."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.table = create_meters(bench, "maintained_cold", SUBTABLES)
        self.second = 0
        self.runs = 0

    def add_small_files(self) -> None:
        for _ in range(SMALL_COMMITS):
            rows = generate_batch(self.table.name, SUBTABLES, SUBTABLES, self.second)
            self.bench.context.tables.writer.write(self.table, self.bench.database, rows)
            self.second += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run it until the block ends; the run at the end is completed."""
        self.add_small_files()
        done, failures = threading.Event(), list[str]()
        thread = threading.Thread(target=self.repeat, args=(done, failures))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        assert not failures, failures[0]

    def repeat(self, done: threading.Event, failures: list[str]) -> None:
        command = [sys.executable, "-m", "headrace.cli.main", "maintain", "--retention-hours", "0"]
        environment = os.environ | {"HEADRACE_HOME": str(self.bench.settings.home_path)}
        while not done.is_set() and not failures:
            outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            self.runs += 1
            if outcome.returncode != 0:
                failures.append(outcome.stderr)


def build_side(streams: HeadraceStreams, maintenance: Maintenance | None) -> Side:
    """Return a side whose rounds start the driver, warm it up, and measure each commit."""
    sizes = streams.bench.sizes

    def measure_round() -> Sequence[float]:
        with streams.running():
            for _ in range(sizes.warm_up):
                measure_commit(streams)
            if maintenance is None:
                return [measure_commit(streams) for _ in range(sizes.batches)]
            with maintenance.running():
                return measure_beside(streams, maintenance)

    return measure_round


def measure_beside(streams: HeadraceStreams, maintenance: Maintenance) -> Sequence[float]:
    """Measure commits until there are enough, and enough runs of maintenance have ended meanwhile."""
    samples: list[float] = []
    last = maintenance.runs + RUNS
    while len(samples) < streams.bench.sizes.batches or maintenance.runs < last:
        samples.append(measure_commit(streams))
    return samples


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure a stream beside maintenance and without."""
    streams, maintenance = HeadraceStreams(bench, Task("AT_ONCE", 1), MaintainedSource), Maintenance(bench)
    sides = {"headrace": build_side(streams, maintenance), ALONE: build_side(streams, None)}
    timings = interleave(sides, bench.sizes.rounds, bench.log)
    streams.close()
    yield Measurement(
        f"{bench.sizes.batch_rows} rows, a live stream beside maintenance of all tables, AT_ONCE",
        timings["headrace"],
        others={ALONE: timings[ALONE]},
        other_limits={ALONE: MAX_RATIO},
        note=f"{maintenance.runs} runs of maintenance",
    )
