"""Transactions on the catalog database, with errors of our own, and the statements that its two kinds spell differently."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    String,
    Table,
    any_,
    bindparam,
    exc,
    func,
    select,
    text,
)

from headrace.catalog.engines import BEGIN, BUSY_SECONDS, URL_HINT
from headrace.errors import ConfigurationError, DataError, Error, IntegrityError, InternalError, OperationalError

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


# Not `now()`, which is the start of the transaction: it may have waited for a lock since.
POSTGRESQL_NOW: Final = text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)")
SQLITE_NOW: Final = text("SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)")


class Store:
    """Transactions on one catalog database. `clock` replaces the database's own time, in epoch milliseconds."""

    def __init__(self, engine: Engine, clock: Callable[[], int] | None = None) -> None:
        self.engine = engine
        self._clock = clock
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

    def now(self, connection: Connection) -> int:
        """Return the database's time in epoch milliseconds: processes on several machines compare leases and heartbeats by it."""
        if self._clock is not None:
            return self._clock()
        return int(connection.execute(SQLITE_NOW if is_sqlite(connection) else POSTGRESQL_NOW).scalar_one())

    def close(self) -> None:
        self.engine.dispose()


def is_sqlite(engine: Engine | Connection) -> bool:
    return engine.dialect.name == "sqlite"


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
