"""The front between the clients of Flight and Arrow's server, which takes all that it is sent before it knows who sends it.

Arrow's server listens on a Unix socket in a folder that only this user's processes reach. Clients connect to the front, which
encrypts, counts connections, and looks at what they send.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final, cast

import uvloop

from headrace.doors.flight.messages import RefusedError
from headrace.doors.flight.requests import NotFlightError, Requests
from headrace.doors.options import DoorOptions
from headrace.doors.sockets import allow_files, peer_name
from headrace.errors import LimitError, OperationalError
from headrace.runtime.budget import Budget
from headrace.runtime.http_server import bind
from headrace.runtime.tls import server_context

logger = logging.getLogger(__name__)

BACKLOG: Final = 1024
SETTING: Final = "HEADRACE_FLIGHT_PORT"
FILES_PER_CONNECTION: Final = 3
"""Sockets of this process: of the client, to Arrow's server, and of Arrow's server."""
STOP_S: Final = 5.0
LOGIN_TIMEOUT_S: Final = 60.0
"""How long a client that has not logged in waits with what it sends beyond its share; then the connection ends."""
FREE_BYTES: Final = 64 << 10
"""What a client may send before the login without a reservation of memory."""
RESERVED_BYTES: Final = 1 << 20
"""What clients that have not logged in reserve at a time."""
MAX_LOGIN_BYTES: Final = 16 << 20
"""What one connection may send before the login."""
MAX_STRANGER_BYTES: Final = 256 << 20
"""What all clients may send before the login, of which an address has a quarter."""
MAX_LARGE_BYTES: Final = 2 << 30
"""Messages beyond a MiB that are received at once, of which a user has half."""
ALPN: Final = "h2"


class Front:
    """Accepts the connections of clients, in a thread of its own. Methods are thread-safe."""

    def __init__(self, options: DoorOptions, max_connections: int) -> None:
        """Take where to listen."""
        self.strangers = Budget(MAX_STRANGER_BYTES, MAX_STRANGER_BYTES // 4)
        self.messages = Budget(MAX_LARGE_BYTES, MAX_LARGE_BYTES // 2)
        self._options, self._max_connections = options, max_connections
        self._folder = tempfile.TemporaryDirectory(prefix="headrace-flight-", ignore_cleanup_errors=True)
        self._loop = uvloop.new_event_loop()
        self._stopping, self._has_started = asyncio.Event(), threading.Event()
        self._clients: dict[str, Client] = {}
        self._numbers = count()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="flight-front", daemon=True)

    @property
    def server_path(self) -> str:
        """The socket at which Arrow's server listens."""
        return str(Path(self._folder.name) / "server")

    @property
    def port(self) -> int:
        """The port at which clients connect."""
        return self._options.port if self._socket is None else int(self._socket.getsockname()[1])

    def start(self) -> None:
        """Accept connections.

        Raises:
            ConfigurationError: The port cannot be bound, or the certificate cannot be read.
        """
        self._tls = server_context(self._options.certificate, self._options.key, [ALPN])
        self._socket = bind(self._options.host, self._options.port, SETTING, BACKLOG)
        allow_files(self._max_connections * FILES_PER_CONNECTION)
        self._thread.start()
        self._has_started.wait()

    def stop(self) -> None:
        """End all connections."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(STOP_S)
        self._folder.cleanup()

    def address_of(self, peer: str) -> str:
        """Return the host:port of the client that Arrow's server knows as a peer; empty if it is gone."""
        client = self._clients.get(path_of(peer))
        return "" if client is None else client.address

    def log_in(self, peer: str, user: str) -> None:
        """Note that a client has logged in, so that it may send more."""
        client = self._clients.get(path_of(peer))
        if client is not None and client.user != user:
            client.user = user
            self._loop.call_soon_threadsafe(client.resume)

    @contextmanager
    def whole(self, peer: str) -> Iterator[Callable[[], None]]:
        """Yield what raises an error if not all was received that a client has sent since the block began.

        Arrow takes for the end of the rows whatever ends a call. If something was refused, that is the error of the block.

        Raises:
            LimitError: Something was refused.
            OperationalError: The client is gone.
        """
        client = self._clients.get(path_of(peer))
        before = 0 if client is None else client.refusals

        def check() -> None:
            if client is None or client.is_gone:
                raise OperationalError("the client has ended the connection", hint="send all rows")
            if client.refusal is not None and client.refusals > before:
                raise LimitError(client.refusal.message, hint=client.refusal.hint)

        try:
            yield check
        except Exception:
            check()
            raise

    def accept(self, client: Client) -> str | None:
        """Note a connection, if need be in place of the oldest that has not logged in.

        Returns the path of its socket to the server, or None if too many are open.
        """
        if len(self._clients) >= self._max_connections:
            logger.warning("closing a connection: %d are open", len(self._clients))
            stranger = next((one for one in self._clients.values() if not one.user), None)
            if stranger is None:
                return None
            stranger.abort("others connect")
        path = str(Path(self._folder.name) / str(next(self._numbers)))
        self._clients[path] = client
        return path

    def forget(self, path: str) -> None:
        """Note that a connection has ended."""
        self._clients.pop(path, None)
        Path(path).unlink(missing_ok=True)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await self._loop.create_server(lambda: Client(self), sock=self._socket, ssl=self._tls, backlog=BACKLOG)
        self._has_started.set()
        await self._stopping.wait()
        server.close()
        for client in list(self._clients.values()):
            client.abort("the door closes")


def path_of(peer: str) -> str:
    """Return the path of a socket that Arrow's server knows as a peer, such as `unix:/tmp/x/7`."""
    return peer.removeprefix("unix:")


class Client(asyncio.Protocol):
    """The connection of a client. It is connected to Arrow's server once it has sent something of HTTP/2."""

    def __init__(self, front: Front) -> None:
        """Create a connection that has not been accepted yet."""
        self.user, self.address = "", ""
        self.refusals = 0
        self.refusal: RefusedError | None = None
        self._front = front
        self._requests = Requests(self, self._refuse)
        self._transport: asyncio.Transport | None = None
        self._server: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._path: str | None = None
        self._waiting = bytearray()
        """What has been looked at, and waits for the login or the connection to the server."""
        self._sent, self._reserved = 0, 0
        self._held, self._owner = 0, ""
        """The bytes of messages for which there is memory, and whose share that is."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_full = False
        """Whether the server reads more slowly than the client sends."""
        self.is_gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, unless too many are open."""
        self._transport, self.address = cast(asyncio.Transport, transport), peer_name(transport)
        self._path = self._front.accept(self)
        if self._path is None:
            self.abort("too many are open")

    def data_received(self, data: bytes) -> None:
        """Look at what the client sends, and send it on."""
        try:
            self._waiting += self._requests.feed(data)
        except NotFlightError as error:
            self.abort(str(error))
            return
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """End the connection to the server."""
        self.is_gone = True
        self._requests.close()
        self._give_back()
        if self._timer is not None:
            self._timer.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._server is not None:
            self._server.abort()
        if self._path is not None:
            self._front.forget(self._path)

    def pause_writing(self) -> None:
        """Read no more of the server: the client reads too slowly."""
        if self._server is not None:
            self._server.pause_reading()

    def resume_writing(self) -> None:
        """Read more of the server."""
        if self._server is not None:
            self._server.resume_reading()

    def try_reserve(self, size: int) -> bool:
        """Reserve memory for a message."""
        if not self._held:
            self._owner = self.user or self.address
        is_reserved = self._front.messages.try_reserve(self._owner, size)
        self._held += size if is_reserved else 0
        return is_reserved

    def release(self, size: int) -> None:
        """Give memory of a message back."""
        self._held -= size
        self._front.messages.release(self._owner, size)

    def abort(self, reason: str) -> None:
        """End the connection."""
        logger.warning("closing a connection of %s: %s", self.address, reason)
        if self._path is not None:
            self._front.forget(self._path)
        if self._transport is not None:
            self.is_gone = True
            self._transport.abort()

    def resume(self) -> None:
        """Send on what has waited for the login."""
        self._give_back()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._send()

    def hold(self, *, is_full: bool) -> None:
        """Note whether the server reads more slowly than the client sends."""
        self._is_full = is_full
        self._set_reading()

    def receive(self, data: bytes) -> None:
        """Send the client what the server sends."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """End the connection as the server does."""
        if self._transport is not None:
            self._transport.close()

    def _refuse(self, error: RefusedError) -> None:
        self.refusal = error
        self.refusals += 1

    def _send(self) -> None:
        """Send on what may be sent."""
        if self._waiting and self._connecting is None:
            self._connecting = self._front._loop.create_task(self._connect())
        if self._waiting and self._server is not None and (self.user or self._may_send(len(self._waiting))):
            self._server.write(bytes(self._waiting))
            self._waiting.clear()
        self._set_reading()

    def _may_send(self, size: int) -> bool:
        """Reserve memory for what a client that has not logged in sends; return False if it has to wait."""
        wanted = self._sent + size
        while wanted > FREE_BYTES + self._reserved:
            host = self.address.rpartition(":")[0]
            if self._reserved >= MAX_LOGIN_BYTES or not self._front.strangers.try_reserve(host, RESERVED_BYTES):
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(LOGIN_TIMEOUT_S, self.abort, "it does not log in")
                return False
            self._reserved += RESERVED_BYTES
        self._sent = wanted
        return True

    def _give_back(self) -> None:
        if self._reserved:
            self._front.strangers.release(self.address.rpartition(":")[0], self._reserved)
        self._reserved = 0

    def _set_reading(self) -> None:
        """Read more of the client, unless what it has sent waits."""
        if self._transport is None or self._transport.is_closing():
            return
        wants = not (self._is_full or self._waiting)
        if wants and not self._transport.is_reading():
            self._transport.resume_reading()
        elif not wants and self._transport.is_reading():
            self._transport.pause_reading()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        try:
            connection.bind(str(self._path))
            await loop.sock_connect(connection, self._front.server_path)
            transport, _ = await loop.create_unix_connection(lambda: Server(self), sock=connection)
        except OSError as error:
            connection.close()
            self.abort(f"the server cannot be reached: {error}")
            return
        self._server = transport
        self._send()


class Server(asyncio.Protocol):
    """The connection of a client to Arrow's server."""

    def __init__(self, client: Client) -> None:
        """Create it for a client."""
        self._client = client

    def data_received(self, data: bytes) -> None:
        """Send it to the client."""
        self._client.receive(data)

    def pause_writing(self) -> None:
        """Have the client wait."""
        self._client.hold(is_full=True)

    def resume_writing(self) -> None:
        """Take more of the client."""
        self._client.hold(is_full=False)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """End the client's connection, too."""
        self._client.close()
