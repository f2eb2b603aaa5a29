"""`python -m benchmarks.capacity.distance PORT SECONDS`: forward connections to a port, whose answers come later.

It prints its own port. It is a process of its own, since a client may wait for an answer with the interpreter's lock.
"""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
import time
from contextlib import suppress
from typing import Final

from tests.support.loopback_proxy import LoopbackProxy

CHUNK: Final = 1 << 16


class DistantProxy(LoopbackProxy):
    """Forwards connections to a server, whose answers take `delay_s` longer."""

    def __init__(self, port: int, delay_s: float) -> None:
        super().__init__(port, Delayed)
        self.delay_s = delay_s


class Delayed(socketserver.BaseRequestHandler):
    """A connection of a `DistantProxy`."""

    server: DistantProxy

    def handle(self) -> None:
        with socket.create_connection(self.server.target) as upstream:
            for one in (self.request, upstream):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            answers = threading.Thread(target=pump, args=(upstream, self.request, self.server.delay_s), daemon=True)
            answers.start()
            pump(self.request, upstream, 0.0)
            answers.join(timeout=1)


def pump(origin: socket.socket, target: socket.socket, delay_s: float) -> None:
    """Forward bytes until a side ends. What comes within a tenth of the delay belongs to the same answer, and waits only once."""
    waited_at = 0.0
    with suppress(OSError):
        while data := origin.recv(CHUNK):
            if delay_s and time.monotonic() - waited_at > delay_s / 10:
                time.sleep(delay_s)
            waited_at = time.monotonic()
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def main() -> None:
    """Forward until the process is killed."""
    with DistantProxy(int(sys.argv[1]), float(sys.argv[2])) as proxy:
        sys.stdout.write(f"{proxy.port}\n")
        sys.stdout.flush()
        proxy.serve_forever()


if __name__ == "__main__":
    main()
