"""From the commit of an insert to the commit of its result: the snode's loop against Structured Streaming queries.

Both sides read a Delta table that is written alike, a thousand rows a commit, and are timed by the files of the Delta logs. A
commit is written when the results of the one before are there, after a pause that is never the same.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.bench import DATABASE, Bench, Sizes
from benchmarks.compare import check_same
from benchmarks.data import batch, make_meters
from benchmarks.deltalog import Log, commit_time, has_rows, reaches
from benchmarks.handwritten import streaming
from benchmarks.measure import Side, interleave
from benchmarks.probe import Probe, Spot
from benchmarks.results import Line, Wanted
from headrace.model.tables import Table
from headrace.runtime.driver import Driver
from headrace.runtime.metrics import Histogram
from headrace.storage.delta.commits import offset_app

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

PAUSE_SECONDS: Final = 0.1
PATIENCE_SECONDS: Final = 120.0
ROWS_A_SUBTABLE: Final = 10
BY_HAND: Final = "_by_hand"
STATELESS: Final = "a foreachBatch that remembers nothing, another result"
CREATE: Final = """
    CREATE STREAM {name} TRIGGER {trigger} INTO {name}_result TAGS (device VARCHAR(64))
    AS SELECT _wstart AS ts, COUNT(*) AS cnt, AVG(voltage) AS av FROM {source} PARTITION BY tbname device INTERVAL({seconds}s)
"""


@dataclass(frozen=True, slots=True)
class Task:
    """What is measured: `streams` alike on one source, windows of `seconds`, results at once or when a window is closed.

    A batch holds ten seconds of each subtable. At once: a window takes six batches, so that results are updated. Closed: each
    batch closes the window of the one before.
    """

    trigger: str
    streams: int

    @property
    def seconds(self) -> int:
        return 60 if self.trigger == "AT_ONCE" else ROWS_A_SUBTABLE

    @property
    def label(self) -> str:
        return f"{self.trigger.lower()}_{self.streams}"


class Source:
    """A table that is written batch after batch."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench = bench
        self.rows = bench.sizes.batch_rows
        self.subtables = max(1, self.rows // ROWS_A_SUBTABLE)
        self.table: Table = make_meters(bench, name, self.subtables)
        self.location = bench.location(name)
        self._second = 0

    def write(self) -> int:
        """Commit the next batch; the version it made."""
        rows = batch(self.table.name, self.subtables, self.rows, self._second)
        self._second += ROWS_A_SUBTABLE
        return self.bench.context.tables.write(self.table, self.bench.database, rows).version


class Ours:
    """Streams run by the loop of an snode, in this process."""

    def __init__(self, bench: Bench, task: Task) -> None:
        self.bench = bench
        self.source = Source(bench, f"latency_{task.label}")
        self.names = [f"latency_{task.label}_{number}" for number in range(task.streams)]
        for name in self.names:
            bench.execute(CREATE.format(name=name, trigger=task.trigger, source=self.source.table.name, seconds=task.seconds))
        self.apps = [self._offset_app(name) for name in self.names]
        self.logs = [Log(bench.location(f"{name}_result")) for name in self.names]
        lease = bench.context.catalog.leases.acquire(bench.settings.snode, "benchmarks", bench.settings.lease_ms)
        assert lease is not None, "the home is in use by an snode"
        self.lease = lease

    def _offset_app(self, name: str) -> str:
        """The app transaction by which the target's log tells how far a stream has read its source."""
        definition = self.bench.context.catalog.jobs.get(DATABASE, name).definition
        return offset_app(definition.id, definition.source_id)

    @contextmanager
    def running(self) -> Iterator[None]:
        context = replace(self.bench.context, epoch=self.lease.epoch)
        driver = Driver(context, self.bench.settings.snode, fills=False, batches=Histogram(), ended=lambda: None)
        driver.start()
        try:
            yield
        finally:
            ended = driver.stop(PATIENCE_SECONDS)
        assert ended
        if driver.failure is not None:
            raise driver.failure

    def committed(self, version: int) -> float:
        """When the last stream committed its result of a source version."""
        pairs = zip(self.logs, self.apps, strict=True)
        return max(log.wait(reaches(app, version), PATIENCE_SECONDS) for log, app in pairs)

    def result(self) -> pa.Table:
        """The rows of the last stream's target."""
        table = self.bench.table(f"{self.names[-1]}_result")
        rows = self.bench.context.tables.scan(table, self.bench.database)
        return rows.join(self.bench.context.tables.read_tags(table), "tbname").select(["device", "ts", "cnt", "av"])

    def close(self) -> None:
        """Drop the streams and let the lease go."""
        for name in self.names:
            self.bench.execute(f"DROP STREAM {name}")
        self.bench.context.catalog.leases.release(self.lease)


class Theirs:
    """Structured Streaming queries, one for each stream."""

    def __init__(self, bench: Bench, task: Task, *, stateless: bool = False) -> None:
        self.bench = bench
        self.stateless = stateless
        label = f"{task.label}_stateless" if stateless else task.label
        self.source = Source(bench, f"latency_{label}{BY_HAND}")
        self.folder: Path = bench.scratch(f"latency_{label}")
        self.jobs = [self._job(task, number) for number in range(task.streams)]
        self.logs = [Log(job.target) for job in self.jobs]

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
                settle(query)
                query.stop()

    def committed(self, version: int) -> float:  # noqa: ARG002
        """When the last query committed rows that come after those seen."""
        return max(log.wait(has_rows, PATIENCE_SECONDS) for log in self.logs)

    def result(self) -> pa.Table:
        """The rows of the last query's target."""
        found = streaming.latest(self.bench.spark, self.jobs[-1].target).withColumnRenamed("tbname", "device").toArrow()
        device = pc.replace_substring(found["device"], pattern=BY_HAND, replacement="")
        return found.set_column(found.schema.get_field_index("device"), "device", device)


def settle(query: StreamingQuery) -> None:
    """Wait for what the query still has to do, so that nothing is done twice after the next start."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.05)


def turn(side: Ours | Theirs, sizes: Sizes, probe: Probe) -> Side:
    """A round: start, warm up, and then a sample for each batch."""

    def samples() -> Sequence[float]:
        with side.running():
            for _ in range(sizes.warm_up):
                one(side)
            with probe.on():
                return [one(side) for _ in range(sizes.batches)]

    return samples


def one(side: Ours | Theirs) -> float:
    """Seconds from the commit of the next batch to that of its result."""
    time.sleep(random.uniform(0, PAUSE_SECONDS))
    version = side.source.write()
    return side.committed(version) - commit_time(side.source.location, version)


def spots() -> list[Spot]:
    """Where our time may go, in the order of a batch."""
    from pyspark.sql import SparkSession
    from pyspark.sql.classic.dataframe import DataFrame

    from headrace.storage import Tables
    from headrace.streams.runner import Runner
    from headrace.streams.sinks.target import TargetTable
    from headrace.streams.sources.reader import ChangeReader
    from headrace.streams.state.checkpoints import StateStore
    from headrace.streams.windows.processor import WindowProcessor

    return [
        Spot("read changes", ChangeReader, "read_after"),
        Spot("step", WindowProcessor, "process_batch"),
        Spot("step: each frame into Spark", SparkSession, "createDataFrame"),
        Spot("step: each result out of Spark", DataFrame, "toArrow"),
        Spot("write state", StateStore, "write"),
        Spot("rows of the target", TargetTable, "to_rows"),
        Spot("commit", Tables, "replace"),
        Spot("record progress (after the result)", Runner, "record"),
    ]


def measure(bench: Bench, task: Task) -> Line:
    """Both sides of a task, then whether they agree."""
    ours, theirs, floor = Ours(bench, task), Theirs(bench, task), Theirs(bench, task, stateless=True)
    if task.trigger == "WINDOW_CLOSE":
        prime(ours, theirs)
    probe, none, sizes = Probe(spots()), Probe([]), bench.sizes
    sides = {"headrace": turn(ours, sizes, probe), "hand-written": turn(theirs, sizes, none)}
    if task.streams == 1:
        sides[STATELESS] = turn(floor, sizes, none)
    found = interleave(sides, bench.sizes.rounds, bench.log)
    check_same(ours.result(), theirs.result(), ("device", "ts"))
    ours.close()
    streams = "1 stream" if task.streams == 1 else f"{task.streams} streams"
    return Line(
        f"latency: {sizes.batch_rows} rows, {task.trigger}, {streams}",
        found["headrace"],
        found["hand-written"],
        Wanted(ratio=0.5),
        parts=probe.timings(),
        others={STATELESS: found[STATELESS]} if task.streams == 1 else {},
    )


def prime(ours: Ours, theirs: Theirs) -> None:
    """The first window has none before it to close."""
    for side in (ours, theirs):
        side.source.write()


def run(bench: Bench) -> Iterator[Line]:
    """A line for each trigger mode, with one stream and with several."""
    for trigger in ("AT_ONCE", "WINDOW_CLOSE"):
        for streams in (1, bench.sizes.fan_out):
            yield measure(bench, Task(trigger, streams))
