"""Transactions on the catalog database with our own errors, and statements that differ between its engines."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Insert,
    RowMapping,
    Select,
    String,
    Table,
    TableValuedAlias,
    UpdateBase,
    any_,
    bindparam,
    column,
    event,
    exc,
    func,
    select,
    text,
)

from headrace.catalog.engines import BEGIN, BUSY_SECONDS, URL_HINT
from headrace.errors import ConfigurationError, DataError, Error, IntegrityError, InternalError, OperationalError
from headrace.model.conversion import from_row

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite
    from sqlalchemy.engine.interfaces import DBAPIConnection

Record = TypeVar("Record")
Value = TypeVar("Value")

# Not `now()`, which is the start of the transaction: it may have waited for a lock since.
MISSING: Final = ("no such column", "no such table", "has no column named")
"""What SQLite says of a table or column that is missing."""
MISSING_STATES: Final = ("42P01", "42703")
"""What PostgreSQL says of them."""
POSTGRESQL_NOW: Final = text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)")
SQLITE_NOW: Final = text("SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)")

TRANSIENT_STATES: Final = {
    "25P03": "has ended a transaction of this process, which was frozen",
    "25006": "accepts no changes: its server is read-only",
}
"""PostgreSQL's codes of internal errors that pass, and what they mean."""


SCHEMA_TABLES: Final = frozenset({"databases", "tables", "devices", "device_schemas", "device_templates", "template_paths", "ttls"})
"""The catalog's tables of what rows are written to."""
SUBTABLES: Final = "subtables"
"""Those that come do not count: only what was seen to exist is remembered."""
SCHEMA_CHANGED: Final = "schema_changed"
"""The name under which a connection notes that its transaction has changed some of them."""


class Store:
    """Transactions on one catalog database. `clock` replaces the database's own time, in epoch milliseconds.

    Attributes:
        before_schema_commit: Called at the end of a transaction that has changed tables of the schema, in the transaction.
        after_schema_commit: Called after its commit.
    """

    def __init__(self, engine: Engine, clock: Callable[[], int] | None = None) -> None:
        self.engine = engine
        self.before_schema_commit: Callable[[Connection], None] = lambda _: None
        self.after_schema_commit: Callable[[], None] = lambda: None
        self._clock = clock
        self._reads = engine.execution_options() if is_sqlite(engine) else engine.execution_options(isolation_level="AUTOCOMMIT")
        self._writes = engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"})
        self._watch = CommitWatch(engine) if is_sqlite(engine) else None
        event.listen(engine, "after_execute", _note_schema_change)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a read-only connection: one snapshot on SQLite, a snapshot per statement on PostgreSQL."""
        with translated(self.engine.url), self._reads.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a transaction that is committed at the end, or rolled back by an exception. SQLite has one writer at a time."""
        with translated(self.engine.url), self._writes.begin() as connection:
            connection.info[SCHEMA_CHANGED] = False
            yield connection
            if changes_schema := connection.info[SCHEMA_CHANGED]:
                self.before_schema_commit(connection)
        if changes_schema:
            self.after_schema_commit()

    def now(self, connection: Connection) -> int:
        """Return the database's time in epoch milliseconds: processes on several machines compare leases and heartbeats by it."""
        if self._clock is not None:
            return self._clock()
        return int(connection.execute(SQLITE_NOW if is_sqlite(connection) else POSTGRESQL_NOW).scalar_one())

    def commits(self) -> int | None:
        """Return a number that is another after each commit of any process; None if that costs as much as a query."""
        if self._watch is None:
            return None
        with translated(self.engine.url):
            return self._watch.number()

    def close(self) -> None:
        """Close the connection pool."""
        if self._watch is not None:
            self._watch.close()
        self.engine.dispose()


class CommitWatch:
    """Notices commits to a SQLite database by a connection that has none of its own. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mutex = threading.Lock()
        self._connection: DBAPIConnection | None = None

    def number(self) -> int:
        with self._mutex:
            if self._connection is None:
                pooled = self._engine.raw_connection()
                self._connection = pooled.dbapi_connection
                pooled.detach()
            assert self._connection is not None
            cursor = self._connection.cursor()
            cursor.execute("PRAGMA data_version")
            row = cursor.fetchone()
            cursor.close()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        with self._mutex:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class Repository:
    """A part of the catalog. Each call is a transaction of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _rows(self, query: Select[*tuple[Any, ...]]) -> Sequence[RowMapping]:
        with self._store.read() as connection:
            return connection.execute(query).mappings().all()

    def _all(self, kind: type[Record], query: Select[*tuple[Any, ...]]) -> list[Record]:
        return [from_row(kind, row) for row in self._rows(query)]

    def _scalar(self, query: Select[Value]) -> Value | None:
        """Return the only value of a query; None if it has no rows."""
        with self._store.read() as connection:
            return connection.scalar(query)


def _note_schema_change(connection: Connection, statement: object, *_: object) -> None:
    """Note in a connection that a statement has changed one of the schema's tables."""
    if isinstance(statement, UpdateBase) and isinstance(statement.table, Table):
        name, is_insert = statement.table.name, isinstance(statement, Insert)
        if name in SCHEMA_TABLES or (name == SUBTABLES and not is_insert):
            connection.info[SCHEMA_CHANGED] = True


def is_sqlite(engine: Engine | Connection) -> bool:
    """Return True for SQLite, False for PostgreSQL."""
    return engine.dialect.name == "sqlite"


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT with an ON CONFLICT clause. Only the dialect in use is imported, as each import is slow."""
    if is_sqlite(connection):
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)


def is_among(connection: Connection, among: ColumnElement[str], values: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that a column has one of many values, passed as a single parameter of unlimited size."""
    if is_sqlite(connection):
        return among.in_(select(as_rows(connection, values).c.value))
    from sqlalchemy.dialects import postgresql

    return among == any_(bindparam(None, list(values), type_=postgresql.ARRAY(String)))


def as_rows(connection: Connection, values: Sequence[str]) -> TableValuedAlias:
    """Return texts as rows of one column `value`, passed as a single parameter of unlimited size."""
    if is_sqlite(connection):
        return func.json_each(json.dumps(list(values))).table_valued(column("value", String))
    from sqlalchemy.dialects import postgresql

    array = bindparam(None, list(values), type_=postgresql.ARRAY(String))
    return func.unnest(array).table_valued(column("value", String)).render_derived()


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Translate errors of SQLAlchemy into ours."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise _translate(error, url) from error
    except UnicodeEncodeError as error:
        raise DataError(f"the catalog cannot hold the text {error.object!r}: {error.reason}") from error


def _translate(error: exc.SQLAlchemyError, url: URL) -> Error:
    location = url.render_as_string(hide_password=True)
    cause = str(getattr(error, "orig", None) or error).strip()
    match error:
        case exc.OperationalError() if "is locked" in cause:
            return OperationalError(
                f"the catalog is busy: another process has been writing to {location} for {BUSY_SECONDS} s",
                hint="try again; if it persists, look for a hanging process that holds the file",
            )
        case exc.OperationalError() | exc.ProgrammingError() if _is_missing(error, cause):
            return ConfigurationError(
                f"the catalog at {location} has other tables than this Headrace: {cause}",
                hint="a newer release may have migrated it since this process started; else restore it from a backup",
            )
        case exc.OperationalError() | exc.InterfaceError() | exc.TimeoutError():
            return OperationalError(
                f"the catalog at {location} cannot be used: {cause}", hint="check that its server is up and its folder writable"
            )
        case exc.InternalError() if (state := getattr(error.orig, "sqlstate", None)) in TRANSIENT_STATES:
            return OperationalError(f"the catalog at {location} {TRANSIENT_STATES[state]}", hint="wait: it may be failing over")
        case exc.IntegrityError():
            return IntegrityError(f"the catalog refused a change: {cause}")
        case exc.DataError():
            return DataError(f"the catalog cannot hold a value: {cause}")
        case exc.DatabaseError() if "not a database" in cause:
            return ConfigurationError(f"{location} is not a catalog: {cause}", hint=URL_HINT)
        case _:
            return InternalError(f"the catalog at {location} failed: {cause}")


def _is_missing(error: exc.DBAPIError, cause: str) -> bool:
    """Return whether an error says that a table or column is missing."""
    return getattr(error.orig, "sqlstate", None) in MISSING_STATES or any(text in cause for text in MISSING)
