"""Many different streams on one source: from the commit of 1000 rows until the last stream has committed its results."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.bench import Bench
from benchmarks.data import create_meters, generate_batch
from benchmarks.measure import Memory, interleave
from benchmarks.probe import Probe, TimedFunction
from benchmarks.results import Measurement

SUBTABLES: Final = 10
SECONDS: Final = 100
CREATE: Final = """
    CREATE STREAM {name} TRIGGER AT_ONCE INTO {name}_result
    AS SELECT _wstart, count(*) n, avg(current) mean, max(voltage) top FROM {source}
    WHERE voltage >= {volts} PARTITION BY tbname INTERVAL({minutes}m)
"""
TDENGINE: Final = {1: 0.15, 10: 0.21, 50: 0.57}
"""Its median seconds for 1000 rows, on another machine of two cores, idle."""


class Streams:
    """Streams with different filters and windows, run by the connection."""

    def __init__(self, bench: Bench, count: int, probe: Probe) -> None:
        self.bench = bench
        self.probe = probe
        self.table = create_meters(bench, f"many_{count}", SUBTABLES)
        self.names = [f"many_{count}_{number}" for number in range(count)]
        self.second = 0
        for number, name in enumerate(self.names):
            bench.execute(CREATE.format(name=name, source=self.table.name, volts=210 + number % 7, minutes=1 + number % 5))

    def __call__(self) -> Sequence[float]:
        """Insert and settle a few times."""
        return [self.measure() for _ in range(self.bench.sizes.batches)]

    def measure(self) -> float:
        rows = generate_batch(self.table.name, SUBTABLES, SUBTABLES * SECONDS, self.second)
        self.second += SECONDS
        self.bench.context.tables.writer.write(self.table, self.bench.database, rows)
        with self.probe.activate():
            start = time.perf_counter()
            self.bench.connection.settle()
            return time.perf_counter() - start

    def close(self) -> None:
        """Drop the streams."""
        for name in self.names:
            self.bench.execute(f"DROP STREAM {name}")


def timed_functions() -> list[TimedFunction]:
    """Return the parts of a micro-batch, each of one stream."""
    from headrace.storage.delta.writer import Writer
    from headrace.streams.sources.reader import ChangeReader
    from headrace.streams.state.store import StateStore
    from headrace.streams.windows.processor import WindowProcessor

    return [
        TimedFunction("read changes", ChangeReader, "read_after"),
        TimedFunction("step of a stream", WindowProcessor, "process_batch"),
        TimedFunction("write state of a stream", StateStore, "write"),
        TimedFunction("commit of a stream", Writer, "replace"),
    ]


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure each number of streams."""
    for count in bench.sizes.many:
        probe, memory = Probe(timed_functions()), Memory()
        streams = Streams(bench, count, probe)
        timings = interleave({"headrace": memory.watch("headrace", streams)}, bench.sizes.rounds, bench.log)
        streams.close()
        native = f"TDengine 3.3.6: {TDENGINE[count] * 1000:.0f} ms, on another machine, idle" if count in TDENGINE else ""
        yield Measurement(
            f"{SUBTABLES * SECONDS} rows, {count} different stream{'s' if count > 1 else ''} on one source, AT_ONCE",
            timings["headrace"],
            parts=probe.timings(),
            peaks=memory.peaks,
            note=native,
        )
