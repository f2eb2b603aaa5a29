"""HTTP for the most frequent requests: small writes of line protocol, by users whose password was checked a short time ago.

A request through ASGI costs more than the rows that it carries. These requests are answered by the protocol of the connection
itself; it leaves all others to uvicorn: larger or compressed bodies, other paths, unknown users, pipelined requests, and every
error before the body is there.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import parse_qsl

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from headrace.doors.tdengine.ingest import INFLUX_PATHS, influx_error, line_target
from headrace.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.doors.tdengine.ingest import Ingestion
    from headrace.doors.tdengine.schemaless.writes import Outcome, Target

Headers = dict[bytes, bytes]
OTHERWISE_READ: Final = frozenset({b"content-encoding", b"transfer-encoding", b"expect", b"upgrade"})
"""Headers of requests that are left to uvicorn."""
REMEMBERED_QUERIES: Final = 256


class SmallWrite:
    """A request in progress, with what `HttpToolsProtocol` reads and sets of the cycle of a request.

    It is its own `message_event`: the protocol sets it when a part of the body has come, at the end, and when the client is gone.
    """

    def __init__(self, protocol: SmallWriteProtocol, ingestion: Ingestion, target: Target, size: int, *, keep_alive: bool) -> None:
        """Create it; `size` bytes of its body are reserved."""
        self._protocol = protocol
        self._ingestion = ingestion
        self._target = target
        self._size = size
        self._is_taken = False
        self.keep_alive = keep_alive
        self.body = bytearray()
        self.more_body = True
        self.response_complete = False
        self.disconnected = False

    @property
    def message_event(self) -> Self:
        """What the protocol sets."""
        return self

    def set(self) -> None:
        """Write the body once it is complete; forget it if the client is gone before."""
        if self._is_taken or (self.more_body and not self.disconnected):
            return
        self._is_taken = True
        if self.more_body:
            self._ingestion.release(self._size)
        else:
            self._ingestion.submit(self._target, bytes(self.body)).add_done_callback(self._answer)

    def _answer(self, future: asyncio.Future[Outcome]) -> None:
        self._ingestion.release(self._size)
        if not self.disconnected:
            self.response_complete = True
            self._protocol.answer(None if future.cancelled() else future.result(), keep_alive=self.keep_alive)


class SmallWriteProtocol(HttpToolsProtocol):
    """The protocol of a connection."""

    def __init__(self, ingestion: Ingestion, *args: Any, **options: Any) -> None:
        """Create it; uvicorn gives all but the ingestion."""
        super().__init__(*args, **options)
        self._ingestion = ingestion

    def on_headers_complete(self) -> None:
        """Take a small write, or leave the request to uvicorn."""
        write = self._small_write()
        if write is None:
            super().on_headers_complete()
        else:
            self.cycle = cast("Any", write)

    def _small_write(self) -> SmallWrite | None:
        """Return a small write whose body is reserved; None if the request is none."""
        if not self._is_free() or self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1":
            return None
        headers, url = dict(self.headers), httptools.parse_url(self.url)
        length = headers.get(b"content-length", b"")
        if url.path not in INFLUX_PATHS or not OTHERWISE_READ.isdisjoint(headers) or not length.isdigit():
            return None
        target, size = self._target(headers, url.query or b""), int(length)
        if target is None or size > HIGH_WATER_LIMIT or not self._ingestion.try_reserve(size):
            return None
        return SmallWrite(self, self._ingestion, target, size, keep_alive=self.parser.should_keep_alive())

    def _is_free(self) -> bool:
        """Return whether no other request of the connection is in progress, and there are not too many connections."""
        limit = self.limit_concurrency
        is_idle = self.cycle is None or self.cycle.response_complete
        return is_idle and not self.flow.write_paused and (limit is None or len(self.connections) < limit)

    def _target(self, headers: Headers, query: bytes) -> Target | None:
        """Return what is written to; None if the request has to be checked."""
        try:
            parameters = parameters_of(query)
            user = self._ingestion.known_user(headers.get(b"authorization", b"").decode("latin-1"), parameters)
            return None if user is None else line_target(user, parameters)
        except (Error, UnicodeDecodeError):
            return None

    def answer(self, error: Outcome, *, keep_alive: bool) -> None:
        """Send the answer of a small write."""
        if self.transport.is_closing():
            return
        response = None if error is None else influx_error(error)
        status, body = (204, b"") if response is None else (response.status_code, bytes(response.body))
        headers = [*self.server_state.default_headers, *([] if response is None else response.raw_headers)]
        if not keep_alive:
            headers.append((b"connection", b"close"))
        self.transport.write(b"".join([STATUS_LINE[status], *lines_of(headers), b"\r\n", body]))
        if not keep_alive:
            self.transport.close()
        self.on_response_complete()


def lines_of(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[bytes]:
    return (part for name, value in headers for part in (name, b": ", value, b"\r\n"))


@lru_cache(REMEMBERED_QUERIES)
def parameters_of(query: bytes) -> dict[str, str]:
    """Return the parameters of a URL. Clients repeat them with every request."""
    return dict(parse_qsl(query.decode("ascii"), keep_blank_values=True))


def small_write_protocol(ingestion: Ingestion) -> Callable[..., asyncio.Protocol]:
    """Return what creates the protocols of connections."""
    return partial(SmallWriteProtocol, ingestion)
