"""A proxy of a server that answers one frame at a time, each with its length before it, as Thrift's servers do. It has faults."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from tests.support.loopback_proxy import LoopbackProxy, served

LENGTH: Final = struct.Struct(">i")


class Fault(Enum):
    """What happens to a request."""

    CUT = auto()
    """Half of it arrives, and the connection breaks."""
    LOSE = auto()
    """It is handled, and the connection breaks before the answer."""
    STALL = auto()
    """Nothing arrives until the client gives up."""
    REPEAT = auto()
    """It arrives twice; the answer comes once."""
    KILL = auto()
    """It arrives, and the server dies."""


@dataclass(frozen=True, slots=True)
class NextFault:
    """A fault, and how many requests pass before it."""

    passing: int
    fault: Fault


class FrameProxy(LoopbackProxy):
    """Forwards connections to a server, with the faults that it is told, in order."""

    def __init__(self, port: int, kill: Callable[[], None]) -> None:
        """Forward to a port of this machine. `kill` kills the server, and returns once it runs again."""
        super().__init__(port, FramedConnection)
        self.kill = kill
        self.happened: list[Fault] = []
        self._faults: list[NextFault] = []
        self._passed = 0
        self._lock = threading.Lock()

    def plan(self, faults: Sequence[NextFault]) -> None:
        """Have these faults, in place of those that have not happened yet."""
        with self._lock:
            self._faults, self._passed = list(faults), 0

    def take(self) -> Fault | None:
        """Return the fault of the next request, if it has one."""
        with self._lock:
            if not self._faults or self._passed < self._faults[0].passing:
                self._passed += 1
                return None
            self._passed = 0
            self.happened.append(self._faults[0].fault)
            return self._faults.pop(0).fault


class FramedConnection(socketserver.BaseRequestHandler):
    """A connection through the proxy."""

    server: FrameProxy

    def handle(self) -> None:
        client: socket.socket = self.request
        with suppress(OSError, EOFError), socket.create_connection(self.server.target) as server:
            while self._forward(client, server):
                pass

    def _forward(self, client: socket.socket, server: socket.socket) -> bool:
        """Forward a request and its answer; return whether the connection lasts."""
        request = read_frame(client)
        fault = self.server.take()
        match fault:
            case Fault.STALL:
                client.recv(1)
                return False
            case Fault.CUT:
                server.sendall(request[: len(request) // 2])
                return False
            case Fault.KILL:
                server.sendall(request)
                self.server.kill()
                return False
        if fault is Fault.REPEAT:
            server.sendall(request)
            read_frame(server)
        server.sendall(request)
        answer = read_frame(server)
        if fault is Fault.LOSE:
            return False
        client.sendall(answer)
        return True


def read_frame(connection: socket.socket) -> bytes:
    """Return a frame with its length; raise `EOFError` if the connection ends."""
    header = read_exactly(connection, LENGTH.size)
    return header + read_exactly(connection, LENGTH.unpack(header)[0])


def read_exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def do_nothing() -> None:
    """Kill no server: there is no such fault."""


@contextmanager
def frame_proxy(port: int, kill: Callable[[], None] = do_nothing) -> Iterator[FrameProxy]:
    """Run a proxy of a server on the loopback interface."""
    with served(FrameProxy(port, kill)) as proxy:
        yield proxy
