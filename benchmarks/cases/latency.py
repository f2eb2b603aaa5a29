"""Latency from the commit of an insert to the commit of its result, against Structured Streaming queries.

Both sides read Delta tables with the same commits of a thousand rows, and are timed by the files of the Delta logs. Each commit is
written after the results of the previous one, after a random pause.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.bench import DATABASE, Bench, Sizes
from benchmarks.compare import check_equal
from benchmarks.data import create_meters, generate_batch
from benchmarks.deltalog import DeltaLogReader, commit_time, has_rows, has_transaction
from benchmarks.driver import running_driver
from benchmarks.handwritten import streaming
from benchmarks.measure import MAX_WAIT_SECONDS, Side, interleave
from benchmarks.probe import Probe, TimedFunction
from benchmarks.results import Limit, Measurement
from headrace.model.tables import Table
from headrace.storage.delta.commits import offset_app
from headrace.streams.kind import STREAM

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

PAUSE_SECONDS: Final = 0.1
ROWS_PER_SUBTABLE: Final = 10
WINDOW_SECONDS: Final = {"AT_ONCE": 60, "MAX_DELAY": 86_400, "FORCE_WINDOW_CLOSE": 1}
BY_HAND: Final = "_by_hand"
STATELESS: Final = "foreachBatch without state, different result"
CREATE: Final = """
    CREATE STREAM {name} TRIGGER {trigger} INTO {name}_result TAGS (device VARCHAR(64))
    AS SELECT _wstart AS ts, COUNT(*) AS cnt, AVG(voltage) AS av FROM {source} PARTITION BY tbname device {window}
"""


@dataclass(frozen=True, slots=True)
class Task:
    """A benchmark: a trigger mode, and a number of equal streams on one source.

    A batch holds ten seconds of each subtable. With AT_ONCE, a window spans six batches, so results are updated. With
    WINDOW_CLOSE, each batch closes the window of the previous one. With MAX_DELAY, no batch closes a window.
    """

    trigger: str
    streams: int

    @property
    def seconds(self) -> int:
        return WINDOW_SECONDS.get(self.trigger.split()[0], ROWS_PER_SUBTABLE)

    @property
    def window(self) -> str:
        return f"INTERVAL({self.seconds}s)"

    @property
    def label(self) -> str:
        return f"{self.trigger.split()[0].lower()}_{self.streams}"


class Source:
    """A source table that is written in batches."""

    PREFIX: ClassVar[str] = "latency"

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench = bench
        self.rows = bench.sizes.batch_rows
        self.subtables = max(1, self.rows // ROWS_PER_SUBTABLE)
        self.table: Table = create_meters(bench, name, self.subtables)
        self.location = bench.location(name)
        self._second = 0

    def write(self) -> int:
        """Commit the next batch, and return its version."""
        rows = generate_batch(self.table.name, self.subtables, self.rows, self._second)
        self._second += ROWS_PER_SUBTABLE
        return self.bench.context.tables.writer.write(self.table, self.bench.database, rows).version


class HeadraceStreams:
    """Streams run by an snode's driver in this process."""

    def __init__(self, bench: Bench, task: Task, source_type: type[Source] = Source) -> None:
        self.bench = bench
        self.source = source_type(bench, f"{source_type.PREFIX}_{task.label}")
        self.names = [f"{self.source.table.name}_{number}" for number in range(task.streams)]
        for name in self.names:
            bench.execute(CREATE.format(name=name, trigger=task.trigger, source=self.source.table.name, window=task.window))
        self.apps = [self._offset_app(name) for name in self.names]
        self.logs = [DeltaLogReader(bench.location(f"{name}_result")) for name in self.names]

    def _offset_app(self, name: str) -> str:
        """Return the app transaction that records a stream's source offset in the log of its target."""
        definition = self.bench.context.catalog.jobs.get(DATABASE, name, STREAM).definition
        return offset_app(definition.id, definition.source_ids[0])

    @contextmanager
    def running(self) -> Iterator[None]:
        with running_driver(self.bench):
            yield

    def wait_for_result(self, version: int) -> float:
        """Return when the last stream committed its result of a source version, in epoch seconds."""
        pairs = zip(self.logs, self.apps, strict=True)
        return max(log.wait(has_transaction(app, version), MAX_WAIT_SECONDS) for log, app in pairs)

    def result(self) -> pa.Table:
        """Return the rows of the last stream's target."""
        table = self.bench.table(f"{self.names[-1]}_result")
        rows = self.bench.context.tables.scan(table)
        return rows.join(self.bench.context.tables.tags.read(table), "tbname").select(["device", "ts", "cnt", "av"])

    def close(self) -> None:
        """Drop the streams."""
        for name in self.names:
            self.bench.execute(f"DROP STREAM {name}")


class StreamingQueries:
    """Structured Streaming queries, one per stream."""

    def __init__(self, bench: Bench, task: Task, source_type: type[Source] = Source, *, stateless: bool = False) -> None:
        self.bench = bench
        self.stateless = stateless
        label = f"{task.label}_stateless" if stateless else task.label
        self.source = source_type(bench, f"{source_type.PREFIX}_{label}{BY_HAND}")
        self.folder: Path = bench.scratch(f"{source_type.PREFIX}_{label}")
        self.jobs = [self._job(task, number) for number in range(task.streams)]
        self.logs = [DeltaLogReader(job.target) for job in self.jobs]

    def _job(self, task: Task, number: int) -> streaming.Job:
        target, checkpoint = str(self.folder / f"result_{number}"), self.folder / f"checkpoint_{number}"
        closed, length = task.trigger == "WINDOW_CLOSE", f"{task.seconds} seconds"
        return streaming.Job(self.bench.spark, self.source.location, target, checkpoint, length, closed, self.stateless)

    @contextmanager
    def running(self) -> Iterator[None]:
        queries = [job.start() for job in self.jobs]
        try:
            yield
        finally:
            for query in queries:
                wait_until_idle(query)
                query.stop()

    def wait_for_result(self, version: int) -> float:  # noqa: ARG002
        """Return when the last query committed its next rows, in epoch seconds."""
        return max(log.wait(has_rows, MAX_WAIT_SECONDS) for log in self.logs)

    def result(self) -> pa.Table:
        """Return the rows of the last query's target."""
        rows = streaming.latest(self.bench.spark, self.jobs[-1].target).withColumnRenamed("tbname", "device").toArrow()
        device = pc.replace_substring(rows["device"], pattern=BY_HAND, replacement="")
        return rows.set_column(rows.schema.get_field_index("device"), "device", device)


def wait_until_idle(query: StreamingQuery) -> None:
    """Wait for the end of the current trigger, so that the next start does not repeat it."""
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.05)


def build_side(side: HeadraceStreams | StreamingQueries, sizes: Sizes, probe: Probe) -> Side:
    """Return a side whose rounds start it, warm it up, and measure each batch."""

    def measure_round() -> Sequence[float]:
        with side.running():
            for _ in range(sizes.warm_up):
                measure_commit(side)
            with probe.activate():
                return [measure_commit(side) for _ in range(sizes.batches)]

    return measure_round


def measure_commit(side: HeadraceStreams | StreamingQueries) -> float:
    """Return the seconds from the commit of the next batch to that of its result."""
    time.sleep(random.uniform(0, PAUSE_SECONDS))
    version = side.source.write()
    return side.wait_for_result(version) - commit_time(side.source.location, version)


def timed_functions() -> list[TimedFunction]:
    """Return the functions of a micro-batch that may take time, in their order."""
    from pyspark.sql import SparkSession
    from pyspark.sql.classic.dataframe import DataFrame

    from headrace.storage.delta.writer import Writer
    from headrace.streams.runner import StreamRunner
    from headrace.streams.sinks.target import TargetTable
    from headrace.streams.sources.reader import ChangeReader
    from headrace.streams.state.store import StateStore
    from headrace.streams.windows.processor import WindowProcessor

    return [
        TimedFunction("read changes", ChangeReader, "read_after"),
        TimedFunction("step", WindowProcessor, "process_batch"),
        TimedFunction("step: each frame into Spark", SparkSession, "createDataFrame"),
        TimedFunction("step: each result out of Spark", DataFrame, "toArrow"),
        TimedFunction("write state", StateStore, "write"),
        TimedFunction("rows of the target", TargetTable, "to_rows"),
        TimedFunction("commit", Writer, "replace"),
        TimedFunction("record progress (after the result)", StreamRunner, "record"),
    ]


def measure(bench: Bench, task: Task) -> Measurement:
    """Measure both sides of a task, and compare their results."""
    ours, theirs, stateless = (
        HeadraceStreams(bench, task),
        StreamingQueries(bench, task),
        StreamingQueries(bench, task, stateless=True),
    )
    if task.trigger == "WINDOW_CLOSE":
        write_first_batch(ours, theirs)
    probe, no_probe, sizes = Probe(timed_functions()), Probe([]), bench.sizes
    sides = {"headrace": build_side(ours, sizes, probe), "hand-written": build_side(theirs, sizes, no_probe)}
    if task.streams == 1:
        sides[STATELESS] = build_side(stateless, sizes, no_probe)
    timings = interleave(sides, bench.sizes.rounds, bench.log)
    check_equal(ours.result(), theirs.result(), ("device", "ts"))
    ours.close()
    streams = "1 stream" if task.streams == 1 else f"{task.streams} streams"
    return Measurement(
        f"latency: {sizes.batch_rows} rows, {task.trigger}, {streams}",
        timings["headrace"],
        timings["hand-written"],
        Limit(ratio=0.5),
        parts=probe.timings(),
        others={STATELESS: timings[STATELESS]} if task.streams == 1 else {},
    )


def write_first_batch(ours: HeadraceStreams, theirs: StreamingQueries) -> None:
    """Write the first batch, which closes no window."""
    for side in (ours, theirs):
        side.source.write()


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure each trigger mode with one stream and with several."""
    for trigger in ("AT_ONCE", "WINDOW_CLOSE"):
        for streams in (1, bench.sizes.fan_out):
            yield measure(bench, Task(trigger, streams))
