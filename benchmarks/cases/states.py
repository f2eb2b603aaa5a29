"""Micro-batches of a stream with few and with many windows in state, and the closing of all of them at once.

Each subtable has one open window. The stream runs in this process; a round is the time until it has handled a commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.data import START_MS
from benchmarks.measure import Peak, Timings, sample_peak
from benchmarks.probe import Probe, TimedFunction
from benchmarks.results import Limit, Measurement
from headrace.model.tables import TBNAME, Table

COMMIT_ROWS: Final = 100_000
MAX_RATIO: Final = 1.5
MAX_BATCH_SECONDS: Final = 0.1
MAX_CLOSING_SECONDS: Final = 2.0
HOUR_MS: Final = 3_600_000
CREATE: Final = """
    CREATE STREAM {name} TRIGGER WINDOW_CLOSE INTO {name}_result
    AS SELECT _wstart AS ts, COUNT(*) AS cnt, AVG(v) AS av FROM {name} PARTITION BY tbname INTERVAL(1h)
"""


class OpenWindows:
    """A stream with an open window for each subtable of its source."""

    def __init__(self, bench: Bench, subtables: int) -> None:
        self.bench = bench
        self.name = f"states_{subtables}"
        self.first = START_MS // HOUR_MS * HOUR_MS
        self.names = pa.array([f"{self.name}_{number:07d}" for number in range(subtables)])
        self.random = np.random.default_rng(subtables)
        self.table = self._create()
        for first in range(0, subtables, COMMIT_ROWS):
            self.write(np.arange(first, min(first + COMMIT_ROWS, subtables)), 0)

    def _create(self) -> Table:
        """Create the source and the stream."""
        self.bench.execute(f"CREATE STABLE {self.name} (ts TIMESTAMP, v INT) TAGS (g INT)")
        self.bench.context.catalog.subtables.add(self.bench.database.name, self.name, self.names.to_pylist())
        self.bench.execute(CREATE.format(name=self.name))
        return self.bench.table(self.name)

    def write(self, subtables: np.ndarray[tuple[int], np.dtype[np.int64]], ms: int) -> None:
        """Commit a row for each of some subtables, at this many milliseconds after the first, and wait for the stream."""
        instants = pa.array(np.full(len(subtables), (self.first + ms) * 1000), pa.timestamp("us", "UTC"))
        values = pa.array((subtables % 1000).astype(np.int32))
        rows = pa.table({"ts": instants, "v": values, TBNAME: self.names.take(pa.array(subtables))})
        self.bench.context.tables.writer.write(self.table, self.bench.database, rows)
        self.bench.connection.settle()

    def write_batch(self, number: int) -> None:
        """Commit the rows of a micro-batch, of random subtables."""
        self.write(np.sort(self.random.choice(len(self.names), self.bench.sizes.batch_rows, replace=False)), 1000 + number)

    def close_all(self) -> None:
        """Commit one row that closes all windows, and wait for their results."""
        self.write(np.zeros(1, np.int64), 2 * HOUR_MS)

    def drop(self) -> None:
        """Drop the stream and its source."""
        self.bench.execute(f"DROP STREAM {self.name}")
        self.bench.execute(f"DROP STABLE {self.name}")


def timed_functions() -> list[TimedFunction]:
    """Return the functions of a micro-batch whose time may follow the state."""
    from headrace.compute.columnar import SegmentKernel
    from headrace.storage.delta.writer import Writer
    from headrace.streams.runner import StreamRunner
    from headrace.streams.sinks.target import TargetTable
    from headrace.streams.sources.reader import ChangeReader
    from headrace.streams.state.store import StateStore
    from headrace.streams.windows import processor, results
    from headrace.streams.windows.processor import WindowProcessor

    return [
        TimedFunction("read", ChangeReader, "read_after"),
        TimedFunction("compute", WindowProcessor, "process_batch"),
        TimedFunction("compute: find windows in state", processor, "affected_windows"),
        TimedFunction("compute: assign", SegmentKernel, "segments"),
        TimedFunction("compute: merge", SegmentKernel, "merge"),
        TimedFunction("compute: replace windows in state", results, "replace_windows"),
        TimedFunction("compute: evict windows", results, "evict_windows"),
        TimedFunction("write state", StateStore, "write"),
        TimedFunction("subtables of the target", TargetTable, "to_rows"),
        TimedFunction("commit", Writer, "replace"),
        TimedFunction("record progress", StreamRunner, "record"),
    ]


def measure_batches(bench: Bench, subtables: int) -> tuple[OpenWindows, Probe, Timings, Peak]:
    """Return the seconds of micro-batches with this many windows in state."""
    bench.log(f"{subtables} windows: filling")
    stream, probe, peak = OpenWindows(bench, subtables), Probe(timed_functions()), Peak()
    for number in range(bench.sizes.warm_up):
        stream.write_batch(number)
    with probe.activate(), sample_peak(peak):
        samples = [
            timed(stream.write_batch, bench.sizes.warm_up + number) for number in range(bench.sizes.batches * bench.sizes.rounds)
        ]
    return stream, probe, Timings(tuple(samples)), peak


def measure_closing(stream: OpenWindows) -> Measurement:
    """Measure one row that closes all windows."""
    probe, peak = Probe(timed_functions()), Peak()
    with probe.activate(), sample_peak(peak):
        start = time.perf_counter()
        stream.close_all()
        seconds = time.perf_counter() - start
    count = len(stream.names)
    limit = Limit(seconds=MAX_CLOSING_SECONDS if count <= 200_000 else 5 * MAX_CLOSING_SECONDS)
    name = f"states: one row closes {count:,} windows of as many subtables"
    return Measurement(name, Timings((seconds,)), limit=limit, parts=probe.timings(), peaks={"headrace": peak})


def timed(work: Callable[[int], None], number: int) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    work(number)
    return time.perf_counter() - start


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure micro-batches with each number of windows in state, then the closing of all windows."""
    few: Timings | None = None
    for count in bench.sizes.open_windows:
        stream, probe, timings, peak = measure_batches(bench, count)
        limits: dict[str, float] = {} if few is None else {"few windows": MAX_RATIO}
        yield Measurement(
            f"states: {bench.sizes.batch_rows} rows, {count:,} open windows",
            timings,
            limit=Limit(seconds=MAX_BATCH_SECONDS),
            parts=probe.timings(),
            others={} if few is None else {"few windows": few},
            other_limits=limits,
            peaks={"headrace": peak},
        )
        few = timings if few is None else few
        yield measure_closing(stream)
        stream.drop()
