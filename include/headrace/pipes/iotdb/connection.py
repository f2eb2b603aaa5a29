"""A connection to an IoTDB server: calls of its RPC service, with a session that executes statements."""

from __future__ import annotations

import itertools
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TFramedTransport

from headrace.egress import AddressInfo, EgressPolicy, Endpoint, EndpointKind
from headrace.errors import OperationalError
from headrace.model.time import Precision
from headrace.pipes.iotdb import messages
from headrace.pipes.iotdb.statuses import check_status
from headrace.pipes.sinks.iotdb_thrift_options import ClusterOptions

MAX_FRAME_BYTES: Final = 512 << 20
CONNECT_TIMEOUT_MS: Final = 10_000
ANSWER_TIMEOUT_MS: Final = 60_000
ZONE: Final = "UTC"
VERSION: Final = {"version": "V_1_0"}
# Errors say what Thrift would log.
logging.getLogger("thrift").setLevel(logging.CRITICAL)

RPC_ERRORS: Final = (TException, OSError, EOFError, ValueError)
"""What Thrift raises when a connection breaks or the answer is damaged."""


class BrokenConnectionError(OperationalError):
    """A server cannot be reached, does not answer in time, or has closed the connection."""


@dataclass(frozen=True, slots=True)
class Node:
    """The address of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Login:
    """How to log in to the servers of a cluster.

    Attributes:
        user: The user.
        password: The user's password.
        tls: Encrypts connections; None for plain ones.
        timeout_ms: How long an answer may take.
        egress: What connections may reach; None for a client that a user has started.
    """

    user: str
    password: str
    tls: ssl.SSLContext | None = None
    timeout_ms: int = ANSWER_TIMEOUT_MS
    egress: EgressPolicy | None = None

    def __repr__(self) -> str:
        return f"Login(user={self.user!r})"


class _Transport(Protocol):
    def open(self) -> None: ...
    def close(self) -> None: ...
    def flush(self) -> None: ...


class Connection:
    """A connection with a session. It is not thread-safe: one call at a time."""

    def __init__(self, node: Node, login: Login) -> None:
        """Connect and log in.

        Raises:
            BrokenConnectionError: The server cannot be reached.
            ConfigurationError: User or password are wrong.
        """
        self.node = node
        self._numbers = itertools.count(1)
        socket = open_socket(node, login)
        self._transport: _Transport = TFramedTransport(socket, MAX_FRAME_BYTES)
        self._protocol: Any = TBinaryProtocolAccelerated(
            self._transport, string_length_limit=MAX_FRAME_BYTES, container_length_limit=MAX_FRAME_BYTES
        )
        self._is_open = True
        try:
            self._log_in(login)
        except BaseException:
            self.close()
            raise

    def _log_in(self, login: Login) -> None:
        opened = self.call(
            "openSession",
            messages.OpenSession(
                client_protocol=messages.PROTOCOL_VERSION,
                zoneId=ZONE,
                username=login.user,
                password=login.password,
                configuration=VERSION,
            ),
        )
        check_status(self.node, "log in", opened.status)
        self.session: int = opened.sessionId
        self.precision = Precision(self._properties().timestampPrecision)

    def _properties(self) -> Any:
        """Return what the server says of itself."""

        def read() -> messages.Message:
            properties = messages.ServerProperties()
            properties.read(self._protocol)
            return properties

        return self._exchange("getProperties", lambda: None, read)

    def call(self, method: str, request: messages.Message) -> Any:
        """Return the answer to a request. After an error the connection is closed.

        Raises:
            BrokenConnectionError: The connection broke, or the server did not answer in time.
        """
        field, kind = messages.METHODS[method]

        def write() -> None:
            self._protocol.writeFieldBegin("request", TType.STRUCT, field)
            request.write(self._protocol)

        def read() -> messages.Message:
            answer = kind()
            answer.read(self._protocol)
            return answer

        return self._exchange(method, write, read)

    def open_statement(self) -> int:
        """Return the number of a statement, which queries of the session have."""

        def write() -> None:
            self._protocol.writeFieldBegin("sessionId", TType.I64, 1)
            self._protocol.writeI64(self.session)

        return int(self._exchange("requestStatementId", write, self._protocol.readI64))

    def _exchange(self, method: str, write: Callable[[], None], read: Callable[[], Any]) -> Any:
        if not self._is_open:
            raise BrokenConnectionError(f"the connection to {self.node} is closed")
        try:
            self._send(method, write)
            return self._receive(method, read)
        except RPC_ERRORS as error:
            self.close()
            raise lost(self.node, error) from error

    def _send(self, method: str, write: Callable[[], None]) -> None:
        """Write a call with one argument."""
        protocol = self._protocol
        protocol.writeMessageBegin(method, TMessageType.CALL, next(self._numbers))
        protocol.writeStructBegin(method)
        write()
        protocol.writeFieldEnd()
        protocol.writeFieldStop()
        protocol.writeStructEnd()
        protocol.writeMessageEnd()
        self._transport.flush()

    def _receive(self, method: str, read: Callable[[], Any]) -> Any:
        """Read the answer to a call."""
        protocol = self._protocol
        _, kind, _ = protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            error = TApplicationException()
            error.read(protocol)
            protocol.readMessageEnd()
            raise error
        protocol.readStructBegin()
        _, field, _ = protocol.readFieldBegin()
        if field == TType.STOP:
            raise TApplicationException(TApplicationException.MISSING_RESULT, f"{method} gave no answer")
        answer = read()
        protocol.readFieldBegin()
        protocol.readMessageEnd()
        return answer

    def execute(self, statements: Sequence[str]) -> messages.Status:
        """Execute statements without results in order; return the status, which has one for each statement if some failed."""
        request = messages.Statements(sessionId=self.session, statements=list(statements))
        status: messages.Status = self.call("executeBatchStatement", request)
        return status

    def close(self) -> None:
        """Close the connection; the server ends its session."""
        self._is_open = False
        self._transport.close()


class PlainSocket(TSocket):  # type: ignore[misc]  # Thrift has no types
    """A socket that writes without copying the rest of the bytes after each part, and connects to addresses that are allowed."""

    egress: EgressPolicy | None = None

    def _resolveAddr(self) -> list[AddressInfo]:  # noqa: N802  # Thrift's name
        return super()._resolveAddr() if self.egress is None else self.egress.resolve(endpoint_of(self.host, self.port))

    def write(self, buff: bytes) -> None:
        """Write all bytes."""
        self.handle.sendall(buff)


class TlsSocket(PlainSocket, TSSLSocket):  # type: ignore[misc]  # Thrift has no types
    """The same with TLS. The name of the host is not compared: the trust store says which servers are trusted."""


def open_socket(node: Node, login: Login) -> Any:
    """Return a connected socket; raise `OperationalError` if the server cannot be reached."""
    if login.tls is None:
        socket = PlainSocket(node.host, node.port, socket_keepalive=True)
    else:
        socket = TlsSocket(node.host, node.port, ssl_context=login.tls, socket_keepalive=True, validate_callback=lambda *_: None)
    socket.setTimeout(CONNECT_TIMEOUT_MS)
    socket.egress = login.egress
    try:
        socket.open()
    except RPC_ERRORS as error:
        raise BrokenConnectionError(
            f"IoTDB at {node} cannot be reached: {reason(error)}", hint="check that the server runs"
        ) from error
    socket.setTimeout(login.timeout_ms)
    return socket


def endpoint_of(host: str, port: int) -> Endpoint:
    """Return the endpoint of a server."""
    return Endpoint.at(EndpointKind.IOTDB, host, port)


def login_of(options: ClusterOptions, egress: EgressPolicy, timeout_ms: int = ANSWER_TIMEOUT_MS) -> Login:
    """Return how to log in to a cluster; see `client_context` for the servers that a trust store has."""
    from headrace.pipes.iotdb.tls import client_context

    tls = client_context(egress.location(options.trust_store), options.trust_store_password) if options.has_tls else None
    return Login(options.user, options.password, tls, timeout_ms, egress)


def reason(error: BaseException) -> str:
    """Return what an error of the connection says, with what caused it."""
    inner = getattr(error, "inner", None)
    return str(inner or error) or type(error).__name__


def lost(node: Node, error: BaseException) -> BrokenConnectionError:
    """Return the error of a connection that broke."""
    return BrokenConnectionError(f"the connection to IoTDB at {node} broke: {reason(error)}", hint="check that the server runs")


def none_available(nodes: Sequence[Node], last: str = "") -> OperationalError:
    """Return the error that no server can be reached; the hint has the last reason."""
    listed = ", ".join(str(node) for node in nodes)
    hint = "check that they run, and their addresses"
    return OperationalError(f"All target servers [{listed}] are not available", hint=f"{hint}: {last}" if last else hint)
