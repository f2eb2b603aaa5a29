"""Supertables and plain tables of the catalog."""

from __future__ import annotations

from sqlalchemy import delete, insert, select

from headrace.catalog.rows.tables import TABLES, from_row, to_row
from headrace.catalog.rules import exists, has_table, hold_databases, missing_table, refuse_streams_on, require_database
from headrace.catalog.store import Store
from headrace.catalog.subtables import add_subtables, find_subtables
from headrace.model.tables import Table, TableKind


class Tables:
    """Tables by database and name."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, table: Table, if_not_exists: bool = False) -> bool:
        """Whether it was created: False where a table of the name exists and `if_not_exists`, else `ExistsError`.

        `ExistsError` also where a subtable has the name; `NotFoundError` where the database is missing.
        A plain table gets its one subtable, of its own name, at once.
        """
        full_name = f"{table.database}.{table.name}"
        with self._store.write() as connection:
            hold_databases(connection, table.database)
            if has_table(connection, table.database, table.name):
                if if_not_exists:
                    return False
                raise exists("table", full_name)
            if taken := find_subtables(connection, table.database, [table.name]):
                raise exists("table", full_name, hint=f"it is a subtable of {taken[table.name].table}")
            connection.execute(insert(TABLES).values(to_row(table) | {"created": self._store.clock()}))
            if table.kind is TableKind.PLAIN:
                add_subtables(connection, table.database, table.name, [table.name])
        return True

    def drop(self, database: str, name: str) -> None:
        """Drops a table with its subtables: `NotFoundError`, or `IntegrityError` while a stream reads or fills it."""
        with self._store.write() as connection:
            hold_databases(connection, database)
            if not has_table(connection, database, name):
                raise missing_table(connection, database, name)
            refuse_streams_on(connection, database, name)
            connection.execute(delete(TABLES).where(TABLES.c.database == database, TABLES.c.name == name))

    def get(self, database: str, name: str) -> Table:
        """The table; `NotFoundError` with the nearest name."""
        with self._store.read() as connection:
            query = select(TABLES).where(TABLES.c.database == database, TABLES.c.name == name)
            row = connection.execute(query).mappings().one_or_none()
            if row is None:
                require_database(connection, database)
                raise missing_table(connection, database, name)
        return from_row(row)

    def all(self, database: str) -> list[Table]:
        """Every table of a database, by name; `NotFoundError` where the database is missing."""
        with self._store.read() as connection:
            require_database(connection, database)
            query = select(TABLES).where(TABLES.c.database == database).order_by(TABLES.c.name)
            return [from_row(row) for row in connection.execute(query).mappings()]
