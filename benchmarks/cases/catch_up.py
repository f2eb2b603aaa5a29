"""A live stream that takes one large commit after another: how fast, and with how much memory.

Each sample is the time from the commit of the rows, which Spark writes, to the commit of their results.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import pyarrow.compute as pc

from benchmarks.bench import Bench
from benchmarks.cases.large_commits import LargeSource
from benchmarks.cases.latency import HeadraceStreams, Task
from benchmarks.measure import Memory, Timings
from benchmarks.results import Measurement


class CatchUp(Task):
    """WINDOW_CLOSE with windows of a minute, of which each commit closes many."""

    @property
    def seconds(self) -> int:
        """The length of a window."""
        return 60


class CatchUpSource(LargeSource):
    """A source table to which Spark commits millions of rows, again and again."""

    PREFIX: ClassVar[str] = "catch_up"


def wait_for_result(streams: HeadraceStreams, version: int) -> list[float]:
    """Wait until the result of a version is committed."""
    return [streams.wait_for_result(version)]


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure WINDOW_CLOSE with one stream."""
    sizes, streams = bench.sizes, HeadraceStreams(bench, CatchUp("WINDOW_CLOSE", 1), CatchUpSource)
    memory, samples = Memory(bench.spark), list[float]()
    with streams.running():
        for number in range(sizes.commits):
            version = streams.source.write()
            started = time.time()
            memory.watch("headrace", partial(wait_for_result, streams, version))()
            samples.append(time.time() - started)
            bench.log(f"commit {number + 1} of {sizes.commits}: {samples[-1]:.1f} s, {memory.peaks['headrace']}")
    counts = streams.result()["cnt"]
    rows, written = sizes.commits * sizes.commit_rows, pc.sum(counts).as_py()
    streams.close()
    if not 0 < written <= rows:
        raise AssertionError(f"the windows have {written} of {rows} rows")
    yield Measurement(
        f"catch up: {sizes.commits} commits of {sizes.commit_rows:,} rows × {sizes.subtables} subtables, WINDOW_CLOSE",
        Timings(tuple(samples)),
        peaks=memory.peaks,
        note=f"{rows / sum(samples) / 1e6:.2f} M rows/s, {len(counts):,} windows in the target",
    )
