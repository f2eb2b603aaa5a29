"""What syncing costs: an INSERT, a micro-batch, and fifty writers that share commits, with it and without."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Final

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.data import START_MS, STEP_MS, create_meters, subtable_names
from benchmarks.measure import Side, interleave
from benchmarks.results import Limit, Measurement
from headrace import durable
from headrace.storage.delta.group_commit import GroupCommit
from headrace.storage.types import rows_schema

SAMPLES_PER_ROUND: Final = 20
WRITERS: Final = 50
WRITES_EACH: Final = 4
LIMIT_SECONDS: Final = 0.1
STREAM: Final = (
    "CREATE STREAM {0}_s TRIGGER AT_ONCE INTO {0}_out AS SELECT _wstart, COUNT(*) n FROM {0} PARTITION BY tbname INTERVAL(1m)"
)


class Meters:
    """A supertable, into which rows go one by one."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench = bench
        self.table = create_meters(bench, name, 1)
        self.subtable = subtable_names(name, 1)[0]
        self.seconds = count()
        context = bench.context
        self.group = GroupCommit(
            lambda: context.tables.writer, context.settings.group_commit_ms, context.settings.group_commit_bytes
        )

    def insert(self) -> None:
        """Insert a new row."""
        self.bench.execute(f"INSERT INTO {self.subtable} VALUES ({START_MS + next(self.seconds) * STEP_MS}, 1, 220, 0.5)")

    def write(self) -> None:
        """Write a new row in a commit that other threads share."""
        schema = rows_schema(self.table, self.bench.database)
        time_type = schema.field(self.table.timestamp.name).type
        ts = pa.array([(START_MS + next(self.seconds) * STEP_MS) * 1000], pa.int64()).cast(time_type)
        columns = [ts, *(pa.nulls(1, field.type) for field in list(schema)[1:-1]), pa.array([self.subtable])]
        self.group.write(self.table, self.bench.database, pa.Table.from_arrays(columns, schema=schema))


@dataclass(frozen=True, slots=True)
class Relaxed:
    """A side during which nothing is synced, or everything."""

    bench: Bench
    side: Side
    relaxed: bool

    def __call__(self) -> Sequence[float]:
        durable.relax(self.bench.settings.tables_uri, relaxed=self.relaxed)
        try:
            return self.side()
        finally:
            durable.relax(self.bench.settings.tables_uri, relaxed=False)


def inserts(meters: Meters) -> Side:
    return lambda: [timed(meters.insert) for _ in range(SAMPLES_PER_ROUND)]


def micro_batches(meters: Meters) -> Side:
    """Return what measures the micro-batches of a stream with a new row each."""
    meters.bench.execute(STREAM.format(meters.table.name))

    def measure() -> list[float]:
        samples = []
        for _ in range(SAMPLES_PER_ROUND):
            meters.insert()
            samples.append(timed(meters.bench.connection.settle))
        return samples

    return measure


def writers(meters: Meters) -> Side:
    """Return what measures each write of many writers at once."""

    def write(_: int) -> list[float]:
        return [timed(meters.write) for _ in range(WRITES_EACH)]

    def measure() -> list[float]:
        with ThreadPoolExecutor(WRITERS) as threads:
            return [sample for own in threads.map(write, range(WRITERS)) for sample in own]

    return measure


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure each with syncs, and beside it without."""
    for name, side in (
        ("INSERT of a row", inserts),
        ("micro-batch of a row", micro_batches),
        (f"write of {WRITERS} writers", writers),
    ):
        sides: dict[str, Side] = {
            text: Relaxed(bench, side(Meters(bench, f"durability_{side.__name__}_{text.replace(' ', '_')}")), text != "synced")
            for text in ("synced", "not synced")
        }
        timings = interleave(sides, bench.sizes.rounds, bench.log)
        yield Measurement(name, timings["synced"], limit=Limit(seconds=LIMIT_SECONDS), others={"not synced": timings["not synced"]})
