"""Databases of the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from sqlalchemy import delete, select, update

from headrace.catalog.pinned_reads import PinnedReads
from headrace.catalog.rows.jobs import JOBS
from headrace.catalog.rows.tables import DATABASES
from headrace.catalog.rules import exists, missing_database, refuse_crossing_jobs, refuse_references
from headrace.catalog.schema_log import record_statements
from headrace.catalog.store import Repository, Store, insert
from headrace.model.conversion import from_row, to_row
from headrace.model.schema_log import SchemaStatement
from headrace.model.tables import Database


class Databases(Repository):
    """Databases by name."""

    def __init__(self, store: Store, pins: PinnedReads) -> None:
        """Create a repository; `pins` remembers databases."""
        super().__init__(store)
        self._pins = pins

    def create(self, database: Database, if_not_exists: bool = False, statements: Sequence[SchemaStatement] = ()) -> bool:
        """Create a database; return False if it exists and `if_not_exists`, else raise `ExistsError`.

        If it is created, the `statements` are recorded in the log of schema changes. Its time of creation is then theirs, which is
        greater than those of all statements about an earlier database of its name.
        """
        with self._store.write() as connection:
            row = to_row(database) | {"created": self._store.now(connection)}
            statement = insert(connection, DATABASES).values(row).on_conflict_do_nothing()
            created = connection.scalar(statement.returning(DATABASES.c.name)) is not None
            if created and statements:
                time = record_statements(self._store, connection, statements, after=True)
                connection.execute(update(DATABASES).where(DATABASES.c.name == database.name).values(created=time))
        if not created and not if_not_exists:
            raise exists("database", database.name)
        return created

    def alter(self, name: str, options: Iterable[tuple[str, str]]) -> None:
        """Change options of a database; raise `NotFoundError` if it does not exist."""
        with self._store.write() as connection:
            row = connection.execute(select(DATABASES).where(DATABASES.c.name == name).with_for_update()).mappings().one_or_none()
            if row is None:
                raise missing_database(connection, name)
            changed = [list(option) for option in (dict(from_row(Database, row).options) | dict(options)).items()]
            connection.execute(update(DATABASES).where(DATABASES.c.name == name).values(options=changed))

    def drop(self, name: str, if_exists: bool = False, statements: Sequence[SchemaStatement] = ()) -> bool:
        """Drop a database with its tables, subtables and jobs; return whether it existed.

        If it did, the `statements` are recorded in the log of schema changes.

        Raises:
            NotFoundError: It does not exist and `if_exists` is False.
            IntegrityError: A stream connects it with another database, or a virtual table of another refers to it.
        """
        with self._store.write() as connection:
            locked_row = select(DATABASES.c.name).where(DATABASES.c.name == name).with_for_update()
            if connection.scalar(locked_row) is None:
                if if_exists:
                    return False
                raise missing_database(connection, name)
            refuse_crossing_jobs(connection, name)
            refuse_references(connection, name)
            connection.execute(delete(JOBS).where(JOBS.c.database == name))
            connection.execute(delete(DATABASES).where(DATABASES.c.name == name))
            record_statements(self._store, connection, statements)
        return True

    def check_droppable(self, name: str) -> None:
        """Raise `IntegrityError` if a stream connects it with another database, or a virtual table of another refers to it."""
        with self._store.read() as connection:
            refuse_crossing_jobs(connection, name)
            refuse_references(connection, name)

    def get(self, name: str) -> Database:
        """Return the database; raise `NotFoundError` with the nearest name."""
        return self._pins.get(("database", name), partial(self._get, name))

    def _get(self, name: str) -> Database:
        with self._store.read() as connection:
            row = connection.execute(select(DATABASES).where(DATABASES.c.name == name)).mappings().one_or_none()
            if row is None:
                raise missing_database(connection, name)
        return from_row(Database, row)

    def all(self) -> list[Database]:
        """Return every database, by name."""
        return self._all(Database, select(DATABASES).order_by(DATABASES.c.name))
