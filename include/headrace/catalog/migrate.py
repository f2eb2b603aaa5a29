"""Migrates a catalog database to this version's schema: numbered, forward only, by one process at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, exc, inspect, text

from headrace.catalog.locks import Locks
from headrace.catalog.rows.metadata import VERSION_TABLE
from headrace.catalog.store import Store, is_sqlite, translated
from headrace.errors import ConfigurationError

HEAD: Final = "0001"
"""The newest migration. A constant, because asking Alembic takes longer than the rest of opening a catalog."""

MIGRATIONS: Final = Path(__file__).parent / "migrations"


def migrate(store: Store, locks: Locks) -> None:
    """Run missing migrations; fast if there are none. Safe with concurrent processes."""
    if stored_version(store) == HEAD:
        return
    with _exclusive_transaction(store, locks) as connection:
        _upgrade(connection)


def stored_version(store: Store) -> str | None:
    """Return the number of the last migration, None for an empty database; raise `ConfigurationError` if it is newer than ours."""
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
        raise ConfigurationError(
            f"the catalog has version {version}, this Headrace knows {HEAD} at most",
            hint="upgrade Headrace, or use another catalog",
        )
    return version


@contextmanager
def _exclusive_transaction(store: Store, locks: Locks) -> Iterator[Connection]:
    """Yield a write transaction in which no other process migrates."""
    with locks.hold("migrate"):
        if is_sqlite(store.engine):
            _write_ahead(store)
        with store.write() as connection:
            yield connection


def _write_ahead(store: Store) -> None:
    """Turn on SQLite's write-ahead log permanently, so that readers and the writer do not wait for each other."""
    with translated(store.engine.url):
        connection = store.engine.raw_connection()
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
