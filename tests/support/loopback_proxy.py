"""What proxies of the tests have in common: a TCP server on the loopback interface in front of another one."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar


class LoopbackProxy(socketserver.ThreadingTCPServer):
    """Accepts connections on a free port, for a handler that forwards them to `target`."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, handler: type[socketserver.BaseRequestHandler]) -> None:
        """Forward to a port of this machine."""
        super().__init__(("127.0.0.1", 0), handler)
        self.target = ("127.0.0.1", port)

    @property
    def port(self) -> int:
        """The port of the proxy."""
        return int(self.server_address[1])


Proxy = TypeVar("Proxy", bound=LoopbackProxy)


@contextmanager
def served(proxy: Proxy) -> Iterator[Proxy]:
    """Run a proxy, and end it afterwards."""
    with proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
