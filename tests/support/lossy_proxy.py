"""A TCP proxy of an S3 server that loses answers: the server has stored an object, and the client never hears of it."""

from __future__ import annotations

import multiprocessing
import re
import select
import socket
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from typing import Final

COMMIT: Final = re.compile(rb"PUT \S*/_delta_log/\d{20}\.json")


@dataclass(frozen=True)
class LossyProxy:
    """A running proxy. It forwards everything, except the answers to the next `to_lose` commits."""

    url: str
    to_lose: Synchronized[int]


class Forwarder(socketserver.ThreadingTCPServer):
    """Accepts connections to a server."""

    daemon_threads = True

    def __init__(self, server: tuple[str, int], to_lose: Synchronized[int]) -> None:
        super().__init__(("127.0.0.1", 0), ForwardedConnection)
        self.server = server
        self.to_lose = to_lose

    def loses(self, request: bytes) -> bool:
        """Return whether the answer to a request gets lost."""
        with self.to_lose.get_lock():
            is_lost = self.to_lose.value > 0 and COMMIT.match(request) is not None
            self.to_lose.value -= is_lost
        return is_lost


class ForwardedConnection(socketserver.BaseRequestHandler):
    """A connection, with one request at a time. It is closed as soon as the server answers what is to be lost."""

    server: Forwarder

    def handle(self) -> None:
        client: socket.socket = self.request
        with socket.create_connection(self.server.server) as server:
            is_lost = False
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 16)
                    if not data or (source is server and is_lost):
                        return
                    if source is client:
                        is_lost = is_lost or self.server.loses(data)
                    (server if source is client else client).sendall(data)


def serve(server: tuple[str, int], to_lose: Synchronized[int], ready: Connection) -> None:
    with Forwarder(server, to_lose) as forwarder:
        ready.send(forwarder.server_address[1])
        forwarder.serve_forever()


@contextmanager
def running_proxy(url: str) -> Iterator[LossyProxy]:
    """Run a proxy of the server at a URL, in a process of its own: delta-rs may hold the interpreter while it waits."""
    host, _, port = url.removeprefix("http://").partition(":")
    context = multiprocessing.get_context("spawn")
    to_lose, (receiver, ready) = context.Value("i", 0), context.Pipe(duplex=False)
    process = context.Process(target=serve, args=((host, int(port)), to_lose, ready), daemon=True)
    process.start()
    try:
        assert receiver.poll(60), "the proxy does not start"
        yield LossyProxy(f"http://127.0.0.1:{receiver.recv()}", to_lose)
    finally:
        process.kill()
        process.join()
