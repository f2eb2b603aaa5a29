"""The server of the door: one thread reads frames of all connections, and pools of others handle calls."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

import uvloop

from headrace.doors.gate import Gate
from headrace.doors.iotdb.batching import Answer, write_batches, writes_tablets
from headrace.doors.iotdb.calls import PARAMETERS, answer, logs_in, reads_rows
from headrace.doors.iotdb.client import Client
from headrace.doors.iotdb.frames import MAX_PENDING_BYTES, FrameProtocol
from headrace.doors.iotdb.transfer_memory import RequestMemory
from headrace.doors.iotdb.wire import MalformedCallError, read_call
from headrace.doors.options import DoorOptions, door_options
from headrace.doors.sockets import allow_files, peer_name
from headrace.model.connections import Origin
from headrace.runtime.budget import Budget
from headrace.runtime.http import MAX_LOGINS
from headrace.runtime.http_server import bind
from headrace.runtime.tls import server_context

if TYPE_CHECKING:
    from headrace.runtime.door import Door

logger = logging.getLogger(__name__)

NAME: Final = "iotdb"
MAX_CALLS: Final = 64
"""Calls that are handled at once, and as many that run queries; others wait for a thread."""
MAX_USER_CALLS: Final = 32
"""Those of one user among them, or of one address that has not logged in."""
MAX_USER_BYTES: Final = MAX_PENDING_BYTES // 4
BACKLOG: Final = 1_024
STOP_S: Final = 5.0


def create_iotdb_door(gate: Gate) -> Door | None:
    """Return the door, or None if the settings leave it closed."""
    options = door_options(gate.context.settings, NAME)
    return None if options is None else IotdbDoor(gate, options, gate.context.settings.door_connections)


class IotdbDoor:
    """Serves IoTDB's RPC. A connection costs a few kilobytes while its client is idle."""

    name = NAME

    def __init__(self, gate: Gate, options: DoorOptions, max_connections: int) -> None:
        """Take what opens sessions, and where to listen."""
        self.gate, self._options, self._max_connections = gate, options, max_connections
        self._loop = uvloop.new_event_loop()
        self.pool = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix=NAME)
        # Long queries, and many wrong passwords, leave threads for other calls.
        self.queries = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix=f"{NAME}-queries")
        self.logins = ThreadPoolExecutor(MAX_LOGINS, thread_name_prefix=f"{NAME}-logins")
        self.places = {pool: Budget(MAX_CALLS, MAX_USER_CALLS) for pool in (self.pool, self.queries, self.logins)}
        self.budget = Budget(MAX_PENDING_BYTES, MAX_USER_BYTES)
        self.requests = RequestMemory()
        self._socket: socket.socket | None = None
        self._tls: ssl.SSLContext | None = None
        self._stopping = asyncio.Event()
        self._connections: dict[IotdbConnection, None] = {}
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self.writes = write_batches(self.pool, gate.context.settings.group_commit_ms)
        self._has_started = threading.Event()

    @property
    def port(self) -> int:
        """The port at which it listens."""
        return self._options.port if self._socket is None else int(self._socket.getsockname()[1])

    @property
    def address(self) -> str:
        """The address at which it listens, as host:port."""
        return f"{self._options.host}:{self.port}"

    def start(self) -> None:
        """Start serving; return once connections are accepted.

        Raises:
            ConfigurationError: The port cannot be bound, or the certificate cannot be read.
        """
        self._tls = server_context(self._options.certificate, self._options.key)
        self._socket = bind(self._options.host, self._options.port, "HEADRACE_IOTDB_PORT", BACKLOG)
        allow_files(self._max_connections)
        self._thread.start()
        self._has_started.wait()

    def stop(self) -> None:
        """Stop; end the connections. Calls that run may end."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(STOP_S)
        for pool in (self.pool, self.queries, self.logins):
            pool.shutdown(wait=False, cancel_futures=True)

    def accept(self, connection: IotdbConnection) -> bool:
        """Note an open connection, if need be in place of the oldest that has not logged in; return False if there is none."""
        if len(self._connections) >= self._max_connections:
            logger.warning("closing a connection: %d are open", len(self._connections))
            stranger = next((one for one in self._connections if not one.is_logged_in), None)
            if stranger is None:
                return False
            self.forget(stranger)
            stranger.abort("others connect")
        self._connections[connection] = None
        return True

    def forget(self, connection: IotdbConnection) -> None:
        """Note that a connection has ended."""
        self._connections.pop(connection, None)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await self._loop.create_server(self._connect, sock=self._socket, ssl=self._tls, backlog=BACKLOG)
        self._has_started.set()
        await self._stopping.wait()
        server.close()
        for connection in list(self._connections):
            connection.abort("the door closes")

    def _connect(self) -> IotdbConnection:
        return IotdbConnection(self)


class IotdbConnection(FrameProtocol):
    """The connection of one client, whose frames are calls."""

    def __init__(self, door: IotdbDoor) -> None:
        """Create a connection that has not been accepted yet."""
        super().__init__(door.budget)
        self._door = door
        self._client: Client | None = None

    @property
    def is_logged_in(self) -> bool:
        """Whether the client has a session."""
        return self._client is not None and self._client.is_logged_in

    @property
    def owner(self) -> str:
        """The user, or the host of a client that has not logged in."""
        assert self._client is not None
        return self._client.owner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, unless too many are open."""
        super().connection_made(transport)
        if not self._door.accept(self):
            self.abort("too many are open")
            return
        self._client = Client(self._door.gate, Origin(NAME, peer_name(transport)), self._door.requests)

    def handle(self, frame: bytes) -> None:
        """Answer a call: with others if it writes tablets, and else in a thread."""
        assert self._client is not None
        ends = self._client.is_killed
        if writes_tablets(frame):
            self._door.writes.submit((self._client, frame), partial(self._reply, ends=ends))
            return
        pool = self._door.logins if logs_in(frame) else self._door.queries if reads_rows(frame) else self._door.pool
        places, owner = self._door.places[pool], self.owner
        places.reserve(owner, 1, partial(self._start, pool, owner, frame, ends=ends))

    def _start(self, pool: ThreadPoolExecutor, owner: str, frame: bytes, *, ends: bool) -> None:
        """Answer a call in a thread."""

        def finish(done: asyncio.Future[Answer]) -> None:
            self._door.places[pool].release(owner, 1)
            if not done.cancelled():
                self._reply(done.result(), ends=ends)

        assert self._client is not None
        self._loop.run_in_executor(pool, answer_frame, self._client, frame).add_done_callback(finish)

    def left(self) -> None:
        """End the query that runs: no one waits for it."""
        if self._client is not None:
            self._loop.run_in_executor(self._door.pool, self._client.leave)

    def ended(self) -> None:
        """Close the session."""
        self._door.forget(self)
        if self._client is not None:
            self._client.log_out()

    def _reply(self, answer: Answer, *, ends: bool) -> None:
        """Send an answer. A connection that was killed, or sends what is no call, ends with it."""
        if isinstance(answer, MalformedCallError):
            logger.warning("closing a connection: %s", answer.message)
            self.answer(b"", ends=True)
        else:
            self.answer(answer, ends=ends)


def answer_frame(client: Client, frame: bytes) -> Answer:
    """Return the frame of the answer to a call, or the error if it is none."""
    try:
        return handle(client, frame)
    except MalformedCallError as error:
        return error


def handle(client: Client, frame: bytes) -> bytes:
    """Return the frame of the answer to a call."""
    return answer(client, read_call(frame, PARAMETERS))
