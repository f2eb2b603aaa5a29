"""Engines of PostgreSQL whose connections never wait without end for a server that hangs, or for a host that has vanished."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import ConnectionTimeout, _WaitTimeout
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext

from headrace.catalog.processes import process_name
from headrace.catalog.rows.metadata import SCHEMA

T = TypeVar("T")

CONNECT_SECONDS: Final = 10
STATEMENT_SECONDS: Final = 30
"""No statement of the catalog takes nearly as long, except migrations."""
SILENCE_SECONDS: Final = 5
"""The pause between attempts to connect to a server that does not answer."""
NAME_BYTES: Final = 63
"""Length to which PostgreSQL truncates an application name, which ends in the process id."""
READ_ONLY: Final = "25006"
"""PostgreSQL's code for a change on a server that is read-only, as a former primary is after a failover."""

# Settings of every session. A machine that vanishes loses its connections, and so its locks, within a minute. A process that
# freezes within a transaction, such as the renewal of its lease, loses its locks sooner: no transaction waits for other work.
SESSION: Final = {
    "search_path": SCHEMA,
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "idle_in_transaction_session_timeout": "10s",
    "statement_timeout": f"{STATEMENT_SECONDS}s",
}

# The same in the other direction: when this process gives up a server that has vanished without closing its connections.
CLIENT: Final = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed if the server does not answer a statement in time."""

    is_bounded = True

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Wait for the answer to a statement."""
        limit = STATEMENT_SECONDS if timeout is None and self.is_bounded else timeout
        try:
            return super().wait(gen, interval, limit)
        except _WaitTimeout:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"the server has not answered for {limit:g} s") from None


class Connector:
    """Connects to a server. While it does not answer, one thread at a time waits for it, and the others get an error at once."""

    def __init__(self) -> None:
        self._silence = ""
        self._next_attempt = 0.0

    def connect(self, *arguments: Any, **parameters: Any) -> BoundedConnection:
        """Open a connection."""
        if self._silence:
            if time.monotonic() < self._next_attempt:
                raise psycopg.OperationalError(self._silence)
            self._postpone()
        try:
            connection = BoundedConnection.connect(*arguments, **parameters)
        except ConnectionTimeout:
            self._silence = "the server does not answer"
            self._postpone()
            raise
        self._silence = ""
        return connection

    def _postpone(self) -> None:
        self._next_attempt = time.monotonic() + SILENCE_SECONDS


def postgresql_engine(url: URL) -> Engine:
    options = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
    arguments: dict[str, Any] = {
        "application_name": f"headrace {process_name()}"[-NAME_BYTES:],
        "options": f"{url.query.get('options', '')} {options}",
        **{name: value for name, value in CLIENT.items() if name not in url.query},
    }
    engine = create_engine(url, connect_args=arguments, pool_pre_ping=True, max_overflow=-1)
    connector = Connector()
    event.listen(engine, "do_connect", lambda _dialect, _record, cargs, cparams: connector.connect(*cargs, **cparams))
    event.listen(engine, "handle_error", _leave_read_only_server)
    return engine


def _leave_read_only_server(context: ExceptionContext) -> None:
    """Give up all connections to a server that has become read-only: a new one may reach the new primary."""
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True


@contextmanager
def unbounded(connection: Connection) -> Iterator[None]:
    """Let the statements of a transaction take as long as they need."""
    raw = connection.connection.driver_connection
    assert isinstance(raw, BoundedConnection)
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
    raw.is_bounded = False
    try:
        yield
    finally:
        raw.is_bounded = True
