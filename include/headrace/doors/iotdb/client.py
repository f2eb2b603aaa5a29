"""One client: its session, the results that it reads, and what its calls do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from headrace.doors.iotdb.grouping import write_alone
from headrace.doors.iotdb.results import ResultReader
from headrace.doors.iotdb.statuses import NOT_LOGGED_IN
from headrace.doors.iotdb.transfer_memory import RequestMemory
from headrace.errors import AuthenticationError, LimitError
from headrace.model.types import TypeKind

if TYPE_CHECKING:
    from headrace.compute import AnyPlan
    from headrace.doors.gate import DoorConnection, Gate
    from headrace.doors.iotdb.tablets import AnyTablet
    from headrace.model.connections import Origin
    from headrace.service.results import Result
    from headrace.service.rights import Right
    from headrace.service.session import Session
    from headrace.service.stage import Stage

DIALECT: Final = "iotdb"
MAX_RESULTS: Final = 100
"""Results that a client may have open at once."""


class Client:
    """The state of one connection. Its calls come one after the other."""

    def __init__(self, gate: Gate, origin: Origin, requests: RequestMemory | None = None) -> None:
        """Take what opens sessions, where the client comes from, and the memory that the requests of pipes share."""
        self.gate, self.origin = gate, origin
        self.requests = requests or RequestMemory()
        self._connection: DoorConnection | None = None
        self._statements, self._queries = itertools.count(1), itertools.count(1)
        self._results: dict[int, tuple[int, ResultReader]] = {}

    @property
    def is_logged_in(self) -> bool:
        """Whether the client has a session."""
        return self._connection is not None

    @property
    def owner(self) -> str:
        """Whose share of the server it takes: the user's, or that of the host if it has not logged in."""
        return self.origin.host if self._connection is None else f"user {self._connection.user}"

    @property
    def is_killed(self) -> bool:
        """Whether the connection has to end."""
        return self._connection is not None and self._connection.is_killed

    @property
    def connection(self) -> DoorConnection:
        """The session.

        Raises:
            AuthenticationError: The client has not logged in.
            OperationalError: The connection was killed.
        """
        if self._connection is None:
            raise AuthenticationError("Log in failed. Either you are not authorized or the session has timed out.").with_status(
                NOT_LOGGED_IN
            )
        self._connection.check_living()
        return self._connection

    @property
    def session(self) -> Session:
        """The session that runs statements."""
        return self.connection.session

    def log_in(self, user: str, password: str) -> DoorConnection:
        """Open a session in place of that which is open.

        Raises:
            AuthenticationError: User or password are wrong.
        """
        self.log_out()
        self._connection = self.gate.open(self.origin, user, password, DIALECT)
        return self._connection

    def log_out(self) -> None:
        """Close the session and its results."""
        for number in list(self._results):
            self.drop_result(number)
        self.requests.forget(self)
        if self._connection is not None:
            self.gate.close(self._connection)
            self._connection = None

    def leave(self) -> None:
        """End the query that runs for the client, which is gone."""
        if self._connection is not None:
            self._connection.abandon()

    def execute(self, sql: str) -> Result:
        """Run a statement."""
        return self.connection.execute(sql)

    def query(self, sql: str) -> tuple[Result, frozenset[str]]:
        """Run a statement like `execute`, and return the names of columns of its result that are declared as STRING too."""
        result, plan = self.connection.run(sql)
        return result, string_columns(plan)

    def run(self, described: str, rights: Sequence[Right], plan: Callable[[Session], Sequence[Stage]]) -> Result:
        """Plan and apply stages; `described` is what the list of connections shows, and `rights` are checked first."""
        return self.connection.apply(described, rights, plan)

    def write(self, described: str, tablets: Sequence[AnyTablet]) -> None:
        """Write tablets, all or none."""
        connection = self.connection
        with connection.statement(described):
            write_alone(connection.session, described, tablets)

    def begin(self, described: str) -> Session:
        """Note what others do for the client, and return the session whose rights apply."""
        connection = self.connection
        connection.note(described)
        return connection.session

    def open_statement(self) -> int:
        """Return the number of a statement of the client."""
        return next(self._statements)

    def keep(self, statement: int | None, reader: ResultReader) -> int:
        """Keep a result whose rows the client will ask for, and return its number.

        Raises:
            LimitError: Too many are open.
        """
        number = next(self._queries)
        if reader.has_more:
            if len(self._results) >= MAX_RESULTS:
                raise LimitError(f"{MAX_RESULTS} results are open", hint="close results that are not read to their end")
            if not self.requests.results.try_reserve(self.owner, reader.bytes):
                raise LimitError("too many results are open", hint="close results that are not read to their end")
            self._results[number] = (statement or 0, reader)
        return number

    def result(self, number: int) -> ResultReader | None:
        """Return a result with rows that were not read; None if there is none."""
        return self._results.get(number, (0, None))[1]

    def drop_result(self, number: int) -> None:
        """Forget a result. Idempotent."""
        _, reader = self._results.pop(number, (0, None))
        if reader is not None:
            self.requests.results.release(self.owner, reader.bytes)

    def drop_statement(self, statement: int) -> None:
        """Forget the results of a statement. Idempotent."""
        for number in [number for number, (own, _) in self._results.items() if own == statement]:
            self.drop_result(number)


def string_columns(plan: AnyPlan | None) -> frozenset[str]:
    """Return the columns of a query that are declared as STRING, which are stored as TEXT is."""
    return frozenset() if plan is None else frozenset(one.name for one in plan.outputs if one.type.kind is TypeKind.NCHAR)
