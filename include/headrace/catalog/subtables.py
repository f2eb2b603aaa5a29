"""Subtables of the catalog: name → table and uid, many thousands at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import Connection, delete, literal, select, true

from headrace.catalog.rows.subtables import SUBTABLES, from_row, from_values, uids_of
from headrace.catalog.rows.tables import TABLES
from headrace.catalog.rules import (
    exists,
    hold_databases,
    missing_table,
    refuse_jobs_on_series,
    refuse_references,
    require_database,
    require_table,
)
from headrace.catalog.store import Store, insert, is_among, pairs
from headrace.errors import InternalError, ProgrammingError
from headrace.model.tables import Subtable, TableKind

# Among billions of names two may have the same uid; each attempt makes other uids.
UID_ATTEMPTS: Final = 8


class Subtables:
    """Subtables by database and name. Names are unique in the database, uids (positive, 63 bits) in the catalog."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, database: str, table: str, names: Sequence[str]) -> dict[str, Subtable]:
        """Add missing subtables of a table, and return all of the names in order.

        Raises:
            ExistsError: A name belongs to another table or is one; none is added.
            NotFoundError: The table does not exist.
        """
        distinct_names = list(dict.fromkeys(names))
        with self._store.read() as connection:
            subtables = find_subtables(connection, database, distinct_names)
        _refuse_foreign(subtables.values(), table)
        if len(subtables) < len(distinct_names):
            with self._store.write() as connection:
                hold_databases(connection, database)
                require_table(connection, database, table)
                subtables = add_subtables(connection, database, table, distinct_names)
        return {name: subtables[name] for name in distinct_names}

    def ensure(self, database: str, table: str, names: Sequence[str]) -> None:
        """Add missing subtables of a table, as `add` does; cheaper for many.

        Raises:
            ExistsError: A name belongs to another table or is one; none is added.
            NotFoundError: The table does not exist.
        """
        # The order of the index, in which its pages are written once.
        distinct_names = sorted(set(names))
        with self._store.read() as connection:
            existing = find_tables(connection, database, distinct_names)
            if any(owner != table for owner in existing.values()):
                _refuse_foreign(find_subtables(connection, database, distinct_names).values(), table)
        missing = [name for name in distinct_names if name not in existing]
        if not missing:
            return
        with self._store.write() as connection:
            hold_databases(connection, database)
            require_table(connection, database, table)
            _refuse_tables(connection, database, table, missing)
            if insert_subtables(connection, database, table, missing, uids_of(database, missing)) < len(missing):
                add_subtables(connection, database, table, missing)

    def find(self, database: str, names: Sequence[str]) -> dict[str, Subtable]:
        """Return those of the names that are subtables."""
        with self._store.read() as connection:
            return find_subtables(connection, database, names)

    def uids(self, database: str, names: Sequence[str]) -> dict[str, int]:
        """Return the uids of those of the names that are subtables; cheaper than `find` for many."""
        columns = select(SUBTABLES.c.name, SUBTABLES.c.uid)
        with self._store.read() as connection:
            query = columns.where(SUBTABLES.c.database == database, is_among(connection, SUBTABLES.c.name, names))
            return {name: uid for name, uid in connection.execute(query).tuples()}  # noqa: C416

    def get(self, database: str, name: str) -> Subtable:
        """Return the subtable; raise `NotFoundError` with the nearest name."""
        with self._store.read() as connection:
            subtables = find_subtables(connection, database, [name])
            if not subtables:
                require_database(connection, database)
                raise missing_table(connection, database, name)
        return subtables[name]

    def all(self, database: str, table: str | None = None) -> list[Subtable]:
        """Return every subtable of a database, or of one of its tables, by name; raise `NotFoundError` if that is missing."""
        query = select(SUBTABLES).where(SUBTABLES.c.database == database).order_by(SUBTABLES.c.name)
        with self._store.read() as connection:
            if table is None:
                require_database(connection, database)
            else:
                require_table(connection, database, table)
                query = query.where(SUBTABLES.c.table == table)
            return [from_row(row) for row in connection.execute(query).mappings()]

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


def find_subtables(connection: Connection, database: str, names: Sequence[str]) -> dict[str, Subtable]:
    """Return those of the names that exist, by name."""
    query = select(SUBTABLES).where(SUBTABLES.c.database == database, is_among(connection, SUBTABLES.c.name, names))
    return {subtable.name: subtable for subtable in map(from_values, connection.execute(query))}


def find_tables(connection: Connection, database: str, names: Sequence[str]) -> dict[str, str]:
    """Return the tables of those of the names that are subtables."""
    columns = select(SUBTABLES.c.name, SUBTABLES.c.table)
    query = columns.where(SUBTABLES.c.database == database, is_among(connection, SUBTABLES.c.name, names))
    return {name: table for name, table in connection.execute(query).tuples()}  # noqa: C416


def add_subtables(connection: Connection, database: str, table: str, names: Sequence[str]) -> dict[str, Subtable]:
    """Add the missing names and return all; the caller has locked the database."""
    subtables = find_subtables(connection, database, names)
    _refuse_foreign(subtables.values(), table)
    _refuse_tables(connection, database, table, names)
    for attempt in range(UID_ATTEMPTS):
        missing = [name for name in names if name not in subtables]
        if not missing:
            return subtables
        uids = uids_of(database, missing, attempt)
        if insert_subtables(connection, database, table, missing, uids) == len(missing):
            new = (Subtable(database, name, table, uid) for name, uid in zip(missing, uids, strict=True))
            return subtables | {subtable.name: subtable for subtable in new}
        subtables |= find_subtables(connection, database, missing)
    raise InternalError(f"no free uid found for subtables of {database}.{table}")


def insert_subtables(connection: Connection, database: str, table: str, names: Sequence[str], uids: Sequence[int]) -> int:
    """Insert subtables whose names and uids are free, in one statement, and return how many that were."""
    added = pairs(connection, names, uids)
    rows = select(literal(database), added.c.text, literal(table), added.c.number).where(true())
    statement = insert(connection, SUBTABLES).from_select(["database", "name", "table", "uid"], rows)
    return connection.execute(statement.on_conflict_do_nothing()).rowcount


def _refuse_foreign(subtables: Iterable[Subtable], table: str) -> None:
    for subtable in subtables:
        if subtable.table != table:
            raise exists(
                "table", f"{subtable.database}.{subtable.name}", hint=f"it is a subtable of {subtable.table}, not of {table}"
            )


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
