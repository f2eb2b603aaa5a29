"""Tables in memory, and DuckDB's results over them."""

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
from headrace.verify import Lookup, StoredTable, recompute

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
    """Return rows as stored; instants are in ticks, missing values are NULL, and `tbname` defaults to the table's name."""
    records = list(rows)
    schema = rows_schema(table, database)
    factor = {Precision.MILLISECOND: 1000, Precision.MICROSECOND: 1, Precision.NANOSECOND: 1}[database.precision]
    columns = []
    for field in schema:
        values = [row.get(field.name, table.name if field.name == TBNAME else None) for row in records]
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
    """Return a lookup of tables, and of the subtables of those that have tags."""
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


def small_table(*rows: Sequence[Any], timezone: str = "UTC") -> Lookup:
    """Return a lookup of `small_table` with rows (subtable, seconds, a, b, s) or prefixes of these, and of the empty `plain`."""
    names = ("a", "b", "s")
    values = [
        {TBNAME: tbname, "ts": round(seconds * SECOND)} | dict(zip(names, fields, strict=False))
        for tbname, seconds, *fields in rows
    ]
    database = Database("db", timezone=timezone)
    empty = stored_rows(PLAIN, database, [])
    return lookup({"small": (SMALL, stored_rows(SMALL, database, values)), "plain": (PLAIN, empty)}, database=database)


def parse_query(sql: str) -> Query | Union:
    statement = parse(sql)
    assert isinstance(statement, Select)
    return statement.query


def query_rows(sql: str, tables: Lookup) -> list[tuple[Any, ...]]:
    """Return DuckDB's rows; instants in ticks."""
    with open_database() as connection:
        return recompute(connection, parse_query(sql), tables)[1]
