"""A stream in two parts on two snodes, each with a core of its own, against the same stream on one snode with one core.

The commits are written while the stream is paused. Each sample is the time in which it then catches up steadily: from the commit of
the results of the first one by all parts to that of the last one. The first one is not measured, since it has the start of the
snodes, and what they load and allocate once.

The times are those of the target's log. To ask the catalog for them again and again would take the snodes' cores from them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, Final

import psutil

from benchmarks.bench import DATABASE, Bench
from benchmarks.cases.catch_up import WINDOWS, CatchUp, CatchUpSource
from benchmarks.cases.latency import HeadraceStreams
from benchmarks.core_work import gain
from benchmarks.deltalog import DeltaLogReader, has_transaction
from benchmarks.measure import MAX_WAIT_SECONDS, Timings, interleave, wait_until
from benchmarks.part_snode import READY
from benchmarks.results import Measurement
from headrace.model.job_parts import part_ids, parts_of
from headrace.model.jobs import JobRecord, JobState
from headrace.model.snodes import member_name
from headrace.storage.delta.commits import offset_app
from headrace.streams.kind import STREAM

OPTIONS: Final = "WINDOW_CLOSE WATERMARK 1s PARTITIONS {parts}"
SNODES: Final = ("default", member_name(2))
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
        definition = self.record().definition
        self.logs = {
            offset_app(part, definition.source_ids[0]): DeltaLogReader(bench.location(f"{self.stream}_result"))
            for part in part_ids(definition)
        }
        bench.execute(f"PAUSE STREAM {self.stream}")

    def record(self) -> JobRecord:
        return self.bench.context.catalog.jobs.get(DATABASE, self.stream, STREAM)

    def measure(self) -> list[float]:
        """Return the seconds in which all commits of a round but the first are handled, which warms up."""
        versions = [self.streams.source.write() for _ in range(1 + self.bench.sizes.commits)]
        with ExitStack() as stack:
            owned = list(zip(SNODES, cores(), strict=False))[: self.parts]
            snodes = [stack.enter_context(running_snode(self.bench, snode, core)) for snode, core in owned]
            self.bench.execute(f"RESUME STREAM {self.stream}")
            start = self._wait(versions[0])
            before = [cpu_seconds(snode) for snode in snodes]
            end = self._wait(versions[-1])
            self.busy.append(max(cpu_seconds(snode) - used for snode, used in zip(snodes, before, strict=True)))
            self.bench.execute(f"PAUSE STREAM {self.stream}")
            wait_until(lambda: {part.state for part in parts_of(self.record())} == {JobState.PAUSED}, f"{self.stream} to pause")
        return [end - start]

    def _wait(self, version: int) -> float:
        """Return when the last part committed its results of a source version, in epoch seconds."""
        return max(log.wait(has_transaction(app, version), MAX_WAIT_SECONDS) for app, log in self.logs.items())


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
        f"one stream on two snodes of a core each, steadily: {bench.sizes.commits} commits of {bench.sizes.commit_rows:,} rows × "
        f"{bench.sizes.subtables} subtables, {WINDOWS[kind]}",
        Timings(two.samples),
        others={"one snode": one},
        other_limits={"one snode": MOST_OF_ONE},
        note=f"{one.median / two.median:.2f} × as fast as one, {busy:.2f} by CPU time: {rows / two.median / 1e6:.2f} M rows/s; "
        f"of arithmetic alone, two cores do {gain(cores()):.2f} × the work of one",
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
