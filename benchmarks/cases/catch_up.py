"""A live stream that takes one large commit after another: how fast, and with how much memory.

Each sample is the time from the commit of the rows, which Spark writes, to the commit of their results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import pyarrow.compute as pc

from benchmarks.bench import Bench
from benchmarks.cases.large_commits import LargeSource
from benchmarks.cases.latency import HeadraceStreams, Task
from benchmarks.deltalog import commit_time
from benchmarks.measure import Memory, Timings
from benchmarks.results import Measurement

WINDOWS: Final = {
    "interval": "INTERVAL(1m)",
    "session": "SESSION(ts, 10s)",
    "state": "STATE_WINDOW(CAST(voltage / 10 AS INT))",
    "event": "EVENT_WINDOW START WITH voltage >= 235 END WITH voltage < 212",
    "count": "COUNT_WINDOW(100)",
}


@dataclass(frozen=True, slots=True)
class CatchUp(Task):
    """WINDOW_CLOSE with windows of which each commit closes many. A count window needs a watermark."""

    kind: str

    @property
    def window(self) -> str:
        return WINDOWS[self.kind]

    @property
    def label(self) -> str:
        return self.kind


class CatchUpSource(LargeSource):
    """A source table to which Spark commits millions of rows, again and again."""

    PREFIX: ClassVar[str] = "catch_up"


class BrokenSource(CatchUpSource):
    """The same with pauses and ranges of voltage, for windows that depend on the rows."""

    BREAKS: ClassVar[bool] = True


def measure_result(streams: HeadraceStreams, version: int) -> list[float]:
    """Return the seconds from the commit of a version to that of its result."""
    return [streams.wait_for_result(version) - commit_time(streams.source.location, version)]


def take_commits(streams: HeadraceStreams, memory: Memory) -> tuple[float, ...]:
    """Write the commits, and return the seconds that the stream took for each."""
    bench, samples = streams.bench, list[float]()
    with streams.running():
        for number in range(bench.sizes.commits):
            version = streams.source.write()
            samples += memory.watch("headrace", partial(measure_result, streams, version))()
            bench.log(f"commit {number + 1} of {bench.sizes.commits}: {samples[-1]:.1f} s, {memory.peaks['headrace']}")
    return tuple(samples)


def measure(bench: Bench, kind: str) -> Measurement:
    """Measure a stream with one kind of windows."""
    sizes, memory = bench.sizes, Memory(bench.spark)
    source = CatchUpSource if kind == "interval" else BrokenSource
    streams = HeadraceStreams(bench, CatchUp("WINDOW_CLOSE WATERMARK 1s", 1, kind), source)
    samples = take_commits(streams, memory)
    counts = streams.result()["cnt"]
    rows, counted = sizes.commits * sizes.commit_rows, pc.sum(counts).as_py()
    streams.close()
    if not 0 < counted <= rows:
        raise AssertionError(f"the windows have {counted} of {rows} rows")
    return Measurement(
        f"catch up: {sizes.commits} commits of {sizes.commit_rows:,} rows × {sizes.subtables} subtables, {WINDOWS[kind]}",
        Timings(samples),
        peaks=memory.peaks,
        note=f"{rows / sum(samples) / 1e6:.2f} M rows/s, {len(counts):,} windows in the target",
    )


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure WINDOW_CLOSE with each kind of windows."""
    for kind in WINDOWS:
        if bench.sizes.only in kind:
            yield measure(bench, kind)
