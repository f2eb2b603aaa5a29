"""What all doors share: who may come in, which connections are open, and how many may be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headrace.errors import LimitError, NotFoundError, OperationalError
from headrace.model.access import Principal
from headrace.model.connections import Origin
from headrace.runtime.http import Authenticate
from headrace.service.authorization import CatalogAuthorizer
from headrace.service.session import Session

if TYPE_CHECKING:
    from headrace.compute import AnyPlan
    from headrace.context import Context
    from headrace.model.connections import OpenConnection
    from headrace.queries.running import RunningQueries
    from headrace.service.results import Result
    from headrace.service.rights import Authorizer, Right
    from headrace.service.stage import Stage

MAX_CONNECTIONS: Final = 10_000


class TooManyConnectionsError(LimitError, code=LimitError.code):
    """As many connections are open as may be."""


@dataclass
class DoorConnection:
    """A client's session. Its statements run one after the other."""

    id: int
    origin: Origin
    session: Session
    opened: int
    used: int
    """When the last statement began."""
    sql: str = ""
    """The last statement."""
    is_killed: bool = False
    thread: int = 0
    """The thread that runs the statement; 0 between statements."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def user(self) -> str:
        """The user whose rights apply."""
        return self.session.user

    @property
    def door(self) -> str:
        """The door through which it came."""
        return self.origin.door

    @property
    def address(self) -> str:
        """The client's host:port."""
        return self.origin.address

    def execute(self, sql: str) -> Result:
        """Run one statement.

        Raises:
            Error: The statement failed, or the connection was killed.
        """
        with self.statement(sql):
            return self.session.execute(sql)

    def run(self, sql: str) -> tuple[Result, AnyPlan | None]:
        """Run one statement like `execute`, and return the plan too if it is a query of rows: that has the declared types."""
        with self.statement(sql):
            return self.session.execute_planned(sql)

    def apply(self, described: str, rights: Sequence[Right], make_stages: Callable[[Session], Sequence[Stage]]) -> Result:
        """Do what a client asks for without a statement; see `Session.apply`."""
        with self.statement(described):
            return self.session.apply(described, rights, lambda: make_stages(self.session))

    @contextmanager
    def statement(self, sql: str) -> Iterator[None]:
        """Note what this thread runs."""
        with self.lock:
            self.check_living()
            self.sql, self.used, self.thread = sql, self.session.context.clock.now(), threading.get_ident()
            try:
                yield
            finally:
                self.thread = 0

    def note(self, sql: str) -> None:
        """Note what others run for the client, without a thread of its own, once they have checked its rights.

        Raises:
            OperationalError: It was killed.
        """
        self.check_living()
        self.sql, self.used = sql, self.session.context.clock.now()

    def move(self, origin: Origin) -> None:
        """Note from where the client comes now."""
        self.origin = origin
        self.session.principal = replace(self.session.principal, origin=str(origin))

    def kill(self) -> None:
        """End the query that it runs, and let no other statement begin."""
        self.is_killed = True
        thread, queries = self.thread, self.session.queries
        if thread and queries is not None:
            queries.end_of_thread(thread, killed())

    def abandon(self) -> None:
        """End the query that it runs, since its client is gone. What it writes is written."""
        thread, queries = self.thread, self.session.queries
        if thread and queries is not None:
            queries.abandon(thread)

    def check(self) -> None:
        """Raise an error if nothing may be done any more.

        Raises:
            OperationalError: The connection was killed.
            AuthenticationError: The password that the client has logged in with is another one, or the user is gone.
        """
        self.check_living()
        self.session.context.permissions()

    def check_living(self) -> None:
        """Raise `OperationalError` if the connection was killed. Each statement checks that its user is not gone."""
        if self.is_killed:
            raise killed()


def killed() -> OperationalError:
    return OperationalError("the connection was killed", hint="connect again")


@contextmanager
def sharing_reads(context: Context) -> Iterator[None]:
    """Let what this thread writes in the block, gathered from many requests, share reads of the schema, and wait for no others."""
    with context.catalog.pins.pinned(), nullcontext() if context.group_commit is None else context.group_commit.gathered():
        yield


class Gate:
    """Opens sessions for those who prove who they are, and knows which are open. Thread-safe."""

    def __init__(
        self,
        context: Context,
        authenticate: Authenticate,
        queries: RunningQueries | None = None,
        authorizer: Authorizer | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """Create a gate to a home.

        `queries` registers and limits the queries of all doors. The default `authorizer` goes by the grants of the catalog.
        """
        self.context = context
        self.authenticate = authenticate
        self._queries, self._max_connections = queries, max_connections
        self._authorizer = authorizer or CatalogAuthorizer(context.catalog)

    def open(self, origin: Origin, user: str, password: str, dialect: str, database: str | None = None) -> DoorConnection:
        """Open a session.

        Raises:
            AuthenticationError: There is no such user, or the password is wrong.
            TooManyConnectionsError: Too many connections are open.
        """
        return self.open_as(origin, self.authenticate(user, password, origin), dialect, database)

    def open_as(self, origin: Origin, principal: Principal, dialect: str, database: str | None = None) -> DoorConnection:
        """Open a session of a principal who is authenticated already."""
        session = self.create_session(replace(principal, origin=str(origin)), database, dialect)
        now, open_connections = self.context.clock.now(), self.context.connections
        connection = DoorConnection(open_connections.next_id(), origin, session, now, now)
        if not open_connections.add(connection, self._max_connections):
            raise TooManyConnectionsError(f"{self._max_connections} connections are open", hint="close some, or try again later")
        return connection

    def create_session(self, principal: Principal, database: str | None, dialect: str) -> Session:
        """Return a session of a principal who is authenticated already, for a request after which nothing stays open."""
        return Session(
            self.context,
            dialect,
            database,
            principal=principal,
            authorizer=self._authorizer,
            reads_files=False,
            queries=self._queries,
        )

    def abandon(self, thread: int) -> bool:
        """End the query that a thread runs, since its client is gone; return False if it runs none."""
        return self._queries is not None and self._queries.abandon(thread)

    def close(self, connection: DoorConnection) -> None:
        """Close a session. Idempotent."""
        if self.context.connections.remove(connection.id) is not None:
            connection.session.close()

    def connections(self) -> list[OpenConnection]:
        """Return the open connections, oldest first."""
        return self.context.connections.all()

    def kill(self, id: int) -> None:
        """Have a connection end its query, and run no other statement.

        Raises:
            NotFoundError: It is not open.
        """
        if not self.context.connections.kill(id):
            raise NotFoundError(f"there is no connection {id}", hint="SHOW CONNECTIONS lists them")
