"""A database with a supertable of meters, streams over it, and their expected results, computed by DuckDB."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.model.statements import CreateStream
from headrace.model.tables import Column, Database, Table
from headrace.model.types import DataType, TypeKind
from headrace.sql import parse
from headrace.streams import lifecycle
from headrace.streams.definition.define import define

DATABASE = Database("db")
METERS = Table(
    "db",
    "meters",
    (Column("ts", DataType(TypeKind.TIMESTAMP)), Column("v", DataType(TypeKind.INT))),
    (Column("area", DataType(TypeKind.INT)),),
)
START = 1_700_000_000_000
SELECT = "SELECT _wstart, count(*) n, sum(v) total, max(v) high FROM meters {rest} INTERVAL(1m)"
STREAM = "CREATE STREAM {name} {options} INTO {target} AS " + SELECT

Row = tuple[str, int, int]
"""Subtable, epoch milliseconds, value."""


@dataclass
class Meters:
    """The database of one test, and the rows of its source by key."""

    context: Context
    stored: dict[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def create(cls, context: Context, names: Sequence[str] = ("m1", "m2", "m3")) -> Meters:
        catalog, tables = context.catalog, context.tables
        catalog.databases.create(DATABASE)
        tables.create(METERS, DATABASE)
        catalog.tables.create(METERS)
        catalog.subtables.add("db", "meters", list(names))
        areas = pa.array(range(len(names)), pa.int32())
        tables.tags.upsert(METERS, pa.table({"tbname": pa.array(names), "area": areas}))
        return cls(context)

    def write(self, rows: Iterable[Row]) -> None:
        """Commit rows to the source."""
        names, times, values = zip(*rows, strict=True)
        ts = pa.array([time * 1000 for time in times], pa.int64()).cast(pa.timestamp("us", "UTC"))
        table = pa.table({"ts": ts, "v": pa.array(values, pa.int32()), "tbname": pa.array(names)})
        self.context.tables.writer.write(METERS, DATABASE, table)
        self.stored.update({(name, time): value for name, time, value in zip(names, times, values, strict=True)})

    def delete(self, name: str, first: int, last: int) -> None:
        """Delete a subtable's rows between two instants, both inclusive."""
        self.context.tables.writer.delete(METERS, DATABASE, tbnames=[name], ranges=[(first, last)])
        gone = [key for key in self.stored if key[0] == name and first <= key[1] <= last]
        for key in gone:
            del self.stored[key]

    def create_stream(
        self, options: str = "FILL_HISTORY 1", rest: str = "PARTITION BY tbname", target: str = "out", name: str = "s"
    ) -> str:
        """Record a stream, like CREATE STREAM does, and return its id."""
        sql = STREAM.format(name=name, options=options, rest=rest, target=target)
        statement = parse(sql)
        assert isinstance(statement, CreateStream)
        plan = define(statement, self.context.catalog, "db")
        lifecycle.create(self.context, plan, plan.definition(created=self.context.clock.now()))
        return plan.id

    def results(self, database: str = "db") -> list[tuple[Any, ...]]:
        """Return the rows of the target: window start, count, sum, maximum, in order."""
        target = self.context.catalog.tables.get(database, "out")
        rows = self.context.tables.scan(target)
        start = rows["_wstart"]
        if pa.types.is_integer(start.type):
            start = pc.divide(start, 1_000).cast(pa.timestamp("us", "UTC"))
        columns = [start.to_pylist(), *(rows[name].to_pylist() for name in ("n", "total", "high"))]
        return sorted(zip(*columns, strict=True))

    def expected(self, minutes: int = 1, *, closed_before: int | None = None, where: str = "true") -> list[tuple[Any, ...]]:
        """Return the rows that the target should have: of windows that end before an instant (None: of all)."""
        source = pa.table(
            {
                "tbname": [name for name, _ in self.stored],
                "ts": pa.array([time for _, time in self.stored], pa.int64()),
                "v": pa.array(self.stored.values(), pa.int32()),
            }
        )
        length = minutes * 60_000
        query = f"""
            SELECT ts // {length} * {length} AS start, count(*), sum(v), max(v) FROM source WHERE {where} GROUP BY tbname, start
            HAVING {"true" if closed_before is None else f"start + {length - 1} < {closed_before}"}
        """
        with duckdb.connect() as connection:
            connection.register("source", source)
            found = connection.execute(query).fetchall()
        return sorted((datetime.fromtimestamp(start / 1000, UTC), n, int(total), high) for start, n, total, high in found)


def readings(
    count: int, *, seed: int = 0, start: int = START, names: Sequence[str] = ("m1", "m2", "m3"), step: int = 7_000
) -> list[Row]:
    """Return random readings of some meters, about `step` milliseconds apart, in random order."""
    random_ = random.Random(seed)
    rows = [
        (random_.choice(names), start + number * step + random_.randrange(step), random_.randrange(100)) for number in range(count)
    ]
    random_.shuffle(rows)
    return rows
