"""SQLAlchemy engines of the catalog: a SQLite file, or PostgreSQL."""

from __future__ import annotations

import os
import re
import sqlite3
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakSet

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, make_url
from sqlalchemy.pool import ConnectionPoolEntry, Pool

from headrace import durable
from headrace.errors import ConfigurationError

# How long a writer of SQLite waits for another. Transactions take milliseconds, so a longer wait means that a process hangs.
BUSY_SECONDS: Final = 30
BEGIN: Final = "headrace_begin"
"""The execution option that says how SQLite begins a transaction."""
URL_HINT: Final = "set HEADRACE_CATALOG_URL to sqlite:////folder/catalog.db or postgresql://user:password@host/database"

_ENGINES: Final[WeakSet[Engine]] = WeakSet()
_INHERITED: Final[list[Pool]] = []


def open_engine(url: str) -> Engine:
    """Return an engine for a SQLite (file) or PostgreSQL URL; raise `ConfigurationError` for any other."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = _sqlite_engine(parsed)
    else:
        from headrace.catalog.postgresql import postgresql_engine  # imports psycopg

        engine = postgresql_engine(parsed)
    _ENGINES.add(engine)
    return engine


def parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        masked = re.sub("//.*@", "//***@", url)  # the URL may contain a password
        raise ConfigurationError(f"{masked!r} is not a URL of a catalog", hint=URL_HINT) from None
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise ConfigurationError("a catalog in SQLite needs a file", hint=URL_HINT)
        return parsed.set(drivername="sqlite")
    if parsed.get_backend_name() in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    raise ConfigurationError(f"the catalog cannot live in {parsed.get_backend_name()}", hint=URL_HINT)


def _sqlite_engine(url: URL) -> Engine:
    _create_file(Path(str(url.database)))
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, max_overflow=-1)
    event.listen(engine, "connect", partial(_prepare_sqlite, "NORMAL" if durable.is_relaxed(str(url.database)) else "FULL"))
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _create_file(path: Path) -> None:
    """Create the file and its folder, closed to other users: the catalog has the tokens of snodes."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise ConfigurationError(
            f"the catalog's file {path} cannot be created: {error.strerror}", hint="set HEADRACE_HOME to a folder you may write to"
        ) from None


def _prepare_sqlite(synchronous: str, connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says, not where the driver guesses
    connection.execute("PRAGMA foreign_keys = ON")
    # In WAL mode, NORMAL is safe against a crash of the process, and FULL against a power failure.
    connection.execute(f"PRAGMA synchronous = {synchronous}")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(BEGIN, "BEGIN"))


def _leave_to_parent() -> None:
    """Abandon connections inherited by a fork without closing them, as they belong to the parent."""
    for engine in _ENGINES:
        _INHERITED.append(engine.pool)
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_leave_to_parent)
