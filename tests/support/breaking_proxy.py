"""A TCP proxy whose connections break on demand: they are cut in a request or its answer, or nothing passes any more."""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.loopback_proxy import LoopbackProxy, served


class BreakingProxy(LoopbackProxy):
    """Forwards connections to a server.

    Attributes:
        stalls: While set, connections stay open, and nothing passes.
        broken: How many connections were cut.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port, ProxiedConnection)
        self.stalls = threading.Event()
        self.broken = 0
        self._lock = threading.Lock()
        self._passing: tuple[int | None, int | None] = (None, None)

    def cut(self, *, request_bytes: int | None = None, answer_bytes: int | None = None) -> None:
        """Cut a connection once, when this many more bytes of requests or answers have passed."""
        with self._lock:
            self._passing = (request_bytes, answer_bytes)

    def passing(self, size: int, *, is_answer: bool) -> int | None:
        """Return how many of some bytes pass before the connection is cut; None if it is not."""
        with self._lock:
            left = self._passing[is_answer]
            if left is None:
                return None
            if size < left:
                self._passing = (None, left - size) if is_answer else (left - size, None)
                return None
            self._passing = (None, None)
            self.broken += 1
            return left


class ProxiedConnection(socketserver.BaseRequestHandler):
    """A connection through the proxy."""

    server: BreakingProxy

    def handle(self) -> None:
        client: socket.socket = self.request
        with suppress(OSError), socket.create_connection(self.server.target) as server:
            while self._forward(client, server):
                pass

    def _forward(self, client: socket.socket, server: socket.socket) -> bool:
        """Forward what has arrived; return whether the connection lasts."""
        for source in select.select([client, server], [], [], 0.2)[0]:
            if self.server.stalls.is_set():
                threading.Event().wait(0.05)
                continue
            data = source.recv(1 << 16)
            if not data:
                return False
            passing = self.server.passing(len(data), is_answer=source is server)
            (client if source is server else server).sendall(data if passing is None else data[:passing])
            if passing is not None:
                return False
        return True


@contextmanager
def breaking_proxy(port: int) -> Iterator[BreakingProxy]:
    """Run a proxy of a server on the loopback interface."""
    with served(BreakingProxy(port)) as proxy:
        yield proxy
