"""HTTP for the most frequent requests: small writes of line protocol, by users whose password was checked a short time ago.

A request through ASGI costs more than the rows that it carries. These requests are answered by the protocol of the connection
itself; it leaves all others to uvicorn: larger or compressed bodies, other paths, unknown users, pipelined requests, and every
error before the body is there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import parse_qsl

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from headrace.doors.tdengine.ingest import INFLUX_PATHS, influx_error, line_target
from headrace.errors import Error
from headrace.runtime.http_server import LimitedProtocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from headrace.doors.tdengine.ingest import Ingestion
    from headrace.doors.tdengine.schemaless.writes import Outcome, Target

Headers = dict[bytes, bytes]
OTHERWISE_READ: Final = frozenset({b"content-encoding", b"transfer-encoding", b"expect", b"upgrade"})
"""Headers of requests that are left to uvicorn."""
SAME_S: Final = 1.0
"""Seconds for which a connection's requests with the same URL and credentials are not checked again."""


@dataclass(frozen=True, slots=True)
class LastRequest:
    """What a request was, what it was found to write to, and until when that holds (monotonic seconds)."""

    url: bytes
    authorization: bytes
    target: Target | None
    until: float


NO_REQUEST: Final = LastRequest(b"", b"", None, 0.0)


class SmallWrite:
    """A request in progress, with what `HttpToolsProtocol` of uvicorn reads and sets of the cycle of a request.

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
            self._ingestion.release(self._target.principal.name, self._size)
        else:
            self._ingestion.submit(self._target, bytes(self.body), self._answer)

    def _answer(self, error: Outcome) -> None:
        self._ingestion.release(self._target.principal.name, self._size)
        if not self.disconnected:
            self.response_complete = True
            self._protocol.answer(error, keep_alive=self.keep_alive)


class SmallWriteProtocol(LimitedProtocol):
    """The protocol of a connection."""

    def __init__(self, ingestion: Ingestion, *args: Any, **options: Any) -> None:
        """Create it; uvicorn gives all but the ingestion."""
        super().__init__(*args, **options)
        self._ingestion = ingestion
        self._last = NO_REQUEST

    def on_headers_complete(self) -> None:
        """Take a small write, or leave the request to uvicorn."""
        write = self._small_write()
        if write is None:
            super().on_headers_complete()
        else:
            self.begin_body()
            self.cycle = cast("Any", write)

    def _small_write(self) -> SmallWrite | None:
        """Return a small write whose body is reserved; None if the request is none."""
        if not self._is_free() or self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1":
            return None
        headers = dict(self.headers)
        length = headers.get(b"content-length", b"")
        if not OTHERWISE_READ.isdisjoint(headers) or not length.isdigit() or int(length) > HIGH_WATER_LIMIT:
            return None
        target, size = self._target(headers), int(length)
        if target is None or not self._ingestion.try_reserve(target.principal.name, size):
            return None
        return SmallWrite(self, self._ingestion, target, size, keep_alive=self.parser.should_keep_alive())

    def _is_free(self) -> bool:
        """Return whether no other request of the connection is in progress, and there are not too many connections."""
        limit = self.limit_concurrency
        is_idle = self.cycle is None or self.cycle.response_complete
        return is_idle and not self.flow.write_paused and (limit is None or len(self.connections) < limit)

    def _target(self, headers: Headers) -> Target | None:
        """Return what is written to; None if the request has to be checked. Most requests of a connection say the same."""
        authorization, last = headers.get(b"authorization", b""), self._last
        if last.url == self.url and last.authorization == authorization and time.monotonic() < last.until:
            return last.target
        target = self._found_target(authorization)
        if target is not None:
            self._last = LastRequest(self.url, authorization, target, time.monotonic() + SAME_S)
        return target

    def _found_target(self, authorization: bytes) -> Target | None:
        url = httptools.parse_url(self.url)
        if url.path not in INFLUX_PATHS:
            return None
        try:
            parameters = dict(parse_qsl((url.query or b"").decode("ascii"), keep_blank_values=True))
            principal = self._ingestion.verified(authorization.decode("latin-1"), parameters)
            return None if principal is None else line_target(principal, parameters)
        except (Error, UnicodeDecodeError):
            return None

    def answer(self, error: Outcome, *, keep_alive: bool) -> None:
        """Send the answer of a small write."""
        if self.transport.is_closing():
            return
        self.transport.write(self._answer_bytes(error, keep_alive=keep_alive))
        if not keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _answer_bytes(self, error: Outcome, *, keep_alive: bool) -> bytes:
        own_headers = [] if keep_alive else [(b"connection", b"close")]
        headers = [*self.server_state.default_headers, *own_headers]
        if error is None:
            return b"".join([STATUS_LINE[204], *lines_of(headers), b"\r\n"])
        response = influx_error(error)
        return b"".join([STATUS_LINE[response.status_code], *lines_of([*headers, *response.raw_headers]), b"\r\n", response.body])


def lines_of(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[bytes]:
    return (part for name, value in headers for part in (name, b": ", value, b"\r\n"))


def small_write_protocol(ingestion: Ingestion) -> Callable[..., asyncio.Protocol]:
    """Return what creates the protocols of connections."""
    return partial(SmallWriteProtocol, ingestion)
