"""Each trigger: how long after the instant at which a result is due it is committed.

A result is due with the commit of the rows (AT_ONCE), with that of the rows that close its window (WINDOW_CLOSE and
CONTINUOUS_WINDOW_CLOSE), at the end of the delay after it (MAX_DELAY), or at the end of the window by the clock
(FORCE_WINDOW_CLOSE). Instants are those of the files in the Delta logs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.cases import latency
from benchmarks.cases.latency import HeadraceStreams, Source, Task
from benchmarks.data import subtable_names
from benchmarks.deltalog import has_rows
from benchmarks.measure import MAX_WAIT_SECONDS, Memory, Side, interleave
from benchmarks.probe import Probe, TimedFunction
from benchmarks.results import Limit, Measurement

DELAY_SECONDS: Final = 5
CLOCKED: Final = "FORCE_WINDOW_CLOSE"
WRITE_AFTER_SECONDS: Final = 0.2
DELAYED_BATCHES: Final = 4
"""Inserts per round with MAX_DELAY, since each takes the delay."""
TRIGGERS: Final = ("AT_ONCE", "WINDOW_CLOSE", "CONTINUOUS_WINDOW_CLOSE", f"MAX_DELAY {DELAY_SECONDS}s", CLOCKED)
LIMIT_SECONDS: Final = 0.3
TDENGINE: Final = {"AT_ONCE": "210 ms, p95 318 ms", "WINDOW_CLOSE": "185 ms, p95 316 ms"}
"""From the return of an INSERT of 1000 rows until a query returns the result."""


class EventSource(Source):
    """A source whose rows have the times of a past day."""

    PREFIX: ClassVar[str] = "trigger"


class ClockSource(EventSource):
    """A source whose rows have the time of the clock: each commit is in a second of its own."""

    due: float

    def write(self) -> int:
        """Commit rows of the next second, shortly after it has begun, and return the version."""
        second = int(time.time()) + 1
        time.sleep(max(0.0, second + WRITE_AFTER_SECONDS - time.time()))
        per_subtable = self.rows // self.subtables
        names = [name for name in subtable_names(self.table.name, self.subtables) for _ in range(per_subtable)]
        ms = [second * 1000 + number for _ in range(self.subtables) for number in range(per_subtable)]
        rows = pa.table(
            {
                "ts": pa.array(ms, pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
                "current": pa.array([number % 7 for number in range(len(ms))], pa.float32()),
                "voltage": pa.array([210 + number % 30 for number in range(len(ms))], pa.int32()),
                "phase": pa.array([0.5] * len(ms), pa.float32()),
                "tbname": pa.array(names),
            }
        )
        self.due = second + 1
        return self.bench.context.tables.writer.write(self.table, self.bench.database, rows).version


def measure_commit(streams: HeadraceStreams, trigger: str) -> float:
    """Write the next rows, and return the seconds from the instant at which their result is due to its commit."""
    if isinstance(streams.source, ClockSource):
        streams.source.write()
        return streams.logs[0].wait(has_rows, MAX_WAIT_SECONDS) - streams.source.due
    seconds = latency.measure_commit(streams)
    return seconds - DELAY_SECONDS if trigger.startswith("MAX_DELAY") else seconds


def build_side(streams: HeadraceStreams, trigger: str, probe: Probe) -> Side:
    """Return a side whose rounds start the driver, warm it up, and measure each commit."""
    sizes = streams.bench.sizes
    is_delayed = trigger.startswith("MAX_DELAY")
    batches = min(sizes.batches, DELAYED_BATCHES) if is_delayed else sizes.batches

    def measure_round() -> Sequence[float]:
        with streams.running():
            for _ in range(min(1, sizes.warm_up) if is_delayed else sizes.warm_up):
                measure_commit(streams, trigger)
            with probe.activate():
                return [measure_commit(streams, trigger) for _ in range(batches)]

    return measure_round


def timed_functions() -> list[TimedFunction]:
    """Return the functions of a micro-batch, also of one by the clock."""
    from headrace.streams.clocked.processor import ClockedProcessor

    return [*latency.timed_functions(), TimedFunction("step by the clock", ClockedProcessor, "process_batch")]


def measure(bench: Bench, trigger: str) -> Measurement:
    """Measure a trigger."""
    task, probe, memory = Task(trigger, 1), Probe(timed_functions()), Memory()
    streams = HeadraceStreams(bench, task, ClockSource if trigger == CLOCKED else EventSource)
    if "WINDOW_CLOSE" in trigger and trigger != CLOCKED:
        streams.source.write()
    side = memory.watch("headrace", build_side(streams, trigger, probe))
    timings = interleave({"headrace": side}, bench.sizes.rounds, bench.log)["headrace"]
    streams.close()
    native = TDENGINE.get(trigger)
    return Measurement(
        f"trigger {trigger}: {bench.sizes.batch_rows} rows, after the result is due",
        timings,
        limit=Limit(seconds=LIMIT_SECONDS),
        parts=probe.timings(),
        peaks=memory.peaks,
        note=f"TDengine 3.3.6 from INSERT to query: {native}, on another machine of two cores, idle" if native else "",
    )


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure each trigger with one stream."""
    for trigger in TRIGGERS:
        yield measure(bench, trigger)
