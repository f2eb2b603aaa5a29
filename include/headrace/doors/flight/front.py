"""The front between the clients of Flight and Arrow's server, which takes all that it is sent before it knows who sends it.

Arrow's server listens on a Unix socket in a folder that only this user's processes reach. Clients connect to the front, which
encrypts, counts connections, and looks at what they send.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

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
FOLDER_PREFIX: Final = "headrace-flight-"
SERVER: Final = "server"
"""The name of the socket of Arrow's server, in a folder of its own."""
PROBE_S: Final = 1.0
STARTING_S: Final = 60.0
"""How long a server may take from its socket until it listens."""
CHUNK_BYTES: Final = 256 << 10
"""What is read at once."""


class Front:
    """Accepts the connections of clients, in a thread of its own. Methods are thread-safe."""

    def __init__(self, options: DoorOptions, max_connections: int) -> None:
        """Take where to listen."""
        self.strangers = Budget(MAX_STRANGER_BYTES, MAX_STRANGER_BYTES // 4)
        self.messages = Budget(MAX_LARGE_BYTES, MAX_LARGE_BYTES // 2)
        self._options, self._max_connections = options, max_connections
        remove_dead_sockets()
        self._folder = tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, ignore_cleanup_errors=True)
        self._loop = uvloop.new_event_loop()
        self._stopping, self._has_started = asyncio.Event(), threading.Event()
        self._clients: dict[str, Client] = {}
        self._numbers = count()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="flight-front", daemon=True)

    @property
    def server_path(self) -> str:
        """The socket at which Arrow's server listens."""
        return str(Path(self._folder.name) / SERVER)

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
            stranger = next((path for path, one in self._clients.items() if not one.user), None)
            if stranger is None:
                return None
            self._clients[stranger].abort("others connect")
            self.forget(stranger)
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
        server = await asyncio.start_server(
            lambda reader, writer: Client(self, reader, writer).serve(), sock=self._socket, ssl=self._tls, backlog=BACKLOG
        )
        self._has_started.set()
        await self._stopping.wait()
        server.close()
        for client in list(self._clients.values()):
            client.abort("the door closes")


def path_of(peer: str) -> str:
    """Return the path of a socket that Arrow's server knows as a peer, such as `unix:/tmp/x/7`."""
    return peer.removeprefix("unix:")


class Client:
    """The connection of a client. It is connected to Arrow's server once it has sent something of HTTP/2."""

    def __init__(self, front: Front, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Create a connection that has not been accepted yet."""
        self.user, self.address = "", peer_name(writer.transport)
        self.refusals = 0
        self.refusal: RefusedError | None = None
        self.is_gone = False
        self._front, self._reader, self._writer = front, reader, writer
        self._requests = Requests(self._hold, self._refuse)
        self._task: asyncio.Task[None] | None = None
        self._returning: asyncio.Task[None] | None = None
        self._server: asyncio.StreamWriter | None = None
        self._received, self._reserved = 0, 0
        self._login = asyncio.Event()

    async def serve(self) -> None:
        """Send on what client and server send, until one of them ends."""
        self._task, path = asyncio.current_task(), self._front.accept(self)
        try:
            if path is None:
                raise NotFlightError("too many are open")
            await self._send_on(path)
        except NotFlightError as error:
            logger.warning("closing a connection of %s: %s", self.address, error)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._end()
            if path is not None:
                self._front.forget(path)

    def abort(self, reason: str) -> None:
        """End the connection."""
        logger.warning("closing a connection of %s: %s", self.address, reason)
        if self._task is not None:
            self._task.cancel()

    def resume(self) -> None:
        """Send on what has waited for the login."""
        self._give_back()
        self._login.set()

    async def _send_on(self, path: str) -> None:
        while data := await self._reader.read(CHUNK_BYTES):
            await self._admit(len(data))
            ready = self._requests.feed(data)
            if ready and self._server is None:
                self._server = await self._connect(path)
            if self._server is not None:
                self._server.write(ready)
                await self._server.drain()

    async def _return(self, server: asyncio.StreamReader) -> None:
        """Send the client what the server sends."""
        with suppress(OSError):
            while data := await server.read(CHUNK_BYTES):
                self._writer.write(data)
                await self._writer.drain()
        self._writer.close()

    async def _admit(self, size: int) -> None:
        """Reserve memory for what a client sends that has not logged in, or wait until it has."""
        self._received += size
        while not self.user and self._received > FREE_BYTES + self._reserved:
            if self._reserved < MAX_LOGIN_BYTES and self._front.strangers.try_reserve(self._host, RESERVED_BYTES):
                self._reserved += RESERVED_BYTES
                continue
            try:
                await asyncio.wait_for(self._login.wait(), LOGIN_TIMEOUT_S)
            except TimeoutError:
                raise NotFlightError("it does not log in") from None

    async def _connect(self, path: str) -> asyncio.StreamWriter:
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        try:
            connection.bind(path)
            await asyncio.get_running_loop().sock_connect(connection, self._front.server_path)
            reader, writer = await asyncio.open_unix_connection(sock=connection)
        except OSError as error:
            connection.close()
            raise NotFlightError(f"the server cannot be reached: {error}") from None
        self._returning = asyncio.create_task(self._return(reader))
        return writer

    @property
    def _host(self) -> str:
        return self.address.rpartition(":")[0]

    def _hold(self, size: int) -> AbstractContextManager[None]:
        error = RefusedError("too many rows are sent at the same time", "try again later")
        return self._front.messages.at_once(self.user or self.address, size, error)

    def _refuse(self, error: RefusedError) -> None:
        self.refusal = error
        self.refusals += 1

    def _give_back(self) -> None:
        if self._reserved:
            self._front.strangers.release(self._host, self._reserved)
        self._reserved = 0

    def _end(self) -> None:
        """End both connections, and give memory back. The server may not see the end before it is known that the client is gone."""
        self.is_gone = True
        self._requests.close()
        self._give_back()
        if self._returning is not None:
            self._returning.cancel()
        if self._server is not None:
            self._server.transport.abort()
        self._writer.transport.abort()


def remove_dead_sockets() -> None:
    """Remove the folders of servers that were killed: no process listens at their sockets."""
    for path in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*/{SERVER}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(PROBE_S)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                if time.time() - path.parent.stat().st_mtime > STARTING_S:
                    shutil.rmtree(path.parent, ignore_errors=True)
            except OSError:  # of another user, or gone
                continue
