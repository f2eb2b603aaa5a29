"""Streams over a Delta table of another writer, against the same streams over a table of Headrace and a hand-written job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from deltalake import DeltaTable, write_deltalake

from benchmarks.bench import Bench
from benchmarks.cases.history import Backfill
from benchmarks.cases.latency import ROWS_PER_SUBTABLE, HeadraceStreams, Source, Task, build_side
from benchmarks.compare import check_equal
from benchmarks.data import generate_batch, generate_rows, prepare_meters
from benchmarks.handwritten import batch
from benchmarks.measure import Memory, interleave, time_call
from benchmarks.probe import Probe
from benchmarks.results import Limit, Measurement

CREATE = """
    CREATE EXTERNAL STABLE {name} (ts FROM event_time, current, voltage, phase) TAGS (meter) SERIES (meter)
    USING DELTA AT '{location}'
"""
RENAMED = {"ts": "event_time", "tbname": "meter"}
OWN = "a table of Headrace"


def create_external(bench: Bench, name: str, location: str) -> None:
    """Create an external table of meters, replacing an existing one."""
    bench.execute(f"DROP STABLE IF EXISTS {name}")
    bench.execute(CREATE.format(name=name, location=location))


class ExternalSource(Source):
    """A table that delta-rs appends to."""

    PREFIX: ClassVar[str] = "external"

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench = bench
        self.rows = bench.sizes.batch_rows
        self.subtables = max(1, self.rows // ROWS_PER_SUBTABLE)
        self.location = str(bench.scratch(name))
        self.name, self._second = name, 0
        self.write()
        create_external(bench, name, self.location)
        self.table = bench.table(name)

    def write(self) -> int:
        """Append the next batch, and return its version."""
        rows = generate_batch(self.name, self.subtables, self.rows, self._second)
        self._second += ROWS_PER_SUBTABLE
        write_deltalake(self.location, rows.rename_columns({**RENAMED}), mode="append")
        return int(DeltaTable(self.location).version())


def latency(bench: Bench) -> Measurement:
    """Measure the time from the commit of rows to that of their result."""
    task, sizes = Task("AT_ONCE", 1), bench.sizes
    external, own = HeadraceStreams(bench, task, ExternalSource), HeadraceStreams(bench, task)
    sides = {"external": build_side(external, sizes, Probe([])), OWN: build_side(own, sizes, Probe([]))}
    timings = interleave(sides, sizes.rounds, bench.log)
    external.close()
    own.close()
    return Measurement(
        f"external table: {sizes.batch_rows} rows that delta-rs appends, AT_ONCE, 1 stream",
        timings["external"],
        others={OWN: timings[OWN]},
    )


def history(bench: Bench) -> Measurement:
    """Measure a history over files that Spark has written in time order, with all series in each."""
    sizes = bench.sizes
    location, target = str(bench.scratch("external_meters")), str(bench.scratch("external_history"))
    own = prepare_meters(bench, sizes.rows, sizes.subtables)
    rows = generate_rows(bench.spark, own.name, sizes.rows, sizes.subtables)
    rows.withColumnsRenamed(RENAMED).write.format("delta").save(location)
    create_external(bench, "external_meters", location)
    memory, ours, beside = Memory(bench.spark), Backfill(bench, "external_meters"), Backfill(bench, own.name)

    def by_hand() -> None:
        stored = bench.spark.read.format("delta").load(location)
        batch.write(batch.intervals(stored.withColumnsRenamed({new: old for old, new in RENAMED.items()}), "1 minute"), target)

    sides = {
        "external": memory.watch("external", ours.run),
        "hand-written": memory.watch("hand-written", time_call(by_hand)),
        OWN: memory.watch(OWN, beside.run),
    }
    timings = interleave(sides, sizes.rounds, bench.log)
    theirs = batch.read(bench.spark, target).withColumnRenamed("tbname", "device").toArrow()
    check_equal(beside.result(), theirs, ("device", "ts"))
    return Measurement(
        f"history of an external table: {sizes.rows:,} rows × {sizes.subtables} subtables, INTERVAL(1m)",
        timings["external"],
        timings["hand-written"],
        Limit(ratio=1.25),
        others={OWN: timings[OWN]},
        peaks=memory.peaks,
    )


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure what `--only` selects of latency and history."""
    for name, measure in (("latency", latency), ("history", history)):
        if bench.sizes.only in name:
            yield measure(bench)
