"""Copies of a whole catalog, also from one database engine to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import BigInteger, Column, Connection, Integer, Table, func, select, text

from headrace.catalog.rows.metadata import METADATA
from headrace.catalog.store import Store, is_sqlite

ROWS: Final = 5_000
"""Rows that are held in memory at a time."""
OWN_TABLES: Final = frozenset({"databases", "jobs", "trees", "users"})
"""Tables that are empty in a catalog that has never been used."""


def is_unused(store: Store) -> bool:
    """Return whether nothing has been created in a catalog."""
    tables = [table for table in METADATA.sorted_tables if table.name in OWN_TABLES]
    with store.read() as connection:
        return not any(connection.scalar(select(func.count()).select_from(table)) for table in tables)


def copy_catalog(source: Store, target: Store) -> None:
    """Replace a catalog by the state of another at one instant: all of it, or nothing."""
    with snapshot(source) as reading, target.write() as writing:
        copy_rows(reading, writing)


@contextmanager
def snapshot(store: Store) -> Iterator[Connection]:
    """Yield a connection whose reads all see one state of the database."""
    isolation = {} if is_sqlite(store.engine) else {"isolation_level": "REPEATABLE READ"}
    with store.engine.execution_options(**isolation).begin() as connection:
        yield connection


def copy_rows(source: Connection, target: Connection) -> None:
    """Replace the rows of all tables of a catalog by those of another."""
    for table in reversed(METADATA.sorted_tables):
        target.execute(table.delete())
    for table in METADATA.sorted_tables:
        result = source.execution_options(yield_per=ROWS).execute(select(table))
        for rows in result.mappings().partitions():
            target.execute(table.insert(), [dict(row) for row in rows])
        if not is_sqlite(target):
            continue_numbering(target, table)


def continue_numbering(connection: Connection, table: Table) -> None:
    """Let PostgreSQL number new rows after the copied ones."""
    for column in table.primary_key.columns:
        if is_numbered(column):
            name = f"{table.schema}.{table.name}" if table.schema else table.name
            highest = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
            connection.execute(select(func.setval(func.pg_get_serial_sequence(name, column.name), highest, text("false"))))


def is_numbered(column: Column[object]) -> bool:
    """Return whether the database gives a column its numbers."""
    table = column.table
    return table.autoincrement_column is column and isinstance(column.type, BigInteger | Integer)
