"""A live stream whose source gets a commit of millions of rows, against a Structured Streaming query.

Each sample is the time from the commit of the rows, which Spark writes, to the last commit of their results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Final

from benchmarks.bench import DATABASE, Bench
from benchmarks.cases.latency import HeadraceStreams, Source, StreamingQueries, Task, build_side, timed_functions
from benchmarks.compare import check_equal
from benchmarks.data import create_meters, generate_rows
from benchmarks.measure import Memory, interleave
from benchmarks.probe import Probe
from benchmarks.results import Limit, Measurement
from headrace.model.tables import Table

TDENGINE: Final = "TDengine 3.3.6 catches up 1.25 M rows/s after RESUME, on another machine of two cores, idle"


class LargeSource(Source):
    """A source table to which Spark commits millions of rows at once."""

    PREFIX: ClassVar[str] = "large"
    BREAKS: ClassVar[bool] = False

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench = bench
        self.rows = bench.sizes.commit_rows
        self.subtables = bench.sizes.subtables
        self.table: Table = create_meters(bench, name, self.subtables)
        self.location = bench.location(self.table.name)
        self._written = 0

    def write(self) -> int:
        """Commit the next rows, and return the version."""
        spark, name = self.bench.spark, self.table.name
        rows = generate_rows(spark, name, self.rows, self.subtables, first=self._written, breaks=self.BREAKS)
        self._written += self.rows
        rows.write.format("delta").mode("append").save(self.location)
        return self.bench.context.tables.version(self.bench.context.catalog.tables.get(DATABASE, self.table.name))


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure AT_ONCE with one stream."""
    task, sizes = Task("AT_ONCE", 1), replace(bench.sizes, warm_up=0, batches=1)
    ours, theirs = HeadraceStreams(bench, task, LargeSource), StreamingQueries(bench, task, LargeSource)
    probe, memory = Probe(timed_functions()), Memory(bench.spark)
    sides = {
        "headrace": memory.watch("headrace", build_side(ours, sizes, probe)),
        "hand-written": memory.watch("hand-written", build_side(theirs, sizes, Probe([]))),
    }
    timings = interleave(sides, sizes.rounds, bench.log)
    result = ours.result()
    check_equal(result, theirs.result(), ("device", "ts"))
    ours.close()
    rate = sizes.commit_rows / timings["headrace"].median / 1e6
    yield Measurement(
        f"large commit: {sizes.commit_rows:,} rows × {sizes.subtables} subtables to a live stream, AT_ONCE",
        timings["headrace"],
        timings["hand-written"],
        Limit(ratio=1.0),
        parts=probe.timings(),
        peaks=memory.peaks,
        note=f"{rate:.2f} M rows/s, {result.num_rows:,} windows in the target. {TDENGINE}",
    )
