"""Migrates a catalog database to this version's schema: numbered, forward only, by one process at a time.

An empty database gets the declared tables, so only changes of released tables need migrations. The catalog records the oldest
version whose programs can use it, so an older release can run beside a newer one, and after it, if the schema has only grown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, DDLElement, exc, inspect, select, text
from sqlalchemy.dialects import registry
from sqlalchemy.schema import CreateIndex, CreateTable

from headrace.catalog.locks import Locks
from headrace.catalog.rows.metadata import METADATA, SCHEMA, VERSION_TABLE, WHERE
from headrace.catalog.rows.snodes import LEASES
from headrace.catalog.store import Store, is_sqlite, translated
from headrace.errors import ConfigurationError
from headrace.model.snodes import MAX_AHEAD_MS

HEAD: Final = "0005"
"""The newest migration. A constant, because asking Alembic takes longer than the rest of opening a catalog."""

OLDEST: Final = "0001"
"""The oldest version whose programs can use a catalog of version `HEAD`, and what its drivers store.

Older programs ignore tables and columns that they do not know, and leave new columns empty. Set it to `HEAD` with a migration that
removes or renames something, that gives stored values another meaning, or with a new format of states.
"""

MIGRATIONS: Final = Path(__file__).parent / "migrations"

# As Alembic creates it, and a column that Alembic does not know.
CREATE_VERSION_TABLE: Final = (
    f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL, oldest VARCHAR(32), "
    f"CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num))"
)


def migrate(store: Store, locks: Locks) -> None:
    """Create the tables, or run missing migrations; fast if there are none. Safe with concurrent processes.

    Raises:
        ConfigurationError: A newer release has migrated the catalog, and this one cannot use it; or an snode of an older release
            runs, which could not use it afterwards.
    """
    version = stored_version(store)
    if (version or "") >= HEAD:
        return
    with _exclusive_transaction(store, locks) as connection:
        if inspect(connection).has_table(VERSION_TABLE):
            if (version or "") < OLDEST:
                refuse_living(connection, store.now(connection))
            upgrade(connection)
        else:
            create_tables(connection)


def stored_version(store: Store) -> str | None:
    """Return the number of the last migration, None for an empty database; raise `ConfigurationError` if it excludes ours."""
    query = text(f"SELECT version_num FROM {VERSION_TABLE}")
    version: str | None
    with store.read() as connection:
        try:
            version = connection.scalar(query)
        except (exc.OperationalError, exc.ProgrammingError):
            if not inspect(connection).has_table(VERSION_TABLE):
                return None
            version = connection.scalar(query)  # another process created the table in between
        if version is not None and version > HEAD:
            check_oldest(version, connection.scalar(text(f"SELECT oldest FROM {VERSION_TABLE}")))
    return version


def check_oldest(version: str, oldest: str | None) -> None:
    """Raise `ConfigurationError` unless a catalog of a newer version admits programs of this one."""
    if oldest is None or oldest > HEAD:
        raise ConfigurationError(
            f"the catalog has version {version}, this Headrace knows {HEAD} at most",
            hint="upgrade Headrace, or use another catalog",
        )


def refuse_living(connection: Connection, now: int) -> None:
    """Raise `ConfigurationError` if an snode holds a lease."""
    living = connection.scalar(select(LEASES.c.snode).where(LEASES.c.expires.between(now, now + MAX_AHEAD_MS)).limit(1))
    if living is not None:
        raise ConfigurationError(
            f"the catalog cannot be migrated to version {HEAD}: snode {living} of an older release runs, which could not use it",
            hint="stop all snodes and tasks of the older release first",
        )


@contextmanager
def _exclusive_transaction(store: Store, locks: Locks) -> Iterator[Connection]:
    """Yield a write transaction in which no other process migrates."""
    with locks.hold("migrate"):
        if is_sqlite(store.engine):
            _write_ahead(store)
        with store.write() as connection, _without_limit(connection):
            yield connection


def _without_limit(connection: Connection) -> AbstractContextManager[None]:
    if is_sqlite(connection):
        return nullcontext()
    from headrace.catalog.postgresql import unbounded

    return unbounded(connection)


def _write_ahead(store: Store) -> None:
    """Turn on SQLite's write-ahead log permanently, so that readers and the writer do not wait for each other."""
    with translated(store.engine.url):
        connection = store.engine.raw_connection()
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()


def create_tables(connection: Connection) -> None:
    """Create all tables in an empty database."""
    create_schema(connection)
    for statement in _table_statements(f"{connection.dialect.name}.{connection.dialect.driver}"):
        connection.exec_driver_sql(statement)
    connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES (:version, :oldest)"), {"version": HEAD, "oldest": OLDEST})


@cache
def _table_statements(dialect_name: str) -> list[str]:
    dialect = registry.load(dialect_name)()
    tables = METADATA.sorted_tables
    indexes = [index for table in tables for index in sorted(table.indexes, key=lambda index: str(index.name))]
    for index in indexes:
        if WHERE in index.info:
            index.dialect_kwargs[f"{dialect.name}_where"] = index.info[WHERE]
    statements: list[DDLElement] = [*map(CreateTable, tables), *map(CreateIndex, indexes)]
    return [*(str(statement.compile(dialect=dialect)) for statement in statements), CREATE_VERSION_TABLE]


def create_schema(connection: Connection) -> None:
    """Create the schema on PostgreSQL unless it is there: even IF NOT EXISTS asks for the right to create one."""
    if is_sqlite(connection):
        return
    if connection.scalar(text("SELECT to_regnamespace(:name) IS NULL"), {"name": SCHEMA}):
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))


def upgrade(connection: Connection) -> None:
    """Run the migrations that the database lacks, and record which programs can use the result."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
    if "oldest" not in {column["name"] for column in inspect(connection).get_columns(VERSION_TABLE)}:
        # The first versions of the catalog did not record it.
        connection.execute(text(f"ALTER TABLE {VERSION_TABLE} ADD COLUMN oldest VARCHAR(32)"))
    connection.execute(text(f"UPDATE {VERSION_TABLE} SET oldest = :oldest"), {"oldest": OLDEST})
