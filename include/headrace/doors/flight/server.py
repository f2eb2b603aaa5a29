"""The server of Flight SQL: which call means what."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

import pyarrow as pa
import pyarrow.flight as flight

from headrace.doors.flight.errors import with_flight_errors
from headrace.doors.flight.front import Front
from headrace.doors.flight.limits import FlightLimits, limited
from headrace.doors.flight.logins import LoginFactory, Logins, NoHandshake
from headrace.doors.flight.metadata import METADATA
from headrace.doors.flight.statements import ClientStatements, parameter_rows
from headrace.doors.gate import DoorConnection
from headrace.errors import NotSupportedError, OperationalError
from headrace.runtime.flight_sql import (
    CANCELED,
    CLOSED,
    NOT_CANCELABLE,
    decode_command,
    decode_request,
    encode,
    encode_command,
    schema_bytes,
)
from headrace.service.connection import Connection

P = ParamSpec("P")
T = TypeVar("T")
BATCH_ROWS: Final = 65_536
ACTIONS: Final = {
    "CreatePreparedStatement": "prepares a statement",
    "ClosePreparedStatement": "forgets a prepared statement",
    "CancelQuery": "drops a result",
    "CancelFlightInfo": "drops a result",
    "CloseSession": "closes the connection",
}


def as_call(method: Callable[P, T]) -> Callable[P, T]:
    """Have a method of the server run as one of the calls of its user, once it is known who that is."""

    @wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        server, context = cast(FlightSqlServer, args[0]), cast(Any, args[1])
        call, peer = context.get_middleware("login"), context.peer()
        connection = server._logins.enter(call.login, server._front.address_of(peer), call.forwarded)
        server._front.log_in(peer, connection.user)
        with server._limits.call(connection.user):
            return method(*args, **kwargs)

    return run


class FlightSqlServer(flight.FlightServerBase):  # type: ignore[misc]
    """Answers the calls of clients, each on a connection of its user."""

    def __init__(self, front: Front, logins: Logins) -> None:
        """Listen behind a front, which is not started yet."""
        self._front, self._logins = front, logins
        self._limits = FlightLimits()
        self._clients: dict[str, ClientStatements] = {}
        self._lock = threading.Lock()
        middleware = {"login": LoginFactory(logins)}
        super().__init__(f"grpc+unix://{front.server_path}", auth_handler=NoHandshake(), middleware=middleware)

    @with_flight_errors
    @as_call
    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """Run a query, and say how its rows are fetched."""
        name, command = decode_command(descriptor.command or b"")
        client = self._client(context)
        if name in METADATA:
            return flight_info(METADATA[name](client.connection, command).schema, descriptor, descriptor.command, -1)
        if name == "CommandStatementQuery":
            handle, table = client.run(command.query)
        elif name == "CommandPreparedStatementQuery":
            handle, table = client.run_prepared(command.prepared_statement_handle)
        else:
            raise not_supported(name)
        ticket = encode_command("TicketStatementQuery", statement_handle=handle)
        return flight_info(table.schema, descriptor, ticket, table.num_rows)

    @with_flight_errors
    @as_call
    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """Return the columns of a query or of metadata."""
        name, command = decode_command(descriptor.command or b"")
        client = self._client(context)
        if name in METADATA:
            return flight.SchemaResult(METADATA[name](client.connection, command).schema)
        if name != "CommandStatementQuery":
            raise not_supported(name)
        handle, _, schema = client.prepare(command.query)
        client.unprepare(handle)
        return flight.SchemaResult(schema)

    @with_flight_errors
    @as_call
    def do_get(self, context: Any, ticket: Any) -> Any:
        """Send rows."""
        name, command = decode_command(ticket.ticket)
        client = self._client(context)
        if name in METADATA:
            table = METADATA[name](client.connection, command)
        elif name == "TicketStatementQuery":
            table = client.take(command.statement_handle)
        else:
            raise not_supported(name)
        return flight.RecordBatchStream(table.to_reader(BATCH_ROWS))

    @with_flight_errors
    @as_call
    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Take a statement that changes something, parameters of a prepared one, or rows to write."""
        with self._front.whole(context.peer()) as check:
            self._put(self._client(context), descriptor, reader, checked(reader, context, check), writer)

    def _put(self, client: ClientStatements, descriptor: Any, reader: Any, batches: Iterator[pa.RecordBatch], writer: Any) -> None:
        name, command = decode_command(descriptor.command or b"")
        if name == "CommandStatementUpdate":
            affected = client.connection.execute(command.query).affected
        elif name == "CommandPreparedStatementUpdate":
            affected = client.update_prepared(command.prepared_statement_handle, parameter_rows(limited(batches)))
        elif name == "CommandPreparedStatementQuery":
            client.bind(command.prepared_statement_handle, limited(batches))
            # Clients continue with the handle of the answer, also if it is empty.
            handle = command.prepared_statement_handle
            writer.write(pa.py_buffer(encode("DoPutPreparedStatementResult", prepared_statement_handle=handle)))
            return
        elif name == "CommandStatementIngest":
            affected = ingest(client.connection, command, pa.RecordBatchReader.from_batches(reader.schema, batches), self._limits)
        else:
            raise not_supported(name)
        writer.write(pa.py_buffer(encode("DoPutUpdateResult", record_count=affected)))

    @with_flight_errors
    @as_call
    def do_action(self, context: Any, action: Any) -> Any:
        """Run an action; see `ACTIONS`."""
        actions: dict[str, Callable[[Any, bytes], bytes | None]] = {
            "CreatePreparedStatement": self._prepare,
            "ClosePreparedStatement": self._unprepare,
            "CancelQuery": self._cancel_query,
            "CancelFlightInfo": self._cancel_info,
            "CloseSession": self._close_session,
        }
        if action.type not in actions:
            raise not_supported(action.type)
        response = actions[action.type](context, action.body.to_pybytes())
        return iter([] if response is None else [flight.Result(pa.py_buffer(response))])

    def list_actions(self, context: Any) -> Iterator[tuple[str, str]]:  # noqa: ARG002
        """Return the actions."""
        return iter(ACTIONS.items())

    def _client(self, context: Any) -> ClientStatements:
        login = context.get_middleware("login").login
        with self._lock:
            client = self._clients.get(login.token)
            if client is None:
                for token in [token for token in self._clients if not self._logins.is_open(token)]:
                    self._clients.pop(token).close()
                client = self._clients[login.token] = ClientStatements(login.connection, self._limits.waiting)
        return client

    def _prepare(self, context: Any, body: bytes) -> bytes:
        request = decode_request("ActionCreatePreparedStatementRequest", body)
        handle, prepared, schema = self._client(context).prepare(request.query)
        names = [str(number + 1) for number in range(len(prepared.template.spans))]
        return encode_command(
            "ActionCreatePreparedStatementResult",
            prepared_statement_handle=handle,
            dataset_schema=schema_bytes(schema) if prepared.reads else b"",
            # A text becomes a value of the type that is needed. JDBC binds nothing to a type that is unknown.
            parameter_schema=schema_bytes(pa.schema([(name, pa.string()) for name in names])),
        )

    def _unprepare(self, context: Any, body: bytes) -> None:
        request = decode_request("ActionClosePreparedStatementRequest", body)
        self._client(context).unprepare(request.prepared_statement_handle)

    def _cancel_query(self, context: Any, body: bytes) -> bytes:
        return encode("ActionCancelQueryResult", result=self._drop(context, decode_request("ActionCancelQueryRequest", body).info))

    def _cancel_info(self, context: Any, body: bytes) -> bytes:
        return encode("CancelFlightInfoResult", status=self._drop(context, decode_request("CancelFlightInfoRequest", body).info))

    def _drop(self, context: Any, info: bytes) -> int:
        client = self._client(context)
        commands = [decode_command(endpoint.ticket.ticket) for endpoint in flight.FlightInfo.deserialize(info).endpoints]
        dropped = [client.drop(command.statement_handle) for name, command in commands if name == "TicketStatementQuery"]
        return CANCELED if any(dropped) else NOT_CANCELABLE

    def _close_session(self, context: Any, _body: bytes) -> bytes:
        token = context.get_middleware("login").login.token
        self._logins.close(token)
        with self._lock:
            client = self._clients.pop(token, None)
        if client is not None:
            client.close()
        return encode("CloseSessionResult", status=CLOSED)


def flight_info(schema: pa.Schema, descriptor: Any, ticket: bytes, rows: int) -> Any:
    """Return what a client needs to fetch rows from the server that it has asked."""
    return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(ticket, [])], rows, -1)


def not_supported(name: str) -> NotSupportedError:
    """Return the error for a command that is none of ours."""
    return NotSupportedError(f"{name} is not supported", hint="use statements, prepared statements, or ingestion into tables")


def checked(reader: Any, context: Any, check: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a client sends; raise an error unless they are all that it has sent."""
    for chunk in reader:
        yield chunk.data
    check()
    if context.is_cancelled():
        raise OperationalError("the client has canceled the call", hint="send all rows")


def ingest(connection: DoorConnection, command: Any, reader: pa.RecordBatchReader, limits: FlightLimits) -> int:
    """Write rows into the table that a command names; return their number. Columns are matched by name.

    Raises:
        NotSupportedError: The table would be temporary.
        NotFoundError: There is no such table.
        DataError: A value is invalid; nothing has been written.
        LimitError: There are too many.
    """
    if command.temporary:
        raise NotSupportedError("there are no temporary tables", hint="name a table that exists")
    database = command.schema or connection.session.database
    table = f"{database}.{command.table}" if database else command.table
    with connection.lock, limits.received(connection.user, reader) as rows:
        connection.check()
        connection.sql = f"append to {table}"
        opened = Connection(connection.session)
        # Before rows are received, for which there may be gigabytes of files.
        opened.check_load(table)
        return opened.append(rows, table)
