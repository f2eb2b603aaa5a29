"""A stream over a virtual table with columns of ten tables, against the same stream over one table with these columns.

Each sample is the time from the commits of an insert (one per origin) until the results are committed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from benchmarks.bench import DATABASE, Bench
from benchmarks.data import START_MS, STEP_MS
from benchmarks.measure import Memory, interleave
from benchmarks.probe import Probe, TimedFunction
from benchmarks.results import Limit, Measurement
from headrace.jobs.hosts import Driving
from headrace.runtime.job_host import JobHost
from headrace.streams.kind import STREAM

ORIGINS: Final = 10
INSERTS_PER_ROUND: Final = 10
ROWS: Final = 100
COLUMNS: Final = tuple(f"v{number}" for number in range(ORIGINS))
CREATE: Final = (
    "CREATE STREAM {name}_stream TRIGGER AT_ONCE INTO {name}_result AS SELECT _wstart, COUNT(*), {values} FROM {name} INTERVAL(1m)"
)
ALL_ORIGINS, ONE_ORIGIN, ONE_TABLE = "virtual table, all origins written", "virtual table, one origin written", "one table"


class Reading:
    """A stream over a table, whose values are written to one or several tables."""

    def __init__(self, bench: Bench, name: str, written: Sequence[tuple[str, Sequence[str]]], probe: Probe) -> None:
        self.bench = bench
        self.probe = probe
        self.written = [(bench.table(table), list(columns)) for table, columns in written]
        self.next_row = 0
        bench.execute(CREATE.format(name=name, values=", ".join(f"AVG({column})" for column in COLUMNS)))
        self.record = bench.context.catalog.jobs.get(DATABASE, f"{name}_stream", STREAM)
        self.pollers = JobHost(Driving(bench.context))

    def __call__(self) -> Sequence[float]:
        samples = []
        for _ in range(INSERTS_PER_ROUND):
            self.write()
            with self.probe.activate():
                start = time.perf_counter()
                self.pollers.reconcile([self.record])
                while self.pollers.poll():
                    pass
                samples.append(time.perf_counter() - start)
        return samples

    def write(self) -> None:
        """Commit the next rows to each table."""
        instants = [(START_MS + (self.next_row + row) * STEP_MS) * 1000 for row in range(ROWS)]
        self.next_row += ROWS
        for table, columns in self.written:
            schema = self.bench.context.tables.schema(table, self.bench.database)
            times = pa.array(instants, pa.int64()).cast(schema.field(0).type)
            values = [pa.array([float(instant % 997) for instant in instants]) for _ in columns]
            rows = pa.Table.from_arrays([times, *values, pa.repeat(pa.scalar(table.name), ROWS)], schema=schema)
            self.bench.context.tables.writer.write(table, self.bench.database, rows)


def create_tables(bench: Bench) -> None:
    """Create the table with all columns, and two virtual tables over ten tables each."""
    bench.execute(f"CREATE TABLE whole (ts TIMESTAMP, {', '.join(f'{column} DOUBLE' for column in COLUMNS)})")
    for name in ("parts", "part"):
        for column in COLUMNS:
            bench.execute(f"CREATE TABLE {name}_{column} (ts TIMESTAMP, {column} DOUBLE)")
        columns = ", ".join(f"{column} DOUBLE FROM {name}_{column}.{column}" for column in COLUMNS)
        bench.execute(f"CREATE VTABLE {name} (ts TIMESTAMP, {columns})")


def timed_functions() -> list[TimedFunction]:
    """Return the parts of a micro-batch over the virtual table with all origins."""
    from headrace.storage.delta.writer import Writer
    from headrace.streams.sources.virtual_reader import VirtualReader
    from headrace.streams.state.store import StateStore
    from headrace.streams.windows.processor import WindowProcessor

    return [
        TimedFunction("read changes of all origins", VirtualReader, "read_after"),
        TimedFunction("step", WindowProcessor, "process_batch"),
        TimedFunction("write state", StateStore, "write"),
        TimedFunction("commit", Writer, "replace"),
    ]


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure one micro-batch of each stream."""
    create_tables(bench)
    probe, memory = Probe(timed_functions()), Memory()
    sides = {
        ALL_ORIGINS: Reading(bench, "parts", [(f"parts_{column}", [column]) for column in COLUMNS], probe),
        ONE_ORIGIN: Reading(bench, "part", [("part_v0", ["v0"])], Probe([])),
        ONE_TABLE: Reading(bench, "whole", [("whole", COLUMNS)], Probe([])),
    }
    watched = {name: memory.watch(name, side) for name, side in sides.items()}
    timings = interleave(watched, bench.sizes.rounds, bench.log)
    for side in sides.values():
        side.pollers.close()
        bench.execute(f"DROP STREAM {side.record.definition.name}")
    yield Measurement(
        f"virtual table over {ORIGINS} tables: {ROWS} rows of each, AT_ONCE",
        timings[ALL_ORIGINS],
        timings[ONE_TABLE],
        Limit(ratio=10.0),
        parts=probe.timings(),
        others={ONE_ORIGIN: timings[ONE_ORIGIN]},
        peaks=memory.peaks,
    )
