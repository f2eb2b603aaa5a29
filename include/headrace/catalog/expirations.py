"""The TTL of subtables and plain tables: when they are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, select

from headrace.catalog.rows.expirations import EXPIRATIONS
from headrace.catalog.rows.subtables import SUBTABLES, from_values
from headrace.catalog.rules import hold_databases
from headrace.catalog.store import Store, insert, is_among
from headrace.catalog.subtables import find_subtables
from headrace.errors import NotFoundError
from headrace.model.tables import Subtable

DAY_MS: Final = 86_400_000


class Expirations:
    """Expirations by database and name of a subtable. That of a plain table has the table's name."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def set(self, database: str, names: Sequence[str], days: int) -> None:
        """Let subtables expire a number of days from now, 0 for never.

        Raises:
            NotFoundError: One is missing; nothing is changed.
        """
        with self._store.write() as connection:
            hold_databases(connection, database)
            missing = set(names) - find_subtables(connection, database, names).keys()
            if missing:
                raise NotFoundError(f"table {database}.{min(missing)} does not exist", hint="it was dropped")
            is_named = is_among(connection, EXPIRATIONS.c.name, names)
            connection.execute(delete(EXPIRATIONS).where(EXPIRATIONS.c.database == database, is_named))
            if days:
                expires = self._store.now(connection) + days * DAY_MS
                rows = [{"database": database, "name": name, "days": days, "expires": expires} for name in names]
                connection.execute(insert(connection, EXPIRATIONS), rows)

    def days(self, database: str) -> dict[str, int]:
        """Return the TTL of each subtable of a database that has one."""
        query = select(EXPIRATIONS.c.name, EXPIRATIONS.c.days).where(EXPIRATIONS.c.database == database)
        with self._store.read() as connection:
            return {row.name: row.days for row in connection.execute(query)}

    def due(self) -> list[Subtable]:
        """Return the subtables that have expired, by database, table and name."""
        columns = SUBTABLES.c
        with self._store.read() as connection:
            is_due = EXPIRATIONS.c.expires <= self._store.now(connection)
            is_same = (columns.database == EXPIRATIONS.c.database) & (columns.name == EXPIRATIONS.c.name)
            query = select(SUBTABLES).join(EXPIRATIONS, is_same).where(is_due)
            return [from_values(row) for row in connection.execute(query.order_by(columns.database, columns.table, columns.name))]
