"""Tables and streams for the tests, recorded like those of the service."""

from __future__ import annotations

from pathlib import Path

from headrace.catalog import Catalog
from headrace.context import Context
from headrace.model.clock import Clock
from headrace.model.continuous_queries import ContinuousQuery, Schedule
from headrace.model.jobs import JobCounters, JobDefinition, JobProgress, JobState, StopReason
from headrace.model.positions import Position, source_id
from headrace.model.tables import Column, Database, Table, TableId
from headrace.model.tree_statements import TimeoutPolicy
from headrace.model.types import DataType, TypeKind
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.settings import Settings
from headrace.storage import Tables
from headrace.streams.kind import STREAM

SQL = (
    "CREATE STREAM power.{name} {options} INTO power.{name}_out AS SELECT _wstart, avg(v) FROM power.meters "
    "PARTITION BY tbname INTERVAL(1m)"
)
SOURCE = source_id("power", "meters")
PENDING_SINCE = 1_790_000_000_000 - 40
LIVE = JobProgress(
    Position(5, {SOURCE: 7}),
    {SOURCE: 3},
    1_700_000_000_000,
    1_700_000_000_500,
    PENDING_SINCE,
    JobCounters(rows_in=100, rows_used=88, rows_updated=2, rows_filtered=5, rows_expired=3, rows_pending=2, rows_out=20),
)


def table() -> Table:
    columns = (Column("ts", DataType(TypeKind.TIMESTAMP)), Column("v", DataType(TypeKind.DOUBLE)))
    return Table("power", "meters", columns, (Column("place", DataType(TypeKind.VARCHAR, 20)),))


def prepare(catalog: Catalog) -> None:
    """Create a database with one supertable."""
    catalog.databases.create(Database("power"), if_not_exists=True)
    catalog.tables.create(table(), if_not_exists=True)


def definition(name: str = "avg_v", *, options: str = "FILL_HISTORY 1", created: int = 1_700_000_000_000) -> JobDefinition:
    sql = SQL.format(name=name, options=options)
    return JobDefinition(
        id=f"id-{name}",
        kind=STREAM,
        database="power",
        name=name,
        sql=sql,
        dialect="tdengine",
        sources=(TableId("power", "meters"),),
        target=TableId("power", f"{name}_out"),
        created=created,
    )


def add_stream(
    catalog: Catalog,
    name: str = "avg_v",
    state: JobState = JobState.RUNNING,
    reason: StopReason | None = None,
    progress: JobProgress = LIVE,
    options: str = "FILL_HISTORY 1",
) -> str:
    """Record a stream in a state, and return its id."""
    prepare(catalog)
    job = definition(name, options=options)
    catalog.jobs.create(job)
    catalog.jobs.set_progress(job.id, progress)
    catalog.jobs.set_state(job.id, state, reason)
    return job.id


def without_spark(settings: Settings, catalog: Catalog, clock: Clock) -> Context:
    """Return a runtime that fails if Spark is used."""

    def spark() -> None:
        raise AssertionError("Spark must not be used")

    tables = Tables(settings.tables_uri, catalog.lock, settings.small_write_rows)
    return Context(catalog=catalog, open_tables=lambda: tables, spark=spark, clock=clock, settings=settings)  # type: ignore[arg-type]


def write_rows(context: Context, seconds: int) -> None:
    """Write one row per second from the epoch on, of one subtable."""
    import pyarrow as pa

    database, source = context.catalog.databases.get("power"), context.catalog.tables.get("power", "meters")
    if not context.tables.exists(source):
        context.tables.create(source, database)
    context.catalog.subtables.add("power", "meters", ["d1"])
    schema = context.tables.schema(source, database)
    columns = {
        "ts": pa.array([second * 1_000_000 for second in range(seconds)], pa.timestamp("us", "UTC")),
        "v": [float(second) for second in range(seconds)],
        "tbname": ["d1"] * seconds,
    }
    context.tables.writer.write(source, database, pa.table(columns).cast(pa.schema([schema.field(name) for name in columns])))


def repository() -> Path:
    return Path(__file__).parents[2]


QUERY_SQL = (
    "CREATE CONTINUOUS QUERY {name} RESAMPLE EVERY {every}ms TIMEOUT POLICY {policy} BEGIN "
    "SELECT count(v) INTO root.out.d(c) FROM root.src.d GROUP BY (1m) END"
)
MINUTE = 60_000


def add_query(
    catalog: Catalog,
    name: str = "q",
    *,
    every: int = MINUTE,
    policy: TimeoutPolicy = TimeoutPolicy.BLOCKED,
    first: int = 0,
    created: int = 1_700_000_000_000,
) -> JobDefinition:
    """Record a continuous query as CREATE CONTINUOUS QUERY does, and return its definition."""
    job = JobDefinition(
        id=f"cq-{name}",
        kind=CONTINUOUS_QUERY,
        database="",
        name=name,
        sql=QUERY_SQL.format(name=name, every=every, policy=policy),
        dialect="iotdb",
        sources=(),
        target=None,
        created=created,
        continuous_query=ContinuousQuery(Schedule(every, 0, every, 0, policy, first), "UTC", ("root.src.d",), ("root.out.d",)),
    )
    catalog.jobs.create(job, state=JobState.RUNNING)
    return job
