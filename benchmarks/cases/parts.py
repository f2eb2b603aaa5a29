"""A stream in two parts on two snodes, each with a core of its own, against the same stream on one snode with one core.

The commits are written while the stream is paused. Each sample is the time from its RESUME until all parts have handled them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, Final

import psutil

from benchmarks.bench import DATABASE, Bench
from benchmarks.cases.catch_up import WINDOWS, CatchUp, CatchUpSource
from benchmarks.cases.latency import HeadraceStreams
from benchmarks.measure import MAX_WAIT_SECONDS, Timings, interleave
from benchmarks.part_snode import READY
from benchmarks.results import Measurement
from headrace.model.job_parts import parts_of
from headrace.model.jobs import JobRecord, JobState
from headrace.model.snodes import member_name
from headrace.streams.kind import STREAM

OPTIONS: Final = "WINDOW_CLOSE WATERMARK 1s PARTITIONS {parts}"
SNODES: Final = ("default", member_name(2))
POLL_S: Final = 0.005
WARM_UP_ROWS: Final = 1000
MOST_OF_ONE: Final = 1 / 1.8
"""Two snodes should take at most this share of the time of one."""


@dataclass(frozen=True, slots=True)
class Divided(CatchUp):
    """A stream in some parts."""

    parts: int = 1

    @property
    def label(self) -> str:
        return f"{self.kind}_{self.parts}"


class PartSource(CatchUpSource):
    """A source table of its own for each number of parts, with the same rows, with pauses and ranges of voltage."""

    PREFIX: ClassVar[str] = "parts"
    BREAKS: ClassVar[bool] = True


class Side:
    """A stream in some parts, each of which has an snode."""

    def __init__(self, bench: Bench, kind: str, parts: int) -> None:
        self.bench, self.parts = bench, parts
        self.busy: list[float] = []
        """The CPU seconds of the snode that had most to do, in each round."""
        self.streams = HeadraceStreams(bench, Divided(OPTIONS.format(parts=parts), 1, kind, parts), PartSource)
        self.stream = self.streams.names[0]
        bench.execute(f"PAUSE STREAM {self.stream}")

    def record(self) -> JobRecord:
        return self.bench.context.catalog.jobs.get(DATABASE, self.stream, STREAM)

    def measure(self) -> list[float]:
        """Return the seconds in which the commits of a round are handled."""
        with ExitStack() as stack:
            owned = list(zip(SNODES, cores(), strict=False))[: self.parts]
            snodes = [stack.enter_context(running_snode(self.bench, snode, core)) for snode, core in owned]
            self._handle([WARM_UP_ROWS])
            before = [cpu_seconds(snode) for snode in snodes]
            taken = self._handle([self.bench.sizes.commit_rows] * self.bench.sizes.commits)
            self.busy.append(max(cpu_seconds(snode) - used for snode, used in zip(snodes, before, strict=True)))
            return [taken]

    def _handle(self, commits: list[int]) -> float:
        """Write commits, let the stream handle them, and return the seconds that this took."""
        for self.streams.source.rows in commits:
            version = self.streams.source.write()
        self.bench.execute(f"RESUME STREAM {self.stream}")
        start = time.perf_counter()
        self._wait(lambda part: (part.source_version or 0) >= version)
        taken = time.perf_counter() - start
        self.bench.execute(f"PAUSE STREAM {self.stream}")
        self._wait(lambda part: part.state is JobState.PAUSED)
        return taken

    def _wait(self, is_done: Callable[[JobRecord], bool]) -> None:
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        while not all(is_done(part) for part in parts_of(self.record())):
            assert time.monotonic() < deadline, [str(part.reason) for part in parts_of(self.record())]
            time.sleep(POLL_S)


def cores() -> list[int]:
    """Return the cores that snodes get; one of them serves both if there is no other."""
    usable = sorted(os.sched_getaffinity(0))
    return (usable * len(SNODES))[: len(SNODES)]


def cpu_seconds(snode: psutil.Process) -> float:
    """Return the CPU time of an snode so far."""
    times = snode.cpu_times()
    return float(times.user + times.system)


@contextmanager
def running_snode(bench: Bench, snode: str, core: int) -> Iterator[psutil.Process]:
    """Run the driver of an snode on one core."""
    command = ["taskset", "-c", str(core), sys.executable, "-m", "benchmarks.part_snode"]
    command += ["--home", str(bench.settings.home_path), "--snode", snode]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip() == READY
        yield psutil.Process(process.pid)
    finally:
        process.stdin.close()
        process.wait(MAX_WAIT_SECONDS)


def measure(bench: Bench, kind: str) -> Measurement:
    """Measure a stream with one kind of windows."""
    sides = [Side(bench, kind, parts) for parts in (1, 2)]
    timings = interleave({f"{side.parts} parts": side.measure for side in sides}, bench.sizes.rounds, bench.log)
    counts = [side.streams.result()["cnt"] for side in sides]
    assert all(len(count) for count in counts)
    for side in sides:
        side.streams.close()
    one, two = timings["1 parts"], timings["2 parts"]
    busy = median(sides[0].busy) / median(sides[1].busy)
    rows = bench.sizes.commits * bench.sizes.commit_rows
    return Measurement(
        f"one stream on two snodes of a core each: {bench.sizes.commits} commits of {bench.sizes.commit_rows:,} rows × "
        f"{bench.sizes.subtables} subtables, {WINDOWS[kind]}",
        Timings(two.samples),
        others={"one snode": one},
        other_limits={"one snode": MOST_OF_ONE},
        note=f"{one.median / two.median:.2f} × as fast as one, {busy:.2f} by CPU time: {rows / two.median / 1e6:.2f} M rows/s",
    )


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure each kind of windows."""
    bench.execute("CREATE SNODE ON DNODE 2")
    try:
        for kind in WINDOWS:
            if bench.sizes.only in kind:
                yield measure(bench, kind)
    finally:
        bench.execute("DROP SNODE ON DNODE 2")
