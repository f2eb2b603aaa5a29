"""An environment for streams: a catalog, tables, and one supertable `readings (ts, a, b) TAGS (g)` to write to."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from headrace.catalog import Catalog
from headrace.compute import bind, evaluate
from headrace.context import Context
from headrace.errors import HistoryGoneError, NotFoundError
from headrace.jobs.hosts import Driving
from headrace.jobs.runners import RunnerFactory
from headrace.model.clock import ManualClock
from headrace.model.jobs import JobCounters, JobDefinition, JobRecord
from headrace.model.statements import CreateStream, Select
from headrace.model.streams import MAX_STREAMS_PER_DATABASE
from headrace.model.tables import Column, Database, Table
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.runtime.job_host import JobHost
from headrace.settings import load
from headrace.sql import parse
from headrace.storage import Tables
from headrace.storage.delta import changes
from headrace.streams import lifecycle
from headrace.streams.definition.define import StreamPlan, catalog_scope, define, plan_recorded_stream
from headrace.streams.quarantine.stored_rows import HISTORY_BATCH
from headrace.streams.runner import StreamRunner
from headrace.streams.sources import spill
from headrace.streams.sources.lag import measure_counters, measured_record
from headrace.streams.sources.tags import with_tags
from headrace.streams.windows import large_commits
from headrace.streams.windows.change_batch import LargeCommit
from tests.support.object_store import warehouse_options

START = 1_700_000_000_000
"""The origin of the tests' times, in ms: a multiple of a minute."""

READINGS = Table(
    "db",
    "readings",
    (Column("ts", DataType(TypeKind.TIMESTAMP)), Column("a", DataType(TypeKind.INT)), Column("b", DataType(TypeKind.VARCHAR, 16))),
    (Column("g", DataType(TypeKind.INT)),),
)
SUBTABLES = {"d0": 1, "d1": 1, "d2": 2}
LANE = Column("lane", DataType(TypeKind.INT))
NUMBERS = itertools.count(1)
MICRO_BATCH_FAILPOINTS = (
    "streams.evaluated",
    "streams.state.rename",
    "streams.state.written",
    "storage.commit",
    "storage.committed",
    "streams.target.committed",
    "streams.progress.recorded",
)
"""The failpoints that every micro-batch with results passes, in order."""

PROFILES = ("kernels", "pieces", "spark")
"""Ways to compute the same windows: kernels, kernels for commits in pieces of a few rows, and Spark SQL."""

Row = tuple[str, int, int | None, str | None]
"""Subtable, ms after `START`, `a`, `b`."""


@dataclass(repr=False)
class StreamEnvironment:
    """A database with the table `readings`, and the pollers of its streams."""

    context: Context
    database: Database
    pollers: JobHost | None = None
    runner: RunnerFactory = StreamRunner
    table: Table = READINGS
    subtables: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: {name: (g,) for name, g in SUBTABLES.items()})

    created: dict[str, int] = field(default_factory=dict)
    """The version of `readings` at which streams over it were created, by their ids."""

    written: Counter[int] = field(default_factory=Counter)
    """The numbers of rows that versions of `readings` inserted or updated."""
    counted: tuple[int, int] | None = None
    """The first and last version that `written` counts."""

    @property
    def catalog(self) -> Catalog:
        return self.context.catalog

    @property
    def clock(self) -> ManualClock:
        assert isinstance(self.context.clock, ManualClock)
        return self.context.clock

    @property
    def tables(self) -> Tables:
        return self.context.tables

    def create_tables(self) -> None:
        self.catalog.databases.create(self.database)
        self.catalog.tables.create(self.table)
        self.tables.create(self.table, self.database)
        self.catalog.subtables.add(self.database.name, self.table.name, list(self.subtables))
        values = zip(*self.subtables.values(), strict=True)
        tags = {tag.name: pa.array(value, pa.int32()) for tag, value in zip(self.table.tags, values, strict=True)}
        self.tables.tags.upsert(self.table, pa.table({"tbname": list(self.subtables)} | tags))

    @contextmanager
    def new_database(self, subtables: Mapping[str, tuple[int, ...]]) -> Iterator[StreamEnvironment]:
        """Yield the environment with a new database, whose subtables have the tags `g` and `lane`; drop its streams at the end."""
        database = replace(self.database, name=f"db{next(NUMBERS)}")
        table = replace(READINGS, database=database.name, tags=(*READINGS.tags, LANE))
        env = StreamEnvironment(self.context, database, table=table, subtables=subtables)
        env.create_tables()
        try:
            yield env
        finally:
            if env.pollers is not None:
                env.pollers.close()
            for record in env.catalog.jobs.all():
                if record.definition.database == database.name:
                    env.catalog.jobs.drop(record.definition.id)

    def insert(self, rows: Sequence[Row]) -> None:
        """Commit rows to `readings`."""
        self.tables.writer.write(self.table, self.database, self.stored(rows))

    def stored(self, rows: Sequence[Row]) -> pa.Table:
        """Return rows as `readings` stores them."""
        unit = {Precision.MILLISECOND: 1000, Precision.MICROSECOND: 1000, Precision.NANOSECOND: 1_000_000}[self.database.precision]
        schema = self.tables.schema(self.table, self.database)
        ts = pa.array([(START + row[1]) * unit for row in rows], pa.int64())
        columns = [ts, pa.array([row[2] for row in rows], pa.int32()), [row[3] for row in rows], [row[0] for row in rows]]
        arrays = [pa.array(column).cast(stored.type) for column, stored in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def lag_ms(self, plan: StreamPlan) -> int | None:
        """Return the age of the oldest commit that a stream has not handled; None if it cannot be measured."""
        measured = measured_record(self.context, self.record(plan))
        return None if measured is None else measured.progress.lag_ms(self.clock.now())

    def delete(self, subtable: str, first: int, last: int) -> None:
        """Delete rows from `first` to `last` ms after `START`, both inclusive, in one commit."""
        scale = self.database.precision.ticks_per_second // 1000
        ranges = [((START + first) * scale, (START + last) * scale + scale - 1)]
        self.tables.writer.delete(self.table, self.database, tbnames=[subtable], ranges=ranges)

    def define(self, sql: str, *, max_streams: int = MAX_STREAMS_PER_DATABASE, replaced: JobDefinition | None = None) -> StreamPlan:
        statement = parse(sql)
        assert isinstance(statement, CreateStream)
        now = self.context.clock.now()
        return define(
            statement,
            self.catalog,
            self.database.name,
            now=now,
            replaced=replaced,
            max_streams=max_streams,
            settings=self.context.settings,
        )

    def create(self, sql: str) -> StreamPlan:
        """Create a stream that starts now."""
        plan = self.define(sql)
        lifecycle.create(self.context, plan, plan.definition(created=self.context.clock.now()))
        if plan.source.id == self.table.id and plan.source_subtable is None:
            self.created[plan.id] = self.tables.version(self.table)
        return plan_recorded_stream(self.record(plan).definition, self.catalog, self.context.settings)

    def record(self, plan: StreamPlan) -> JobRecord:
        return self.catalog.jobs.by_id(plan.id)

    def settle(self, only: Collection[str] | None = None) -> None:
        """Let all streams, or those with these ids, handle everything that was written."""
        if self.pollers is None:
            self.pollers = JobHost(Driving(self.context), self.runner)
        self.pollers.reconcile(self.records(only))
        while self.pollers.poll():
            self.pollers.reconcile(self.records(only))
        self.check_accounts(only)

    def check_accounts(self, only: Collection[str] | None = None) -> None:
        """Check that every row is accounted for: as recorded, and as system tables show it, from the rows of the source."""
        for record in self.records(only):
            assert_accounted(record.progress.counters)
            measured = measure_counters(self.context, record)
            assert_accounted(measured)
            first = self.created.get(record.definition.id)
            if first is not None and not record.skip_to:
                with contextlib.suppress(HistoryGoneError):
                    held = self.catalog.quarantine.rows(record.definition.id, with_released=True)
                    of_history = sum(row.batch == HISTORY_BATCH for row in held)
                    assert measured.rows_in == self.written_rows(first + 1) + of_history, record.definition.sql

    def written_rows(self, first: int) -> int:
        """Return the number of rows that were inserted or updated from a version of `readings` on. Each version is read once."""
        last = self.tables.version(self.table)
        if self.counted is None or not self.counted[0] <= first <= last + 1 or last < self.counted[1]:
            self.written, self.counted = Counter(), (first, first - 1)
        if self.counted[1] < last:
            changes = self.tables.changes.read(self.table, self.counted[1] + 1, last)
            is_written = pc.is_in(changes["_change_type"], pa.array(["insert", "update_postimage"]))
            self.written.update(changes["_commit_version"].filter(is_written).to_pylist())
            self.counted = (self.counted[0], last)
        return sum(rows for version, rows in self.written.items() if version >= first)

    def records(self, only: Collection[str] | None) -> list[JobRecord]:
        """Return the records of all streams, or of those with these ids."""
        if only is None:
            return self.catalog.jobs.all()
        records = []
        for job_id in sorted(only):
            with contextlib.suppress(NotFoundError):
                records.append(self.catalog.jobs.by_id(job_id))
        return records

    def restart(self, epoch: int | None = None) -> None:
        """Act as if the driver had died: forget what is in memory."""
        self.pollers = None
        if epoch is not None:
            self.context = replace(self.context, epoch=epoch)

    def restart_after_failure(self) -> None:
        """Act as if the driver had died at a failpoint. Threads of its other streams end too, as they do with a process."""
        if self.pollers is not None:
            self.pollers.close()
        self.restart()

    def results(self, plan: StreamPlan, *, names: bool = False) -> list[tuple[Any, ...]]:
        """Return the rows of the target with tags, ordered; timestamps as ms after `START`. With `names`, the subtable last."""
        rows = self.tables.scan(plan.target)
        rows = with_tags(self.tables, plan.target, rows, [tag.name for tag in plan.target.tags])
        return self.plain(rows if names else rows.drop_columns("tbname"))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query over `readings`, ordered."""
        statement = parse(sql)
        assert isinstance(statement, Select)
        plan = bind(statement.query, catalog_scope(self.catalog, self.database.name))
        rows = with_tags(self.tables, self.table, self.tables.scan(self.table), [tag.name for tag in self.table.tags])
        return self.plain(evaluate(plan, self.context.spark().createDataFrame(rows)).toArrow())

    def plain(self, rows: pa.Table) -> list[tuple[Any, ...]]:
        """Return rows as tuples, ordered, with timestamps as ms after `START`."""
        for index, column in enumerate(rows.schema):
            if pa.types.is_timestamp(column.type):
                offsets = pa.array([None if ms is None else ms - START for ms in millis(rows[column.name])], pa.int64())
                rows = rows.set_column(index, column.name, offsets)
        return sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)


def assert_accounted(counters: JobCounters) -> None:
    """Assert that each row has one outcome."""
    outcomes = ("used", "updated", "filtered", "expired", "quarantined", "dropped", "pending")
    parts = [getattr(counters, f"rows_{outcome}") for outcome in outcomes]
    assert min(parts) >= 0
    assert counters.rows_in == sum(parts)


def millis(column: pa.ChunkedArray) -> list[int | None]:
    return [None if value is None else value // 1000 for value in column.cast(pa.int64()).to_pylist()]


@contextmanager
def open_environment(
    home: Path, spark: Callable[[], SparkSession], precision: Precision = Precision.MILLISECOND, **settings: Any
) -> Iterator[StreamEnvironment]:
    """Yield an environment with its table; stop everything that runs in it at the end."""
    loaded = load(home=home, **warehouse_options(), **settings)
    clock = ManualClock(START)
    with ExitStack() as stack:
        if loaded.is_on_object_store:  # for the processes that tests start
            stack.enter_context(pytest.MonkeyPatch.context()).setenv("HEADRACE_WAREHOUSE", loaded.warehouse)
        catalog = stack.enter_context(Catalog.open(loaded.catalog, clock=clock.now))
        tables = Tables(loaded.tables_uri, catalog.lock, loaded.small_write_rows)
        env = StreamEnvironment(Context(catalog, lambda: tables, spark, clock, loaded), Database("db", precision))
        env.create_tables()
        try:
            yield env
        finally:
            if env.pollers is not None:
                env.pollers.close()
            tables.close()


@contextmanager
def open_profile(profile: str, home: Path, spark: SparkSession, kernels: str = "always") -> Iterator[StreamEnvironment]:
    """Yield an environment that computes windows in one of the `PROFILES`, or `wide`: by kernels in tasks of Spark.

    No large commit may be read as a whole. `kernels` is the setting of profiles other than `spark`.
    """
    options: dict[str, Any] = {"kernels": "never" if profile == "spark" else kernels}
    with pytest.MonkeyPatch.context() as patch:
        if profile in ("pieces", "wide"):
            patch.setattr(changes, "PIECE_ROWS", 3)
            patch.setattr(spill, "PART_ROWS", 3)
            patch.setattr(LargeCommit, "read", refuse_to_read)
            options |= {"driver_rows": 0, "batch_rows": 1}
        if profile == "wide":
            patch.setattr(large_commits, "MAX_WINDOWS", 20)
            options |= {"wide_commit_rows": 0}
        with open_environment(home, lambda: spark, **options) as env:
            yield env


def refuse_to_read(commit: LargeCommit) -> pa.Table:
    raise AssertionError(f"a commit of {commit.count} rows is read as a whole")


def profile_of(env: StreamEnvironment) -> str:
    """Return in which of the `PROFILES` an environment computes windows."""
    settings = env.context.settings
    return "spark" if settings.kernels == "never" else "pieces" if settings.driver_rows == 0 else "kernels"
