"""What all doors share: who may come in, which connections are open, and how many may be."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.errors import LimitError, NotFoundError, OperationalError
from headrace.service.session import Session, with_statement

if TYPE_CHECKING:
    from headrace.compute import AnyPlan
    from headrace.context import Context
    from headrace.queries.running import RunningQueries
    from headrace.service.results import Result
    from headrace.service.rights import Authorizer

MAX_CONNECTIONS: Final = 10_000
Authenticate = Callable[[str, str], str]
"""Takes the name and password, or token, that a client sends, and returns the user. Raises `AuthenticationError`."""


class TooManyConnectionsError(LimitError, code=LimitError.code):
    """As many connections are open as may be."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a client comes from.

    Attributes:
        door: The door, such as `iotdb`.
        address: The address of the client, as host:port.
    """

    door: str
    address: str


@dataclass
class DoorConnection:
    """A client's session. Its statements run one after the other."""

    id: int
    origin: Origin
    session: Session
    opened: int
    sql: str = ""
    """The last statement."""
    is_killed: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def user(self) -> str:
        """The user whose rights apply."""
        return self.session.user

    def execute(self, sql: str) -> Result:
        """Run one statement.

        Raises:
            Error: The statement failed, or the connection was killed.
        """
        with self.lock:
            self.check()
            self.sql = sql
            return self.session.execute(sql)

    def run(self, sql: str) -> tuple[Result, AnyPlan | None]:
        """Run one statement like `execute`, and return the plan too if it is a query of rows: that has the declared types."""
        with self.lock:
            self.check()
            self.sql = sql
            with with_statement(sql):
                stages = self.session.stages(sql)
                return self.session.run(stages, sql), stages[-1].plan if stages else None

    def check(self) -> None:
        """Raise `OperationalError` if the connection was killed."""
        if self.is_killed:
            raise OperationalError("the connection was killed", hint="connect again")


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
        """Create a gate to a home; `queries` registers and limits the queries of all doors."""
        self.context = context
        self.authenticate = authenticate
        self._queries, self._authorizer, self._max_connections = queries, authorizer, max_connections
        self._numbers = itertools.count(1)
        self._connections: dict[int, DoorConnection] = {}
        self._lock = threading.Lock()

    def open(self, origin: Origin, user: str, password: str, dialect: str, database: str | None = None) -> DoorConnection:
        """Open a session.

        Raises:
            AuthenticationError: There is no such user, or the password is wrong.
            TooManyConnectionsError: Too many connections are open.
        """
        return self.open_as(origin, self.authenticate(user, password), dialect, database)

    def open_as(self, origin: Origin, user: str, dialect: str, database: str | None = None) -> DoorConnection:
        """Open a session of a user who is authenticated already."""
        session = self.create_session(user, database, dialect)
        connection = DoorConnection(next(self._numbers), origin, session, self.context.clock.now())
        with self._lock:
            if len(self._connections) >= self._max_connections:
                raise TooManyConnectionsError(
                    f"{self._max_connections} connections are open", hint="close some, or try again later"
                )
            self._connections[connection.id] = connection
        return connection

    def create_session(self, user: str, database: str | None, dialect: str) -> Session:
        """Return a session of a user who is authenticated already, for a request after which nothing stays open."""
        return Session(
            self.context, dialect, database, user=user, authorizer=self._authorizer, reads_files=False, queries=self._queries
        )

    def close(self, connection: DoorConnection) -> None:
        """Close a session. Idempotent."""
        with self._lock:
            is_open = self._connections.pop(connection.id, None) is not None
        if is_open:
            connection.session.close()

    def connections(self) -> list[DoorConnection]:
        """Return the open connections, oldest first."""
        with self._lock:
            return list(self._connections.values())

    def kill(self, id: int) -> None:
        """Have a connection end before its next statement.

        Raises:
            NotFoundError: It is not open.
        """
        with self._lock:
            connection = self._connections.pop(id, None)
        if connection is None:
            raise NotFoundError(f"there is no connection {id}", hint="SHOW CONNECTIONS lists them")
        connection.is_killed = True
