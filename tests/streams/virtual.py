"""Virtual tables over a supertable and a plain table, with random writes to their origins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headrace.compute import bind
from headrace.model.failpoints import FailpointError, armed
from headrace.model.statements import Select
from headrace.model.tables import Column, ColumnReference, Table, TableId, TableKind
from headrace.model.types import DataType, TypeKind
from headrace.queries.evaluation import collect
from headrace.sql import parse
from headrace.streams.definition.define import StreamPlan, catalog_scope
from tests.streams.environment import MICRO_BATCH_FAILPOINTS, START, StreamEnvironment

TIMESTAMP, INT, TEXT = DataType(TypeKind.TIMESTAMP), DataType(TypeKind.INT), DataType(TypeKind.VARCHAR, 16)
PUMPS = ("pump", (Column("t", TIMESTAMP), Column("v", INT)))
VALUES = (Column("ts", TIMESTAMP), Column("a", INT), Column("b", TEXT), Column("v", INT))
SUBTABLES = {"d0": (1, 0), "d1": (2, 0)}

Write = tuple[str, Any]
"""`readings` with rows of (subtable, ms, a, b), `pump` with rows of (ms, v), `delete` with (subtable, ms, ms), `settle`, `restart`,
or `kill` with a failpoint."""

INSTANT = st.integers(0, 60).map(lambda step: step * 500)
NUMBER = st.one_of(st.none(), st.integers(0, 4))
READING = st.tuples(st.sampled_from(list(SUBTABLES)), INSTANT, NUMBER, st.sampled_from([None, "x", "y"]))
WRITES = st.one_of(
    st.tuples(st.just("readings"), st.lists(READING, min_size=1, max_size=6)),
    st.tuples(st.just("pump"), st.lists(st.tuples(INSTANT, NUMBER), min_size=1, max_size=6)),
    st.tuples(st.just("delete"), st.tuples(st.sampled_from(["d0", "d1", "pump"]), INSTANT, INSTANT)),
    st.tuples(st.just("kill"), st.sampled_from(MICRO_BATCH_FAILPOINTS)),
    st.tuples(st.sampled_from(["settle", "restart"]), st.none()),
)


@dataclass(repr=False)
class VirtualTables:
    """The database of an environment with `pump`, and the virtual supertable `devices` with the subtables `v0` and `v1`."""

    env: StreamEnvironment

    @property
    def pump(self) -> Table:
        return Table(self.env.database.name, PUMPS[0], PUMPS[1], (), TableKind.PLAIN)

    def create(self) -> None:
        env, database = self.env, self.env.database.name
        env.tables.create(self.pump, env.database)
        env.catalog.tables.create(self.pump)
        devices = Table(database, "devices", VALUES, (Column("loc", INT),), is_virtual=True)
        env.tables.create(devices, env.database)
        env.catalog.tables.create(devices)
        for number, (series, own, other) in enumerate((("v0", "d0", "d1"), ("v1", "d1", "d0"))):
            references = [
                ColumnReference(series, "a", TableId(database, "readings"), own, "a"),
                ColumnReference(series, "b", TableId(database, "readings"), other, "b"),
                ColumnReference(series, "v", self.pump.id, "pump", "v"),
            ]
            env.catalog.virtual_tables.create_subtable(database, "devices", series, references)
            env.tables.tags.upsert(devices, pa.table({"tbname": [series], "loc": pa.array([number], pa.int32())}))

    def apply(self, write: Write) -> None:
        kind, values = write
        match kind:
            case "readings":
                self.env.insert(list({row[:2]: row for row in values}.values()))
            case "pump":
                self.insert_pump(list({row[0]: row for row in values}.values()))
            case "delete":
                self.delete(*values)
            case "restart":
                self.env.restart()
            case "kill":
                self.settle_until_killed(values)
            case _:
                self.env.settle()

    def insert_pump(self, rows: Sequence[tuple[int, int | None]]) -> None:
        schema = self.env.tables.schema(self.pump, self.env.database)
        times = pa.array([(START + row[0]) * 1000 for row in rows], pa.int64()).cast(schema.field("t").type)
        columns = [times, pa.array([row[1] for row in rows], pa.int32()), pa.repeat(pa.scalar("pump"), len(rows))]
        self.env.tables.writer.write(self.pump, self.env.database, pa.Table.from_arrays(columns, schema=schema))

    def delete(self, series: str, first: int, last: int) -> None:
        low, high = sorted((first, last))
        if series != "pump":
            self.env.delete(series, low, high)
            return
        self.env.tables.writer.delete(self.pump, self.env.database, ranges=[(START + low, START + high)])

    def settle_until_killed(self, point: str) -> None:
        """Handle what was written by a driver that dies at a failpoint, if it passes it."""
        with armed(f"{point}:1:raise"):
            try:
                self.env.settle()
            except FailpointError:
                self.env.restart_after_failure()

    def results(self, plan: StreamPlan) -> list[tuple[Any, ...]]:
        """Return the rows that a stream has written, ordered."""
        rows = self.env.tables.scan(plan.target, columns=list(plan.columns))
        return self.env.plain(rows.rename_columns([f"c{number}" for number in range(rows.num_columns)]))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, ordered."""
        statement = parse(sql)
        assert isinstance(statement, Select)
        rows = collect(bind(statement.query, catalog_scope(self.env.catalog, self.env.database.name)), self.env.context)
        return self.env.plain(rows.rename_columns([f"c{number}" for number in range(rows.num_columns)]))
