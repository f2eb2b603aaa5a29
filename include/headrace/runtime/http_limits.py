"""What a request may take: bytes and time of its head and body, and a share of memory and threads for each user."""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import anyio
from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect

from headrace.errors import DataError, LimitError, OperationalError
from headrace.runtime.budget import Budget

if TYPE_CHECKING:
    from starlette.requests import Request

TIMEOUT_S: Final = 60.0
"""How long the head or the body of a request may take to arrive, and a client to read what was sent."""
MAX_SQL_BYTES: Final = 16 << 20
"""The largest body with a statement."""
MAX_PENDING_BYTES: Final = 256 << 20
"""Bytes of bodies that are read or used at once; further ones wait unread."""
MAX_STATEMENTS: Final = 64
"""Statements of a server that run at the same time; others wait."""
USER_SHARES: Final = 4
"""A user has one of this many shares of memory, and two of threads."""
ABANDON_PAUSE_S: Final = 0.2
GZIP: Final = 16 + zlib.MAX_WBITS

P = ParamSpec("P")
T = TypeVar("T")
Abandon = Callable[[int], bool]
"""Ends the query that a thread runs, since its client is gone; returns False if it runs none."""


class TooLargeError(LimitError, code=LimitError.code):
    """The body of a request is larger than is read."""


class TooSlowError(OperationalError, code=OperationalError.code):
    """The body of a request takes too long to arrive."""


class RequestLimits:
    """What the requests of a server share. Used in one event loop."""

    def __init__(self, max_bytes: int = MAX_PENDING_BYTES) -> None:
        """Create them; at most `max_bytes` of bodies are in memory."""
        self.memory = Budget(max_bytes, max_bytes // USER_SHARES)
        self._threads = anyio.CapacityLimiter(MAX_STATEMENTS)
        self._places = Budget(MAX_STATEMENTS, 2 * MAX_STATEMENTS // USER_SHARES)

    @asynccontextmanager
    async def body(self, request: Request, user: str, max_bytes: int) -> AsyncIterator[bytes]:
        """Yield the body of a request of a user, which counts as used until the block ends. See `read_body` for errors."""
        size = max_size(request, max_bytes)
        async with self.memory.held(user, size):
            yield await read_body(request, max_bytes)

    async def run(
        self, request: Request, abandon: Abandon, user: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a function for the request of a user in a thread, and abandon the query that it runs once the client is gone."""
        run = WatchedRun(abandon)
        async with self._places.held(user, 1):
            watcher = asyncio.create_task(run.end_when_left(request))
            try:
                return await run_sync(run.call, lambda: function(*args, **kwargs), limiter=self._threads)
            finally:
                watcher.cancel()


@dataclass(slots=True)
class WatchedRun:
    """A function that a thread runs for a client."""

    abandon: Abandon
    thread: int = 0
    """The thread while it runs the function, else 0."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def call(self, function: Callable[[], T]) -> T:
        """Run the function in this thread."""
        self.thread = threading.get_ident()
        try:
            return function()
        finally:
            with self.lock:  # what the thread runs next is of another client
                self.thread = 0

    async def end_when_left(self, request: Request) -> None:
        """Wait until the client is gone, then for a query of the thread, and end that."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        while not await run_sync(self._end):
            await asyncio.sleep(ABANDON_PAUSE_S)

    def _end(self) -> bool:
        with self.lock:
            return self.thread != 0 and self.abandon(self.thread)


def max_size(request: Request, max_bytes: int) -> int:
    """Return the most that the body of a request may take."""
    length = request.headers.get("content-length", "")
    is_plain = request.headers.get("content-encoding", "identity").lower() == "identity"
    return min(int(length), max_bytes) if length.isdecimal() and is_plain else max_bytes


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of a request.

    Raises:
        TooLargeError: It is larger than `max_bytes`.
        TooSlowError: It takes too long to arrive.
        DataError: It is compressed otherwise than by gzip, or damaged.
        OperationalError: The client is gone.
    """
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise too_large(max_bytes)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            body = await received(request, max_bytes)
    except TimeoutError:
        raise TooSlowError(f"the body took longer than {TIMEOUT_S:g} s", hint="divide it among several requests") from None
    encoding = request.headers.get("content-encoding", "identity").lower()
    # In a thread: small bodies may become large ones, for which all other requests would wait.
    return body if encoding == "identity" else await run_sync(decompressed, body, encoding, max_bytes)


async def received(request: Request, max_bytes: int) -> bytes:
    """Return the bytes of a body as they were sent."""
    body = bytearray()
    try:
        async for part in request.stream():
            if len(body) + len(part) > max_bytes:
                raise too_large(max_bytes)
            body += part
    except ClientDisconnect:
        raise OperationalError("the client has ended the connection", hint="send the whole body") from None
    return bytes(body)


def decompressed(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Return a compressed body as it was; see `read_body`."""
    if encoding != "gzip":
        raise DataError(f"a body encoded by {encoding!r} cannot be read", hint="use gzip, or none")
    decompressor = zlib.decompressobj(GZIP)
    try:
        content = decompressor.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise DataError(f"the body is not gzip: {error}", hint="send it again") from None
    if len(content) > max_bytes:
        raise too_large(max_bytes)
    if not decompressor.eof:
        raise DataError("the body ends early", hint="send it again")
    return content


def too_large(max_bytes: int) -> TooLargeError:
    return TooLargeError(f"the request has more than {max_bytes} bytes", hint="divide it among several requests")
