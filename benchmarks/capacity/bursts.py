"""Streams on a table, and how long they take for one commit of some rows."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.bench import DATABASE, Bench
from benchmarks.data import START_MS
from headrace.cli.sizing.costs import Kind
from headrace.cli.sizing.workload import Trigger
from headrace.model.tables import TBNAME, Table

DAY_MS: Final = 86_400_000
FIRST_MS: Final = START_MS // DAY_MS * DAY_MS
"""Midnight, so that no window of a day closes while a burst is measured."""
WARM_UP: Final = 3
STATE_SECONDS: Final = 30
WINDOWS: Final = {
    Kind.INTERVAL: "INTERVAL(1d)",
    Kind.SESSION: "SESSION(ts, 10s)",
    Kind.STATE: "STATE_WINDOW(state)",
    Kind.EVENT: "EVENT_WINDOW START WITH state % 2 = 0 END WITH state % 2 = 1",
    Kind.COUNT: f"COUNT_WINDOW({STATE_SECONDS})",
}
CREATE: Final = """
    CREATE STREAM {name} TRIGGER {trigger} WATERMARK 1s INTO {name}_result
    AS SELECT _wstart AS ts, COUNT(*) AS cnt, AVG(v) AS av FROM {table} PARTITION BY tbname {window}
"""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Burst:
    """A commit of rows of as many groups to each of some tables, on which there are streams."""

    streams: int
    rows: int
    groups: int
    kind: Kind = Kind.INTERVAL
    trigger: Trigger = Trigger.WINDOW_CLOSE
    tables: int = 1


class Source:
    """A table with consecutive rows of all of its subtables."""

    def __init__(self, bench: Bench, groups: int) -> None:
        self.bench = bench
        name = f"capacity_{next(_numbers)}"
        bench.execute(f"CREATE STABLE {name} (ts TIMESTAMP, v DOUBLE, state INT) TAGS (g INT)")
        self.table: Table = bench.table(name)
        self.names = pa.array([f"{name}_{number:07d}" for number in range(groups)])
        bench.context.catalog.subtables.add(DATABASE, name, self.names.to_pylist())
        bench.context.tables.tags.upsert(self.table, pa.table({TBNAME: self.names, "g": pa.nulls(groups, pa.int32())}))
        self.second = 0

    def write(self, rows: int) -> int:
        """Commit the next rows, and return their version."""
        first = self.second
        self.second += max(1, rows // len(self.names))
        return self.write_at(first, rows)

    def write_at(self, first: int, rows: int) -> int:
        """Commit rows from a second on, and return their version."""
        groups = len(self.names)
        order = np.arange(rows)
        seconds = first + order // groups
        batch = pa.table(
            {
                "ts": pa.array((FIRST_MS + seconds * 1000) * 1000, pa.timestamp("us", "UTC")),
                "v": pa.array(order * 31 % 1000 / 10),
                "state": pa.array((seconds // STATE_SECONDS).astype(np.int32)),
                TBNAME: self.names.take(pa.array(order % groups)),
            }
        )
        return self.bench.context.tables.writer.write(self.table, self.bench.database, batch).version


@dataclass(frozen=True, slots=True)
class RunningBurst:
    """Tables and streams of a burst. The connection runs the streams."""

    bench: Bench
    burst: Burst
    sources: Sequence[Source]
    streams: Sequence[str]

    def sample(self) -> float:
        """Commit, and return the seconds until all streams have handled it."""
        for source in self.sources:
            source.write(self.burst.rows)
        start = time.perf_counter()
        self.bench.connection.settle()
        return time.perf_counter() - start

    def median(self, samples: int) -> float:
        """Return the median of some samples after those that warm up."""
        for _ in range(WARM_UP):
            self.sample()
        return statistics.median(self.sample() for _ in range(samples))


def create_streams(bench: Bench, burst: Burst, sources: Sequence[Source]) -> list[str]:
    """Create the streams of a burst, and return their names."""
    names = [f"capacity_s{next(_numbers)}" for _ in range(burst.streams)]
    for number, name in enumerate(names):
        table = sources[number % len(sources)].table.name
        trigger, window = burst.trigger.name, WINDOWS[burst.kind]
        bench.execute(CREATE.format(name=name, trigger=trigger, table=table, window=window))
    return names


@contextmanager
def running(bench: Bench, burst: Burst) -> Iterator[RunningBurst]:
    """Create the tables and streams of a burst; in the end, drop the streams."""
    sources = [Source(bench, burst.groups) for _ in range(burst.tables)]
    streams = create_streams(bench, burst, sources)
    try:
        yield RunningBurst(bench, burst, sources, streams)
    finally:
        for name in streams:
            bench.execute(f"DROP STREAM {name}")


def measure_burst(bench: Bench, burst: Burst, samples: int) -> float:
    """Return the median seconds of a burst."""
    with running(bench, burst) as run:
        return run.median(samples)
