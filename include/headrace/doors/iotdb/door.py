"""The server of the door: one thread reads frames of all connections, and a pool of others handles calls."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headrace.doors.gate import Gate, Origin
from headrace.doors.iotdb.calls import PARAMETERS, answer
from headrace.doors.iotdb.client import Client
from headrace.doors.iotdb.frames import MAX_PENDING_BYTES, BrokenFrameError, ByteBudget, read_body, read_size, write_frame
from headrace.doors.iotdb.grouping import TabletWriter
from headrace.doors.iotdb.wire import MalformedCallError, read_call
from headrace.doors.options import DoorOptions, door_options
from headrace.doors.tls import server_context
from headrace.errors import ConfigurationError

if TYPE_CHECKING:
    from headrace.runtime.door import Door

logger = logging.getLogger(__name__)

NAME: Final = "iotdb"
MAX_CALLS: Final = 64
"""Calls that are handled at once; others wait for a thread."""
BACKLOG: Final = 1_024
READ_BUFFER_BYTES: Final = 64 << 10
SPARE_FILES: Final = 1_024
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
        self._gate, self._options, self._max_connections = gate, options, max_connections
        self._loop = asyncio.new_event_loop()
        self._pool = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix=NAME)
        self._budget = ByteBudget(MAX_PENDING_BYTES)
        self._socket: socket.socket | None = None
        self._tls: ssl.SSLContext | None = None
        self._stopping = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self._tablets = TabletWriter()
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
        self._tls = server_context(self._options)
        self._socket = bind(self._options)
        allow_files(self._max_connections)
        self._thread.start()
        self._has_started.wait()

    def stop(self) -> None:
        """Stop; end the connections. Calls that run may end."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(STOP_S)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._accept, sock=self._socket, ssl=self._tls, backlog=BACKLOG, limit=READ_BUFFER_BYTES
        )
        self._has_started.set()
        await self._stopping.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until it ends."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= self._max_connections:
            logger.warning("closing a connection: %d are open", len(self._connections))
            writer.transport.abort()
            return
        self._connections.add(task)
        client = Client(self._gate, Origin(NAME, peer_name(writer)), self._tablets)
        try:
            await self._serve_client(client, reader, writer)
        except BrokenFrameError as error:
            logger.debug("closing the connection of %s: %s", client.origin.address, error)
        except MalformedCallError as error:
            logger.warning("closing the connection of %s: %s", client.origin.address, error.message)
        except asyncio.CancelledError:
            logger.debug("closing the connection of %s: the door closes", client.origin.address)
        finally:
            self._connections.discard(task)
            writer.transport.abort()
            client.log_out()

    async def _serve_client(self, client: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer calls one after the other. A connection that is killed ends with the answer that says so."""
        is_open = True
        while is_open:
            size = await read_size(reader, is_logged_in=client.is_logged_in)
            async with self._budget.reserve(size):
                frame, is_open = await read_body(reader, size), not client.is_killed
                content = await self._loop.run_in_executor(self._pool, handle, client, frame)
                del frame
                await write_frame(writer, content)


def handle(client: Client, frame: bytes) -> bytes:
    """Return the frame of the answer to a call."""
    return answer(client, read_call(frame, PARAMETERS))


def peer_name(writer: asyncio.StreamWriter) -> str:
    """Return the address of a client, as host:port."""
    peer = writer.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if peer else "?"


def bind(options: DoorOptions) -> socket.socket:
    """Return a socket that is bound to a port of an address."""
    try:
        family, *_, address = socket.getaddrinfo(
            options.host or None, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(
            f"port {options.port} of {options.host} cannot be bound: {getattr(error, 'strerror', error)}",
            hint="set HEADRACE_IOTDB_PORT to a free port, and HEADRACE_DOOR_HOST to an address of this machine",
        ) from None


def allow_files(connections: int) -> None:
    """Let the process have as many open files as connections need, as far as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
