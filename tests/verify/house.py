"""Tables in memory for the tests of this room, and DuckDB's answers over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from headrace.errors import NotFoundError
from headrace.model.queries import Query, Union
from headrace.model.statements import Select
from headrace.model.tables import TBNAME, Column, Database, Name, Table, TableKind
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.sql import parse
from headrace.storage.sandbox import open_database
from headrace.storage.types import rows_schema, tags_schema
from headrace.verify import Lookup, StoredTable
from headrace.verify.result import recomputed

SECOND: Final = 1_000


def column(name: str, kind: TypeKind, length: int | None = None, *, is_key: bool = False) -> Column:
    return Column(name, DataType(kind, length), is_key)


SMALL: Final = Table(
    "db",
    "small",
    (column("ts", TypeKind.TIMESTAMP), column("a", TypeKind.INT), column("b", TypeKind.DOUBLE), column("s", TypeKind.VARCHAR, 20)),
    (column("site", TypeKind.VARCHAR, 10), column("room", TypeKind.INT)),
)
PLAIN: Final = Table("db", "plain", (column("ts", TypeKind.TIMESTAMP), column("a", TypeKind.INT)), kind=TableKind.PLAIN)
TAGS: Final = {"d1": {"site": "x", "room": 1}, "d2": {"site": "y", "room": 2}}

Values = Mapping[str, Any]


def stored_rows(table: Table, database: Database, rows: Iterable[Values]) -> pa.Table:
    """Rows as stored: instants are given in ticks; what is not given is NULL, `tbname` the table's name."""
    every = list(rows)
    schema = rows_schema(table, database)
    factor = {Precision.MILLISECOND: 1000, Precision.MICROSECOND: 1, Precision.NANOSECOND: 1}[database.precision]
    columns = []
    for field in schema:
        values = [row.get(field.name, table.name if field.name == TBNAME else None) for row in every]
        if pa.types.is_timestamp(field.type):
            values = [None if value is None else value * factor for value in values]
        columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=schema)


def stored_tags(table: Table, database: Database, tags: Mapping[str, Values]) -> pa.Table:
    schema = tags_schema(table, database)
    rows = [{TBNAME: name} | dict(values) for name, values in tags.items()]
    return pa.Table.from_pylist(rows, schema=schema)


def lookup(
    tables: Mapping[str, tuple[Table, pa.Table]], tags: Mapping[str, Values] = TAGS, database: Database | None = None
) -> Lookup:
    """Tables by name, and subtables of those that have tags."""
    database = database or Database("db")

    def find(name: Name) -> StoredTable:
        owner, subtable = name.name, None
        if name.name in tags:
            owner, subtable = next(key for key, (table, _) in tables.items() if table.tags), name.name
        if owner not in tables:
            raise NotFoundError(f"table {name} does not exist", span=name.span)
        table, rows = tables[owner]
        return StoredTable(table, database, subtable, lambda: rows, lambda: stored_tags(table, database, tags))

    return find


def small(*rows: Sequence[Any], timezone: str = "UTC") -> Lookup:
    """`small` with rows given as subtable, seconds, a, b, s as far as given; and `plain` without rows."""
    names = ("a", "b", "s")
    values = [{TBNAME: tbname, "ts": round(at * SECOND)} | dict(zip(names, given, strict=False)) for tbname, at, *given in rows]
    database = Database("db", timezone=timezone)
    empty = stored_rows(PLAIN, database, [])
    return lookup({"small": (SMALL, stored_rows(SMALL, database, values)), "plain": (PLAIN, empty)}, database=database)


def query_of(sql: str) -> Query | Union:
    statement = parse(sql)
    assert isinstance(statement, Select)
    return statement.query


def answer(sql: str, found: Lookup) -> list[tuple[Any, ...]]:
    """DuckDB's rows; instants in ticks."""
    with open_database() as connection:
        return recomputed(connection, query_of(sql), found)[1]
