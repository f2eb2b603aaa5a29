"""Connections to the catalog database: SQLite or PostgreSQL, one transaction at a time, errors of our own."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    String,
    Table,
    any_,
    bindparam,
    create_engine,
    event,
    exc,
    func,
    make_url,
    select,
)
from sqlalchemy.pool import ConnectionPoolEntry, Pool

from headrace.catalog.rows.metadata import SCHEMA
from headrace.errors import ConfigurationError, DataError, Error, IntegrityError, InternalError, OperationalError

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

# How long a writer of SQLite waits for another to finish. Transactions take milliseconds; a longer wait means a process that hangs.
BUSY_SECONDS: Final = 30
CONNECT_SECONDS: Final = 10
BEGIN: Final = "headrace_begin"


class Store:
    """Transactions on one catalog database; `clock` gives epoch milliseconds."""

    def __init__(self, engine: Engine, clock: Callable[[], int]) -> None:
        self.engine = engine
        self.clock = clock
        self._reads = engine.execution_options() if is_sqlite(engine) else engine.execution_options(isolation_level="AUTOCOMMIT")
        self._writes = engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"})

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that only reads: one snapshot on SQLite, a snapshot per statement on PostgreSQL."""
        with translated(self.engine.url), self._reads.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is committed at the end, rolled back by an exception. SQLite has one writer at a time."""
        with translated(self.engine.url), self._writes.begin() as connection:
            yield connection

    def close(self) -> None:
        self.engine.dispose()


def open_engine(url: str) -> Engine:
    """An engine for a URL of SQLite (a file) or PostgreSQL; `ConfigurationError` for any other."""
    parsed = parse_url(url)
    engine = _sqlite_engine(parsed) if parsed.get_backend_name() == "sqlite" else _postgresql_engine(parsed)
    _ENGINES.add(engine)
    return engine


def parse_url(url: str) -> URL:
    """The URL with its driver filled in."""
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        raise ConfigurationError(f"{url!r} is not a URL of a catalog", hint=URL_HINT) from None
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise ConfigurationError("a catalog in SQLite needs a file", hint=URL_HINT)
        return parsed.set(drivername="sqlite")
    if parsed.get_backend_name() in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    raise ConfigurationError(f"the catalog cannot live in {parsed.get_backend_name()}", hint=URL_HINT)


URL_HINT: Final = "set HEADRACE_CATALOG_URL to sqlite:////folder/catalog.db or postgresql://user:password@host/database"


def is_sqlite(engine: Engine | Connection) -> bool:
    return engine.dialect.name == "sqlite"


def process_name() -> str:
    """How this process signs what it holds: host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that can say what to do on a conflict. Only the dialect in use is imported: each takes a while."""
    if is_sqlite(connection):
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)


def among(connection: Connection, column: ColumnElement[str], values: Sequence[str]) -> ColumnElement[bool]:
    """Whether a column has one of many values: they travel as one parameter, for which there is no limit."""
    if is_sqlite(connection):
        each = func.json_each(json.dumps(list(values))).table_valued("value")
        return column.in_(select(each.c.value))
    from sqlalchemy.dialects import postgresql

    return column == any_(bindparam(None, list(values), type_=postgresql.ARRAY(String)))


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Turns errors of SQLAlchemy into ours."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise _translate(error, url) from error
    except UnicodeEncodeError as error:
        raise DataError(f"the catalog cannot hold the text {error.object!r}: {error.reason}") from error


def _translate(error: exc.SQLAlchemyError, url: URL) -> Error:
    place = url.render_as_string(hide_password=True)
    cause = str(getattr(error, "orig", None) or error).strip()
    match error:
        case exc.OperationalError() if "is locked" in cause:
            return OperationalError(
                f"the catalog is busy: another process has been writing to {place} for {BUSY_SECONDS} s",
                hint="try again; should it last, look for a process that hangs while it holds the file",
            )
        case exc.OperationalError() | exc.InterfaceError() | exc.TimeoutError():
            return OperationalError(
                f"the catalog at {place} cannot be used: {cause}", hint="is its server up, its folder writable?"
            )
        case exc.IntegrityError():
            return IntegrityError(f"the catalog refused a change: {cause}")
        case exc.DataError():
            return DataError(f"the catalog cannot hold a value: {cause}")
        case exc.DatabaseError() if "not a database" in cause:
            return ConfigurationError(f"{place} is not a catalog: {cause}", hint=URL_HINT)
        case _:
            return InternalError(f"the catalog at {place} failed: {cause}")


def _sqlite_engine(url: URL) -> Engine:
    _create_file(Path(str(url.database)))
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, max_overflow=-1)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _create_file(path: Path) -> None:
    """Creates the file, readable by its owner alone: the catalog holds the tokens of snodes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise ConfigurationError(
            f"the catalog's file {path} cannot be created: {error.strerror}", hint="set HEADRACE_HOME to a folder you may write to"
        ) from None


def _prepare_sqlite(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says, not where the driver guesses
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")  # in WAL mode safe against a crash of the process


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(BEGIN, "BEGIN"))


def _postgresql_engine(url: URL) -> Engine:
    arguments: dict[str, Any] = {
        "application_name": f"headrace {process_name()}",
        "connect_timeout": CONNECT_SECONDS,
        # A machine that vanished loses its connections, and with them its locks, within a minute.
        "options": f"-c search_path={SCHEMA} -c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3",
    }
    return create_engine(url, connect_args=arguments, pool_pre_ping=True, max_overflow=-1)


_ENGINES: Final[WeakSet[Engine]] = WeakSet()
_INHERITED: Final[list[Pool]] = []


def _leave_to_parent() -> None:
    """Connections that came along through a fork are the parent's: they are neither used nor closed, this process opens its own."""
    for engine in _ENGINES:
        _INHERITED.append(engine.pool)
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_leave_to_parent)
