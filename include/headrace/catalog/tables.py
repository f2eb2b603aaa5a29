"""Supertables and plain tables of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from sqlalchemy import Connection, delete, insert, select, update

from headrace.catalog.alterations import with_columns
from headrace.catalog.pinned_reads import PinnedReads
from headrace.catalog.rows.tables import COLUMN_REFERENCES, SUBTABLES, TABLES
from headrace.catalog.rules import (
    exists,
    has_table,
    hold_databases,
    missing_table,
    refuse_jobs_on,
    refuse_jobs_using,
    refuse_references,
    refuse_users,
    require_database,
)
from headrace.catalog.store import Repository, Store
from headrace.catalog.subtables import add_subtables, find_subtables
from headrace.model.conversion import from_row, to_row
from headrace.model.tables import Column, Table, TableId, TableKind


class Tables(Repository):
    """Tables by database and name."""

    def __init__(self, store: Store, pins: PinnedReads) -> None:
        """Create a repository; `pins` remembers tables."""
        super().__init__(store)
        self._pins = pins

    def create(self, table: Table, if_not_exists: bool = False) -> bool:
        """Create a table; return False if it exists and `if_not_exists`.

        A plain table gets its one subtable, named like itself.

        Raises:
            ExistsError: A table or subtable has the name.
            NotFoundError: The database does not exist.
        """
        with self._store.write() as connection:
            hold_databases(connection, table.database)
            if if_not_exists and has_table(connection, table.database, table.name):
                return False
            add_table(connection, table, self._store.now(connection))
        return True

    def alter(self, database: str, name: str, change: Callable[[Table], Table], removed: Collection[str] = ()) -> Table:
        """Change the columns, tags and comment of a table, and return the changed table.

        Args:
            database: Its database.
            name: Its name.
            change: Returns the new table for the current one, within the transaction, which an exception rolls back.
            removed: Columns and tags that the change removes.

        Raises:
            IntegrityError: A stream or a virtual table uses one of `removed`.
            NotFoundError: The table does not exist.
        """
        with self._store.write() as connection:
            hold_databases(connection, database)
            current = find_table(connection, database, name)
            refuse_jobs_using(connection, TableId(database, name), removed)
            if removed:
                refuse_references(connection, database, table=name, columns=removed)
                remove_references(connection, database, name, removed)
            changed = change(current)
            if changed != current:
                values = {key: to_row(changed)[key] for key in ("columns", "tags", "comment")}
                connection.execute(update(TABLES).where(TABLES.c.database == database, TABLES.c.name == name).values(values))
        return changed

    def check_unused(self, database: str, name: str, columns: Collection[str]) -> None:
        """Raise `IntegrityError` if a stream reads or fills one of these columns or tags, or a virtual table refers to one."""
        with self._store.read() as connection:
            refuse_jobs_using(connection, TableId(database, name), columns)
            refuse_references(connection, database, table=name, columns=columns)

    def check_unread(self, database: str, name: str, column: str) -> None:
        """Raise `IntegrityError` if a stream reads a column or tag, whose type it was defined for."""
        with self._store.read() as connection:
            refuse_jobs_using(connection, TableId(database, name), [column], fills=False)

    def check_renamable(self, database: str, name: str, column: str) -> None:
        """Raise `IntegrityError` if a job reads or fills a table, or a virtual table refers to it."""
        with self._store.read() as connection:
            refuse_users(connection, TableId(database, name), f"column {column} of {database}.{name} cannot be renamed")

    def add_columns(self, database: str, name: str, columns: Sequence[Column]) -> Table:
        """Append the columns that a table lacks, and return the changed table. Idempotent and safe to race.

        Raises:
            TypeMismatchError: A column of the name has another type; none is added.
        """
        return self.alter(database, name, lambda table: with_columns(table, columns))

    def drop(self, database: str, name: str) -> None:
        """Drop a table with its subtables.

        Raises:
            NotFoundError: It does not exist.
            IntegrityError: A job reads or writes it, or a virtual table refers to it.
        """
        with self._store.write() as connection:
            hold_databases(connection, database)
            if not has_table(connection, database, name):
                raise missing_table(connection, database, name)
            refuse_jobs_on(connection, TableId(database, name))
            refuse_references(connection, database, table=name)
            connection.execute(delete(TABLES).where(TABLES.c.database == database, TABLES.c.name == name))

    def get(self, database: str, name: str) -> Table:
        """Return the table; raise `NotFoundError` with the nearest name."""
        table = self.find(database, name)
        if table is None:
            with self._store.read() as connection:
                raise missing_table(connection, database, name)
        return table

    def find(self, database: str, name: str) -> Table | None:
        """Return the table, or None; raise `NotFoundError` if the database is missing."""
        return self._pins.get(("table", database, name), partial(self._find, database, name))

    def _find(self, database: str, name: str) -> Table | None:
        with self._store.read() as connection:
            table = read_table(connection, database, name)
            if table is None:
                require_database(connection, database)
            return table

    def created(self, database: str, name: str) -> int | None:
        """Return when a table was created; None if it does not exist. One that has had the same name has another time."""
        with self._store.read() as connection:
            created: int | None = connection.scalar(
                select(TABLES.c.created).where(TABLES.c.database == database, TABLES.c.name == name)
            )
            return created

    def all(self, database: str) -> list[Table]:
        """Return every table of a database, by name; raise `NotFoundError` if the database is missing."""
        with self._store.read() as connection:
            require_database(connection, database)
            query = select(TABLES).where(TABLES.c.database == database).order_by(TABLES.c.name)
            return [from_row(Table, row) for row in connection.execute(query).mappings()]


def remove_references(connection: Connection, database: str, table: str, columns: Collection[str]) -> None:
    series = select(SUBTABLES.c.name).where(SUBTABLES.c.database == database, SUBTABLES.c.table == table)
    rows = COLUMN_REFERENCES.c
    is_removed = (rows.database == database) & rows.series.in_(series) & rows.column.in_(columns)
    connection.execute(delete(COLUMN_REFERENCES).where(is_removed))


def find_table(connection: Connection, database: str, name: str) -> Table:
    """Return the table; raise `NotFoundError` with the nearest name."""
    table = read_table(connection, database, name)
    if table is None:
        require_database(connection, database)
        raise missing_table(connection, database, name)
    return table


def read_table(connection: Connection, database: str, name: str) -> Table | None:
    """Return the table; None if it does not exist, or its database does not."""
    query = select(TABLES).where(TABLES.c.database == database, TABLES.c.name == name)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else from_row(Table, row)


def add_table(connection: Connection, table: Table, created: int) -> None:
    """Record a table in a transaction that holds its database; raise `ExistsError` if a table or subtable has the name."""
    full_name = f"{table.database}.{table.name}"
    if has_table(connection, table.database, table.name):
        raise exists("table", full_name)
    if subtables := find_subtables(connection, table.database, [table.name]):
        raise exists("table", full_name, hint=f"it is a subtable of {subtables[table.name].table}")
    connection.execute(insert(TABLES).values(to_row(table) | {"created": created}))
    if table.kind is TableKind.PLAIN:
        add_subtables(connection, table.database, table.name, [table.name])
