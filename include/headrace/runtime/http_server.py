"""Servers of HTTP, whose connections have limits of time and size."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.errors import ConfigurationError, OperationalError
from headrace.runtime.http_limits import TIMEOUT_S

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOOPBACK: Final = "127.0.0.1"
WILDCARD_HOSTS: Final = ("", "0.0.0.0", "::")
MAX_CONNECTIONS: Final = 10_000
MAX_HEAD_BYTES: Final = 64 << 10
"""The largest request line and headers of a request."""
MAX_HEADERS: Final = 100
MAX_PIPELINED: Final = 100
"""Requests of a connection that wait for the answers to those before them."""


class LimitedProtocol(HttpToolsProtocol):
    """The protocol of a connection, which ends if a client is too slow, or sends a head that is too large."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Create it; uvicorn gives all arguments."""
        super().__init__(*args, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._reads_head = True
        self._reads_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, if need be in place of a connection that has none."""
        super().connection_made(transport)
        self._limit()
        limit = self.limit_concurrency
        if limit is not None and len(self.connections) >= limit:
            idle = (one for one in self.connections if one is not self and isinstance(one, LimitedProtocol) and one.is_idle)
            other = next(idle, None)
            if other is not None:
                self.connections.discard(other)
                other.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._unlimit()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read more of a request."""
        super().data_received(data)
        if not self._reads_head:
            return
        # Most heads come at once, and need no timer.
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self.transport.abort()
        elif self._timer is None:
            self._limit()

    def on_message_begin(self) -> None:
        """Begin to read a request."""
        super().on_message_begin()
        self._head_bytes, self._reads_head, self._reads_body = 0, True, True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what follows a body is none."""
        if len(self.headers) >= MAX_HEADERS:
            self.transport.abort()
        elif self._reads_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer, or have the request wait for those before it, which a client may send at once."""
        self.begin_body()
        if len(self.pipeline) >= MAX_PIPELINED:
            self.transport.abort()
        else:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that all of a request is there."""
        self._reads_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note that a request is answered: what is left of its body may take no longer than it might before."""
        super().on_response_complete()
        if self._reads_body and self._timer is None:
            self._limit()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._unlimit()
        self._limit()

    def resume_writing(self) -> None:
        """Send more."""
        super().resume_writing()
        self._unlimit()

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress."""
        return self._reads_head or (not self._reads_body and (self.cycle is None or self.cycle.response_complete))

    def begin_body(self) -> None:
        """Note that all of a head is there."""
        self._reads_head = False
        self._unlimit()

    def _limit(self) -> None:
        self._timer = self.loop.call_later(TIMEOUT_S, self.transport.abort)

    def _unlimit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Endpoint:
    """An HTTP server for the application, in its own thread."""

    def __init__(
        self,
        app: ASGIApp,
        port: int = 0,
        host: str = LOOPBACK,
        advertise: str = "",
        *,
        tls: ssl.SSLContext | None = None,
        max_connections: int = MAX_CONNECTIONS,
        setting: str = "HEADRACE_HTTP_PORT",
        protocol: Callable[..., asyncio.Protocol] = LimitedProtocol,
        trusted_proxies: str = "",
    ) -> None:
        """Bind a port of an address; 0 is any free port.

        `advertise` is the host, or host:port, under which others reach it; if empty, that is `host`, or the machine's name.
        `setting` is the one of the port, `tls` encrypts connections, and `protocol` creates the protocols of connections. What
        `X-Forwarded-For` says counts if it comes from one of `trusted_proxies`.

        Raises:
            ConfigurationError: The port cannot be bound.
        """
        self._socket = bind(host, port, setting)
        self._scheme = "http" if tls is None else "https"
        self._advertise = advertise or (socket.gethostname() if host in WILDCARD_HOSTS else host)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            http=protocol,  # type: ignore[arg-type]
            ws="none",
            timeout_graceful_shutdown=2,
            limit_concurrency=max_connections,
            proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=trusted_proxies or None,
        )
        config.load()
        config.ssl = tls
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)

    @property
    def address(self) -> str:
        """The URL under which others reach it."""
        return f"{self._scheme}://{with_port(self._advertise, self.port)}"

    def start(self, timeout_s: float = 10.0) -> None:
        """Start serving; return once requests are accepted."""
        self._thread.start()
        deadline = time.monotonic() + timeout_s
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise OperationalError("the HTTP endpoint did not start", hint="see the log of the snode")
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop. Requests in progress have two seconds to finish."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(3)
        self._socket.close()


def with_port(host: str, port: int) -> str:
    """Return `host:port`, unless the host includes a port already. An IPv6 address gets brackets."""
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    return host if host.rpartition("]")[2].count(":") else f"{host}:{port}"


def bind(host: str, port: int, setting: str, backlog: int | None = None) -> socket.socket:
    """Return a socket that is bound to a port of an address; `setting` names the port in the error."""
    try:
        family, *_, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=backlog)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(
            f"port {port} of {host} cannot be bound: {getattr(error, 'strerror', error)}",
            hint=f"set {setting} to a free port, or to 0 for any, and its host to an address of this machine",
        ) from None
