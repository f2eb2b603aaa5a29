"""Sample definitions for tests of the catalog."""

from __future__ import annotations

from headrace.catalog import Catalog
from headrace.model.jobs import JobDefinition
from headrace.model.ledger import Chunk
from headrace.model.stream_metrics import StreamSample
from headrace.model.tables import Column, Database, Table, TableId, TableKind
from headrace.model.types import DataType, TypeKind
from headrace.streams.kind import STREAM

TS = Column("ts", DataType(TypeKind.TIMESTAMP))
CURRENT = Column("current", DataType(TypeKind.FLOAT))
LOCATION = Column("location", DataType(TypeKind.VARCHAR, 64))


def supertable(name: str, database: str = "power") -> Table:
    return Table(database, name, (TS, CURRENT), (LOCATION,))


def plain_table(name: str, database: str = "power") -> Table:
    return Table(database, name, (TS, CURRENT), kind=TableKind.PLAIN)


def definition(name: str = "avg_current", **changed: object) -> JobDefinition:
    """Return a stream from power.meters to power.averages; with another name, to a target of its own."""
    overrides: dict[str, object] = {
        "id": f"id-{name}",
        "kind": STREAM,
        "database": "power",
        "name": name,
        "sql": "CREATE STREAM …",
        "dialect": "tdengine",
        "sources": (TableId("power", "meters"),),
        "target": TableId("power", "averages" if name == "avg_current" else f"{name}_out"),
        "created": 5,
    }
    return JobDefinition(**{**overrides, **changed})  # type: ignore[arg-type]


def chunks(count: int, rows: int = 100) -> list[Chunk]:
    """Return chunks of ten ticks each, of no stream or run."""
    return [Chunk("", "", number, number * 10, number * 10 + 10, rows) for number in range(count)]


def with_stream(catalog: Catalog, name: str = "avg_current") -> JobDefinition:
    """Record the database, the source and the stream."""
    catalog.databases.create(Database("power"), if_not_exists=True)
    catalog.tables.create(supertable("meters"), if_not_exists=True)
    stream = definition(name)
    catalog.jobs.create(stream)
    return stream


def stream_sample(stream: str, time: int, *, batches: int = 1) -> StreamSample:
    """Return a sample of a stream whose micro-batches take 15 ms."""
    return StreamSample(
        job_id=stream,
        time=time,
        rows_behind=0,
        lag_ms=5,
        event_lag_ms=1_500,
        batches=batches,
        batch_ms=15.0,
        read_ms=1.0,
        compute_ms=2.0,
        checkpoint_ms=3.0,
        write_ms=4.0,
        record_ms=5.0,
        rows_in_s=20.0,
        rows_out_s=2.0,
        state_windows=3,
        state_bytes=4_000,
        quarantined=0,
    )
