"""One campaign: commits to a table at the highest pace that its readers keep up with, beside what reads the table or cleans up."""

from __future__ import annotations

import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import psutil
import pyarrow as pa
from deltalake import DeltaTable

import headrace
from headrace.catalog.engines import open_engine
from headrace.model.positions import source_id
from headrace.pipes.events import DEVICE, TIME
from headrace.pipes.sinks.delta_layouts import DAY
from headrace.runtime.table_maintenance import maintain
from headrace.settings import Settings, load
from headrace.storage.delta.handles import rows_uri
from headrace.storage.types import MICROSECONDS
from tests.soak.pipes import compare_pipes, create_pipe_sql
from tests.soak.run import EQUAL, has_handled, outcome, status
from tests.soak.streams import TABLES, create_stream_sql
from tests.soak.system import System, open_system
from tests.soak.year import measures
from tests.soak.year.companions import RETENTION_HOURS, companion, maintain_each_night, read_outside
from tests.soak.year.measures import STREAMS, Sample, Trend
from tests.support.waiting import wait_until

PIPE: Final = "archive"
CONTINUOUS_QUERY: Final = (
    "CREATE CQ counted RESAMPLE EVERY 10s RANGE 10s BEGIN "
    "SELECT count(a) INTO root.counted.first(n) FROM root.soak.readings.readings_0 GROUP BY (10s) END"
)
COMPRESSED_CLOCK: Final = {"HEADRACE_METRICS_INTERVAL_S": "1", "HEADRACE_METRICS_KEEP_S": "60"}
LOG_HISTORY: Final = "interval 20 seconds"
SAMPLES: Final = 100
SUBTABLES: Final = 12
LATE_MS: Final = 60_000
WEIGHTS: Final = {"insert": 90, "update": 5, "late": 4, "delete": 1}
MAX_BEHIND: Final = 500
"""Commits that a stream or pipe may be behind. Of a writer that outruns all readers the log grows, whatever its age costs."""
PACED: Final = 100
"""Commits after each of which the writer waits for the others."""
Announce = Callable[[int], None]


@dataclass(frozen=True)
class YearReport:
    """What a campaign did and measured. `done` counts what companions did; `failures` are theirs, by message."""

    commits: int
    seconds: float
    trends: list[Trend]
    results: dict[str, str]
    done: dict[str, int]
    failures: Counter[str]

    @property
    def is_equal(self) -> bool:
        """Return whether every stream, and the target of every pipe, equals its query."""
        return all(result.startswith(EQUAL) for result in self.results.values())

    @property
    def megabytes_per_million_commits(self) -> float:
        """The files of the home at the end, by the commits to the table."""
        size = sum(trend.tenths[-1] for trend in self.trends if trend.measure.startswith("size of"))
        return size / self.commits * 1_000_000

    @property
    def growing(self) -> list[Trend]:
        """The measures that are not flat."""
        return [trend for trend in self.trends if not trend.is_flat]


@dataclass
class Writer:
    """Makes one commit after another, most of a new row; notes what an INSERT takes in ms, and one into a new table.

    Each sample begins with a new one.
    """

    connection: headrace.Connection
    random: random.Random
    taken: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    newest: dict[int, int] = field(default_factory=dict)

    def commit(self) -> None:
        """Execute one statement."""
        operation = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        sql = self._statement(operation, self.random.randrange(SUBTABLES))
        if operation == "insert":
            self._execute("INSERT", sql)
        else:
            self.connection.execute(sql)
            self._execute(measures.CONTROL, sql_of_insert("control", 0, round(time.time() * 1000), "1, 'x'"))

    def _execute(self, name: str, sql: str) -> None:
        started, used = time.perf_counter(), time.thread_time()
        self.connection.execute(sql)
        self.taken[f"{name}, CPU ms"].append(1000 * (time.thread_time() - used))
        self.taken[f"{name}, elapsed ms"].append(1000 * (time.perf_counter() - started))

    def _statement(self, operation: str, subtable: int) -> str:
        last = self.newest.get(subtable, 0)
        ms = max(last + 1, round(time.time() * 1000))
        if operation == "delete" and last:  # a subtable without rows does not exist yet
            return f"DELETE FROM readings_{subtable} WHERE ts BETWEEN {ms - 2_000} AND {ms - 1_000}"
        if operation == "late":
            ms -= self.random.randrange(LATE_MS)
        elif operation == "update":
            ms = last or ms
        self.newest[subtable] = max(last, ms)
        return sql_of_insert("readings", subtable, ms, f"{self.random.randrange(6)}, '{self.random.choice('xyz')}'")

    def sample(self) -> Sample:
        """Return the medians since the last call, and replace the other table."""
        sample = {measure: median(values) for measure, values in self.taken.items()}
        self.taken.clear()
        self.renew()
        return sample

    def renew(self) -> None:
        """Replace the other table."""
        self.connection.execute("DROP STABLE IF EXISTS control")
        self.connection.execute(TABLES[0].replace("readings", "control"))


def sql_of_insert(table: str, subtable: int, ms: int, values: str) -> str:
    return f"INSERT INTO {table}_{subtable} USING {table} TAGS ({subtable % 3}) VALUES ({ms}, {values})"


class Meter:
    """Takes a sample of everything."""

    def __init__(self, connection: headrace.Connection, processes: dict[str, psutil.Process]) -> None:
        context = connection.session.context
        self._catalog = context.catalog
        self._engine = open_engine(context.settings.catalog)
        self._home = context.settings.home_path
        self._processes = processes
        self._cpu = {name: measures.cpu_ms([process]) for name, process in processes.items()}
        self._commits = 0
        self._metrics_at = 0

    def sample(self, commits: int) -> Sample:
        """Return what is measured after a number of commits."""
        made, self._commits = commits - self._commits, commits
        parts = [measures.catalog_rows(self._engine), measures.files_of(self._home), self._batches()]
        for name, process in self._processes.items():
            used = measures.cpu_ms([process])
            parts += [measures.process_sample(name, [process]), {f"{name}, CPU by commit ms": (used - self._cpu[name]) / made}]
            self._cpu[name] = used
        return measures.merged(parts)

    def _batches(self) -> Sample:
        """Return the median duration of micro-batches since the last call."""
        samples = [s for s in self._catalog.stream_metrics.all(since=self._metrics_at) if s.batch_ms is not None]
        self._metrics_at = max((sample.time + 1 for sample in samples), default=self._metrics_at)
        durations = [sample.batch_ms for sample in samples if sample.batch_ms is not None]
        return {"micro-batch, elapsed ms": median(durations)} if durations else {}


def run_year(folder: Path, commits: int, seed: int, announce: Announce = lambda _: None) -> YearReport:
    """Make a number of commits beside an snode, an outside reader and maintenance; then compare all results."""
    with on_compressed_clock(), open_system(folder) as system, ExitStack() as stack:
        connection = stack.enter_context(system.connect())
        create_jobs(connection, system.settings)
        system.await_driver()
        reader = stack.enter_context(companion(read_outside, rows_of_table(connection), system.settings, RETENTION_HOURS))
        maintainer = stack.enter_context(companion(maintain_each_night, system.settings, commits))
        driver = system.driver
        meter = Meter(connection, {"writer": psutil.Process(), "snode": driver, "snode's JVM": driver.children()[0]})

        def beside(number: int) -> Iterable[Sample]:
            reader.commits.value = maintainer.commits.value = number
            announce(number)
            if number % PACED == 0:
                wait_until(lambda: behind(connection) <= MAX_BEHIND, "streams and pipes to follow", details=system.logs)
            return (*reader.samples(), *maintainer.samples())

        started = time.monotonic()
        samples = write(Writer(connection, random.Random(seed)), meter, commits, beside)
        seconds = time.monotonic() - started
        done = {"reads": reader.done, "maintenance": maintainer.done}
        failures = reader.failures + maintainer.failures
        return YearReport(commits, seconds, measures.trends(samples), compare(connection, system), done, failures)


@contextmanager
def on_compressed_clock() -> Iterator[None]:
    """Have processes keep for seconds what they else keep for days."""
    before = {name: os.environ.get(name) for name in COMPRESSED_CLOCK}
    os.environ.update(COMPRESSED_CLOCK)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def create_jobs(connection: headrace.Connection, settings: Settings) -> None:
    """Create the table, and the streams, the pipe and the continuous query on it."""
    create_archive(settings)
    for sql in (TABLES[0], *map(create_stream_sql, STREAMS)):
        connection.execute(sql)
    with headrace.connect(settings=settings, dialect="iotdb") as trees:
        for sql in ("CREATE DATABASE root.counted", CONTINUOUS_QUERY, create_pipe_sql(PIPE, settings)):
            trees.execute(sql)


def create_archive(settings: Settings) -> None:
    """Create the table of the pipe's sink, whose log stays for seconds."""
    schema = pa.schema([(TIME, MICROSECONDS), (DEVICE, pa.string()), (DAY, pa.date32())])
    properties = {"delta.logRetentionDuration": LOG_HISTORY}
    DeltaTable.create(f"{settings.home.parent}/{PIPE}", schema, partition_by=[DAY], configuration=properties)


def write(writer: Writer, meter: Meter, commits: int, beside: Callable[[int], Iterable[Sample]]) -> list[Sample]:
    """Make the commits, call `beside` after each one, and return samples at equal distances."""
    samples, read, every = [], list[Sample](), max(commits // SAMPLES, 1)
    writer.renew()
    for number in range(1, commits + 1):
        writer.commit()
        read.extend(beside(number))
        if number % every == 0:
            samples.append(measures.merged([meter.sample(number), writer.sample(), measures.medians(read)]))
            read.clear()
    return samples


def run_short(folder: Path, commits: int, seed: int, *, batches: int, nights: int) -> tuple[list[Trend], Counter[str]]:
    """Do so in one process, with a number of micro-batches and of maintenance, and a reader; return trends, and what failed."""
    settings = load(home=folder / "home", spark_master="local[2]", chunk_rows=2_000, metrics_interval_s=0)
    with headrace.connect(settings=settings) as connection:
        connection.execute("CREATE DATABASE soak")
        connection.execute("USE soak")
        create_jobs(connection, settings)
        with companion(read_outside, rows_of_table(connection), settings, 0) as reader:

            def beside(number: int) -> Iterable[Sample]:
                reader.commits.value = number
                if number % (commits // batches) == 0:
                    connection.settle()
                if number % (commits // nights) == 0:
                    maintain(connection.session.context, retention_hours=0)
                return reader.samples()

            writer, meter = Writer(connection, random.Random(seed)), Meter(connection, {"process": psutil.Process()})
            return measures.trends(write(writer, meter, commits, beside)), reader.failures


def behind(connection: headrace.Connection) -> int:
    """Return how many commits to the table the slowest stream or pipe has not read yet."""
    context = connection.session.context
    version, source = context.tables.version(context.catalog.tables.get("soak", "readings")), source_id("soak", "readings")
    offsets = [record.offsets or {} for record in context.catalog.jobs.all() if record.definition.continuous_query is None]
    return version - min(own.get(source, 0) for own in offsets)


def rows_of_table(connection: headrace.Connection) -> str:
    """Return the URI of the rows that the campaign commits."""
    context = connection.session.context
    return rows_uri(context.tables.uri, context.catalog.tables.get("soak", "readings"))


def compare(connection: headrace.Connection, system: System) -> dict[str, str]:
    """Wait until the streams and pipes have handled everything, and return how each compares with its query."""
    jobs = connection.session.context.catalog.jobs

    def has_settled() -> bool:
        return all(has_handled(connection, record) for record in jobs.all() if record.definition.continuous_query is None)

    wait_until(has_settled, "all jobs to settle", details=lambda: status(connection, system))
    return {name: outcome(connection, name) for name in STREAMS} | compare_pipes(connection, system.settings, [PIPE])
