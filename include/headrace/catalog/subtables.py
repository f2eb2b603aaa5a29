"""Subtables of the catalog, many thousands at a time: name → table, and when they are dropped (TTL)."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final

from sqlalchemy import Connection, delete, func, literal, select, true, update
from sqlalchemy import exists as sql_exists

from headrace.catalog.rows.tables import EXPIRATIONS, SUBTABLES, TABLES, to_subtable
from headrace.catalog.rules import (
    exists,
    hold_databases,
    missing_table,
    refuse_jobs_on_series,
    refuse_references,
    require_database,
    require_table,
)
from headrace.catalog.store import Repository, as_rows, insert, is_among
from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.tables import Subtable, TableKind

DAY_MS: Final = 86_400_000
MAX_SAMPLE_NAMES: Final = 10
"""Names to look up before all are: if they are missing, the others need not be looked up."""


class Subtables(Repository):
    """Subtables by database and name. Names are unique in the database."""

    def add(self, database: str, table: str, names: Sequence[str]) -> None:
        """Add missing subtables of a table.

        Raises:
            ExistsError: A name belongs to another table or is one; none is added.
            NotFoundError: The table does not exist.
        """
        # The order of the index, in which its pages are written once.
        distinct_names = sorted_distinct(names)
        with self._store.read() as connection:
            if are_subtables(connection, database, table, distinct_names):
                return
        with self._store.write() as connection:
            hold_databases(connection, database)
            require_table(connection, database, table)
            add_subtables(connection, database, table, distinct_names)

    def find(self, database: str, names: Sequence[str]) -> dict[str, Subtable]:
        """Return those of the names that are subtables."""
        with self._store.read() as connection:
            return find_subtables(connection, database, names)

    def missing(self, database: str, names: Sequence[str]) -> list[str]:
        """Return those of the names that are not subtables; cheaper than `find` for many."""
        with self._store.read() as connection:
            rows = as_rows(connection, names)
            is_subtable = sql_exists().where(SUBTABLES.c.database == database, SUBTABLES.c.name == rows.c.value)
            return list(connection.scalars(select(rows.c.value).where(~is_subtable)))

    def get(self, database: str, name: str) -> Subtable:
        """Return the subtable; raise `NotFoundError` with the nearest name."""
        with self._store.read() as connection:
            subtables = find_subtables(connection, database, [name])
            if not subtables:
                require_database(connection, database)
                raise missing_table(connection, database, name)
        return subtables[name]

    def first(self, database: str, table: str, limit: int) -> list[str]:
        """Return the first names of a table's subtables, in order."""
        query = select(SUBTABLES.c.name).where(SUBTABLES.c.database == database, SUBTABLES.c.table == table)
        with self._store.read() as connection:
            return list(connection.scalars(query.order_by(SUBTABLES.c.name).limit(limit)))

    def all(self, database: str, table: str | None = None) -> list[Subtable]:
        """Return every subtable of a database, or of one of its tables, by name; raise `NotFoundError` if that is missing."""
        query = select(SUBTABLES).where(SUBTABLES.c.database == database).order_by(SUBTABLES.c.name)
        with self._store.read() as connection:
            if table is None:
                require_database(connection, database)
            else:
                require_table(connection, database, table)
                query = query.where(SUBTABLES.c.table == table)
            return [to_subtable(row) for row in connection.execute(query)]

    def starting_with(self, database: str, tables: Collection[str], prefix: str, limit: int) -> list[Subtable]:
        """Return the first subtables of tables, by name, whose names begin with a prefix."""
        columns = SUBTABLES.c
        is_named = columns.name.startswith(prefix, autoescape=True) & columns.table.in_(tables)
        query = select(SUBTABLES).where(columns.database == database, is_named).order_by(columns.name).limit(limit)
        with self._store.read() as connection:
            return [to_subtable(row) for row in connection.execute(query)]

    def check_unused(self, database: str, names: Sequence[str]) -> None:
        """Raise `IntegrityError` if a virtual table refers to one of the names, or a stream over a virtual table reads it."""
        with self._store.read() as connection:
            refuse_references(connection, database, series=names)
            refuse_jobs_on_series(connection, database, names)

    def drop(self, database: str, names: Sequence[str]) -> None:
        """Drop all of the names or none.

        Raises:
            NotFoundError: One is missing.
            ProgrammingError: One is a plain table.
            IntegrityError: A virtual table refers to one, or a stream over a virtual table reads it.
        """
        with self._store.write() as connection:
            hold_databases(connection, database)
            subtables = find_subtables(connection, database, names)
            for name in names:
                if name not in subtables:
                    raise missing_table(connection, database, name)
            _refuse_plain(subtables.values())
            refuse_references(connection, database, series=names)
            refuse_jobs_on_series(connection, database, names)
            is_dropped = is_among(connection, SUBTABLES.c.name, names)
            connection.execute(delete(SUBTABLES).where(SUBTABLES.c.database == database, is_dropped))
            tables = {subtable.table for subtable in subtables.values()}
            is_theirs = (TABLES.c.database == database) & TABLES.c.name.in_(tables)
            connection.execute(update(TABLES).where(is_theirs).values(subtable_drops=TABLES.c.subtable_drops + 1))

    def drops(self, database: str, table: str) -> int:
        """Return how many times subtables of a table were dropped: if the number is the same as before, all still exist."""
        query = select(TABLES.c.subtable_drops).where(TABLES.c.database == database, TABLES.c.name == table)
        return self._scalar(query) or 0


class Expirations(Repository):
    """Expirations by database and name of a subtable. That of a plain table has the table's name."""

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
        return {row["name"]: row["days"] for row in self._rows(query)}

    def due(self) -> list[Subtable]:
        """Return the subtables that have expired, by database, table and name."""
        columns = SUBTABLES.c
        with self._store.read() as connection:
            is_due = EXPIRATIONS.c.expires <= self._store.now(connection)
            is_same = (columns.database == EXPIRATIONS.c.database) & (columns.name == EXPIRATIONS.c.name)
            query = select(SUBTABLES).join(EXPIRATIONS, is_same).where(is_due)
            return [to_subtable(row) for row in connection.execute(query.order_by(columns.database, columns.table, columns.name))]


def find_subtables(connection: Connection, database: str, names: Sequence[str]) -> dict[str, Subtable]:
    """Return those of the names that exist, by name."""
    query = select(SUBTABLES).where(SUBTABLES.c.database == database, is_among(connection, SUBTABLES.c.name, names))
    return {subtable.name: subtable for subtable in map(to_subtable, connection.execute(query))}


def sorted_distinct(names: Sequence[str]) -> Sequence[str]:
    """Return names in ascending order without duplicates; cheap if they are so already."""
    return names if all(map(operator.lt, names, islice(names, 1, None))) else sorted(set(names))


def are_subtables(connection: Connection, database: str, table: str, names: Sequence[str]) -> bool:
    sample = names[:: len(names) // MAX_SAMPLE_NAMES + 1]
    attempts = (sample, names) if len(sample) < len(names) else (names,)
    return all(count_subtables(connection, database, table, attempt) == len(attempt) for attempt in attempts)


def count_subtables(connection: Connection, database: str, table: str, names: Sequence[str]) -> int:
    rows, is_own = as_rows(connection, names), SUBTABLES.c.table == table
    is_subtable = sql_exists().where(SUBTABLES.c.database == database, SUBTABLES.c.name == rows.c.value, is_own)
    return connection.scalar(select(func.count()).select_from(rows).where(is_subtable)) or 0


def add_subtables(connection: Connection, database: str, table: str, names: Sequence[str]) -> None:
    """Add the missing ones of distinct names in one statement; the caller has locked the database.

    Raises:
        ExistsError: A name belongs to another table or is one. The caller has to roll back.
    """
    _refuse_tables(connection, database, table, names)
    added = as_rows(connection, names)
    rows = select(literal(database), added.c.value, literal(table)).where(true())
    statement = insert(connection, SUBTABLES).from_select(["database", "name", "table"], rows)
    if connection.execute(statement.on_conflict_do_nothing()).rowcount < len(names):
        _refuse_foreign(connection, database, table, names)


def _refuse_foreign(connection: Connection, database: str, table: str, names: Sequence[str]) -> None:
    """Raise if one of the names is a subtable of another table."""
    is_foreign = is_among(connection, SUBTABLES.c.name, names) & (SUBTABLES.c.table != table)
    query = select(SUBTABLES).where(SUBTABLES.c.database == database, is_foreign).order_by(SUBTABLES.c.name).limit(1)
    for subtable in map(to_subtable, connection.execute(query)):
        raise exists("table", f"{database}.{subtable.name}", hint=f"it is a subtable of {subtable.table}, not of {table}")


def _refuse_tables(connection: Connection, database: str, table: str, names: Sequence[str]) -> None:
    """Raise if a subtable has the name of a table, unless that is the plain table it belongs to."""
    query = select(TABLES.c.name, TABLES.c.kind).where(TABLES.c.database == database)
    kinds = {row.name: row.kind for row in connection.execute(query)}
    for name in names:
        if name in kinds and not (name == table and kinds[name] == TableKind.PLAIN):
            raise exists("table", f"{database}.{name}", hint="a subtable needs a name of its own")
    if kinds[table] == TableKind.PLAIN and set(names) != {table}:
        raise ProgrammingError(f"{database}.{table} is a plain table: it has no subtables", hint="create a supertable, with TAGS")


def _refuse_plain(subtables: Iterable[Subtable]) -> None:
    for subtable in subtables:
        if subtable.name == subtable.table:
            raise ProgrammingError(
                f"{subtable.database}.{subtable.name} is a plain table, not a subtable", hint="drop the table itself"
            )
