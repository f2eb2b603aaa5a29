"""Schemaless writing over HTTP: requests that arrive while others are written are read and written together."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from anyio.to_thread import run_sync
from starlette.responses import JSONResponse, Response

from headrace.doors.tdengine.codes import code_of, description
from headrace.doors.tdengine.requests import TooLargeError, read_body
from headrace.doors.tdengine.schemaless.writes import JSON, TELNET, Outcome, SchemalessWriter, Target
from headrace.errors import AuthenticationError, Error, InternalError, NotFoundError, PermissionDeniedError, TerminalError

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.doors.tdengine.access import Access

logger = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 64 << 20
MAX_BATCH_BYTES: Final = 4 << 20
"""Bodies that are read together have at most this size, unless there is only one."""
MAX_BATCHES: Final = 4
"""Batches that are read and written at the same time, each of another target."""
INFLUX_PATHS: Final = (b"/influxdb/v1/write", b"/influxdb/v1/api/v2/write")
Describe = Callable[[Error], Response]
Waiting = tuple[bytes, "asyncio.Future[Outcome]"]


class Ingestion:
    """Collects the bodies of requests, and writes those to the same target together. Used in one event loop.

    At most `max_bytes` of bodies are in memory; the bodies of further requests are not read from their connections before there is
    room.
    """

    def __init__(self, writer: SchemalessWriter, access: Access, max_bytes: int, *, is_grouped: bool = True) -> None:
        """Create it. Unless `is_grouped`, each request is written alone."""
        self._writer = writer
        self._access = access
        self._max_bytes = max(max_bytes, MAX_BODY_BYTES)
        self._max_batch_bytes = MAX_BATCH_BYTES if is_grouped else 0
        self._bytes = 0
        self._room: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._waiting: dict[Target, deque[Waiting]] = {}
        self._running: set[Target] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = anyio.CapacityLimiter(MAX_BATCHES)
        self._logins = anyio.CapacityLimiter(MAX_BATCHES)

    async def influx(self, request: Request) -> Response:
        """Write line protocol, as clients of InfluxDB 1 and 2 send it."""
        query = dict(request.query_params)
        return await self._answer(request, lambda user: line_target(user, query), influx_error)

    async def opentsdb(self, request: Request, protocol: str) -> Response:
        """Write points of OpenTSDB."""
        database = request.path_params["database"]
        return await self._answer(request, lambda user: Target(user, database, protocol), opentsdb_error)

    async def _answer(self, request: Request, target: Callable[[str], Target], describe: Describe) -> Response:
        try:
            error = await self._write(request, target)
        except Error as raised:
            error = raised
        except Exception as unexpected:
            logger.exception("unexpected error in schemaless writing")
            error = InternalError(f"{type(unexpected).__name__}: {unexpected}")
        return Response(status_code=204) if error is None else describe(error)

    async def _write(self, request: Request, target: Callable[[str], Target]) -> Outcome:
        access = self._access
        credentials = access.credentials(request.headers.get("authorization", ""), dict(request.query_params))
        user = access.known_user(credentials)
        if user is None:
            user = await run_sync(access.user, credentials, limiter=self._logins)
        chosen, size = target(user), self._size_of(request)
        await self._reserve(size)
        try:
            return await self.submit(chosen, await read_body(request, MAX_BODY_BYTES))
        finally:
            self.release(size)

    def known_user(self, authorization: str, parameters: Mapping[str, str]) -> str | None:
        """Return the user of a request if the password was right a short time ago; None if it has to be checked.

        Raises:
            AuthenticationError: There are no credentials, or they cannot be read.
        """
        return self._access.known_user(self._access.credentials(authorization, parameters))

    def _size_of(self, request: Request) -> int:
        """Return the most that the body of a request may take."""
        length = request.headers.get("content-length", "")
        is_plain = request.headers.get("content-encoding", "identity") == "identity"
        return min(int(length), MAX_BODY_BYTES) if length.isdigit() and is_plain else MAX_BODY_BYTES

    async def _reserve(self, size: int) -> None:
        if not self.try_reserve(size):
            turn = asyncio.get_running_loop().create_future()
            self._room.append((size, turn))
            await turn

    def try_reserve(self, size: int) -> bool:
        """Reserve memory for a body, unless others wait for it or there is too little."""
        is_free = not self._room and self._bytes + size <= self._max_bytes
        if is_free:
            self._bytes += size
        return is_free

    def release(self, size: int) -> None:
        """Return what was reserved, to those that wait for it."""
        self._bytes -= size
        while self._room and self._bytes + self._room[0][0] <= self._max_bytes:
            size, turn = self._room.popleft()
            if not turn.cancelled():
                self._bytes += size
                turn.set_result(None)

    def submit(self, target: Target, body: bytes) -> asyncio.Future[Outcome]:
        """Write a body with the next batch of its target; return what becomes of it."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(target, deque()).append((body, future))
        if target not in self._running:
            self._running.add(target)
            task = asyncio.create_task(self._run(target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return future

    async def _run(self, target: Target) -> None:
        """Write what waits for a target until nothing does."""
        try:
            while batch := self._take(target):
                bodies = [body for body, _ in batch]
                try:
                    outcomes = await run_sync(self._writer.write, target, bodies, limiter=self._threads)
                except Exception as error:
                    logger.exception("unexpected error in schemaless writing")
                    outcomes = [InternalError(f"{type(error).__name__}: {error}")] * len(batch)
                for (_, future), outcome in zip(batch, outcomes, strict=True):
                    if not future.done():
                        future.set_result(outcome)
        finally:
            self._running.discard(target)

    def _take(self, target: Target) -> list[Waiting]:
        """Take bodies of a batch from those that wait."""
        waiting, size = self._waiting.get(target, deque()), 0
        batch: list[Waiting] = []
        while waiting and (not batch or size + len(waiting[0][0]) <= self._max_batch_bytes):
            size += len(waiting[0][0])
            batch.append(waiting.popleft())
        if not waiting:
            self._waiting.pop(target, None)
        return batch

    def handlers(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """Return what answers each path."""
        return {
            **{path.decode(): self.influx for path in INFLUX_PATHS},
            "/opentsdb/v1/put/json/{database}": partial(self.opentsdb, protocol=JSON),
            "/opentsdb/v1/put/telnet/{database}": partial(self.opentsdb, protocol=TELNET),
        }


def line_target(user: str, parameters: Mapping[str, str]) -> Target:
    """Return where lines are written, by the parameters of a URL of InfluxDB 1, or of InfluxDB 2, whose bucket is the database."""
    database = parameters.get("db") or parameters.get("bucket", "").partition("/")[0]
    return Target(user, database, unit=parameters.get("precision") or "ns")


def http_status(error: Error) -> int:
    match error:
        case AuthenticationError():
            return 401
        case PermissionDeniedError():
            return 403
        case NotFoundError():
            return 404
        case TooLargeError():
            return 413
        case InternalError():
            return 500
        case TerminalError():
            return 400
        case _:
            return 503


INFLUX_CODES: Final = {
    400: "invalid",
    401: "unauthorized",
    403: "forbidden",
    404: "not found",
    413: "request too large",
    500: "internal error",
    503: "unavailable",
}


def influx_error(error: Error) -> Response:
    """Return an error as InfluxDB's clients of both versions read it."""
    status, text = http_status(error), description(error)
    return JSONResponse({"code": INFLUX_CODES[status], "message": text, "error": text}, status)


def opentsdb_error(error: Error) -> Response:
    """Return an error as TDengine answers to OpenTSDB's clients."""
    return JSONResponse({"code": code_of(error), "message": description(error)}, http_status(error))
