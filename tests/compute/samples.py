"""Sample tables, rows and plans for the tests of `compute`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.compute import (
    AnyPlan,
    Plan,
    Relation,
    Scan,
    Scope,
    SeriesNames,
    StatisticsProvider,
    TableStatistics,
    bind,
    evaluate,
    language,
)
from headrace.compute.columnar.table_plans import Series
from headrace.errors import NotFoundError
from headrace.model.queries import Query, Union
from headrace.model.statements import Select
from headrace.model.tables import TBNAME, Column, Database, Name, Table, TableKind
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.sql import parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T0 = 1_700_000_000_000
"""2023-11-14 22:13:20 UTC in milliseconds. The sample rows are near this instant."""

FIXTURES = Path(__file__).parent / "fixtures"


def column(name: str, kind: TypeKind, length: int | None = None, *, is_key: bool = False) -> Column:
    return Column(name, DataType(kind, length), is_key)


METERS = Table(
    "db",
    "meters",
    (
        column("ts", TypeKind.TIMESTAMP),
        column("a", TypeKind.INT),
        column("b", TypeKind.BIGINT),
        column("c", TypeKind.FLOAT),
        column("d", TypeKind.DOUBLE),
        column("e", TypeKind.BOOL),
        column("s", TypeKind.VARCHAR, 20),
    ),
    (column("site", TypeKind.VARCHAR, 10), column("room", TypeKind.INT)),
)
KEYED = Table(
    "db",
    "keyed",
    (column("ts", TypeKind.TIMESTAMP), column("k", TypeKind.INT, is_key=True), column("v", TypeKind.INT)),
    kind=TableKind.PLAIN,
)
WIDE = Table(
    "db",
    "wide",
    (
        column("ts", TypeKind.TIMESTAMP),
        column("u8", TypeKind.UTINYINT),
        column("u64", TypeKind.UBIGINT),
        column("at", TypeKind.TIMESTAMP),
        column("m", TypeKind.DECIMAL, 10),
        column("j", TypeKind.VARBINARY, 8),
    ),
    kind=TableKind.PLAIN,
)
TABLES = {table.name: table for table in (METERS, KEYED, WIDE)}
SUBTABLES = {"d1": "meters", "d2": "meters"}

ARROW = {
    TypeKind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    TypeKind.INT: pa.int32(),
    TypeKind.BIGINT: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.BOOL: pa.bool_(),
    TypeKind.VARCHAR: pa.string(),
    TypeKind.UTINYINT: pa.int16(),
    TypeKind.UBIGINT: pa.decimal128(20, 0),
    TypeKind.DECIMAL: pa.decimal128(10, 0),
    TypeKind.VARBINARY: pa.binary(),
}


def scope(*, timezone: str = "UTC", precision: Precision = Precision.MILLISECOND, now: int = T0) -> Scope:
    """Return a scope with all sample tables in one database."""

    def resolve(name: Name) -> tuple[Relation, ...]:
        database = Database("db", precision, timezone)
        if name.name in TABLES:
            return (Relation(TABLES[name.name], database),)
        if name.name in SUBTABLES:
            return (Relation(TABLES[SUBTABLES[name.name]], database, SeriesNames((name.name,))),)
        raise NotFoundError(f"table {name} does not exist", span=name.span)

    return Scope(resolve, language("tdengine"), timezone, now)


def parse_query(sql: str) -> Query | Union:
    statement = parse(sql)
    assert isinstance(statement, Select)
    return statement.query


def plan(sql: str, *, stream: bool = False, where: Scope | None = None) -> AnyPlan:
    return bind(parse_query(sql), where or scope(), stream=stream)


def select(sql: str, *, stream: bool = False, where: Scope | None = None) -> Plan:
    """Bind a query that is no union."""
    bound = plan(sql, stream=stream, where=where)
    assert isinstance(bound, Plan)
    return bound


def to_arrow(table: Table, rows: Iterable[Mapping[str, Any]], precision: Precision = Precision.MILLISECOND) -> pa.Table:
    """Return rows as stored. Instants are given in ticks, missing columns are NULL, and `tbname` defaults to the table's name."""
    records = list(rows)
    micros = {"ms": 1000, "us": 1}.get(precision.value)
    columns: dict[str, pa.Array] = {}
    for column_ in (*table.columns, *table.tags):
        values = [row.get(column_.name) for row in records]
        if column_.type.kind is not TypeKind.TIMESTAMP:
            columns[column_.name] = pa.array(values, ARROW[column_.type.kind])
        elif micros is None:
            columns[column_.name] = pa.array(values, pa.int64())
        else:
            columns[column_.name] = pa.array(
                [None if value is None else value * micros for value in values], ARROW[TypeKind.TIMESTAMP]
            )
    return pa.table({**columns, TBNAME: pa.array([row.get(TBNAME, table.name) for row in records], pa.string())})


@dataclass(frozen=True)
class Reader:
    """Reads the sample rows."""

    table: pa.Table

    def row_count(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> int:  # noqa: ARG002
        return int(self.table.num_rows)

    def batches(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> Iterator[pa.Table]:  # noqa: ARG002
        yield self.table.select(list(scan.columns))

    def size(self, scan: Scan) -> TableStatistics | None:  # noqa: ARG002
        return None

    def subtables(self, scan: Scan) -> pa.Table:  # noqa: ARG002
        return pa.table({TBNAME: ["d1", "d2", "d3"], "site": ["x", "y", None], "room": pa.array([1, 2, None], pa.int32())})


def frame(spark: SparkSession, table: Table, rows: Iterable[Mapping[str, Any]], **others: Precision) -> DataFrame:
    return spark.createDataFrame(to_arrow(table, rows, **others)).coalesce(1)


def answer(
    sql: str, rows: DataFrame, *, where: Scope | None = None, statistics: StatisticsProvider | None = None
) -> list[tuple[Any, ...]]:
    """Evaluate a query over one table, with instants as milliseconds since `T0`."""
    return collect_rows(evaluate(plan(sql, where=where), rows, statistics=statistics))


def collect_rows(result: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(to_offset(value) for value in row) for row in result.collect()]


def to_offset(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000) - T0


def meters(*rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return rows of `meters` from (subtable, milliseconds after T0, a, b, c, d, e, s). d1 is in site x, d2 in y."""
    tags = {"d1": {"site": "x", "room": 1}, "d2": {"site": "y", "room": 2}}
    names = ("a", "b", "c", "d", "e", "s")
    return [
        {TBNAME: subtable, "ts": T0 + at} | tags[subtable] | dict(zip(names, values, strict=False))
        for subtable, at, *values in rows
    ]


def pairs(name: str) -> list[tuple[str, str]]:
    """Read the pairs of a fixture: a statement and, after `--`, what to expect. `#` begins a comment."""
    result = []
    for line in (FIXTURES / name).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            statement, _, expected = line.rpartition(" -- ")
            result.append((statement.strip(), expected.strip()))
    return result
