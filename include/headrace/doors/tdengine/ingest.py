"""Schemaless writing over HTTP: requests that arrive while others are written are read and written together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from anyio.to_thread import run_sync
from starlette.responses import JSONResponse, Response

from headrace.doors.batches import Batches
from headrace.doors.tdengine.access import NAME, origin_of
from headrace.doors.tdengine.codes import code_of, description
from headrace.doors.tdengine.schemaless.writes import JSON, TELNET, Outcome, SchemalessWriter, Target
from headrace.errors import AuthenticationError, Error, InternalError, NotFoundError, PermissionDeniedError, TerminalError
from headrace.runtime.http import MAX_LOGINS
from headrace.runtime.http_limits import RequestLimits, TooLargeError, TooSlowError

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.doors.tdengine.access import Access
    from headrace.model.access import Principal

logger = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 64 << 20
MAX_BATCH_BYTES: Final = 4 << 20
"""Bodies that are read together have at most this size, unless there is only one."""
MAX_BATCHES: Final = 4
"""Batches that are read and written at the same time, each of another target."""
INFLUX_PATHS: Final = (b"/influxdb/v1/write", b"/influxdb/v1/api/v2/write")
MAX_REMEMBERED_TARGETS: Final = 1_000
Describe = Callable[[Error], Response]


class Ingestion:
    """Collects the bodies of requests, and writes those to the same target together. Used in one event loop.

    The bodies of further requests than `limits` have memory for are not read from their connections before there is room.
    """

    def __init__(self, writer: SchemalessWriter, access: Access, limits: RequestLimits, delay_ms: int) -> None:
        """Create it. Requests wait for others for `delay_ms` at most; 0 writes each alone."""
        self._writer = writer
        self._access = access
        self._limits = limits
        self._delay_s = delay_ms / 1_000
        self._batches: dict[Target, Batches[bytes, Outcome]] = {}
        self._writers = ThreadPoolExecutor(MAX_BATCHES, thread_name_prefix="schemaless")
        self._logins = anyio.CapacityLimiter(MAX_LOGINS)

    async def influx(self, request: Request) -> Response:
        """Write line protocol, as clients of InfluxDB 1 and 2 send it."""
        query = dict(request.query_params)
        return await self._answer(request, lambda principal: line_target(principal, query), influx_error)

    async def opentsdb(self, request: Request, protocol: str) -> Response:
        """Write points of OpenTSDB."""
        database = request.path_params["database"]
        return await self._answer(request, lambda principal: Target(principal, database, protocol), opentsdb_error)

    async def _answer(self, request: Request, target: Callable[[Principal], Target], describe: Describe) -> Response:
        try:
            error = await self._write(request, target)
        except Error as raised:
            error = raised
        except Exception as unexpected:
            logger.exception("unexpected error in schemaless writing")
            error = InternalError(f"{type(unexpected).__name__}: {unexpected}")
        return Response(status_code=204) if error is None else describe(error)

    async def _write(self, request: Request, target: Callable[[Principal], Target]) -> Outcome:
        access = self._access
        credentials = access.credentials(request.headers.get("authorization", ""), dict(request.query_params))
        principal = access.verified(credentials)
        if principal is None:
            principal = await run_sync(access.principal, credentials, origin_of(request), limiter=self._logins)
        # Requests of several connections are written together, so the address of none is theirs.
        chosen = target(replace(principal, origin=NAME))
        async with self._limits.body(request, principal.name, MAX_BODY_BYTES) as body:
            return await self._written(chosen, body)

    def verified(self, authorization: str, parameters: Mapping[str, str]) -> Principal | None:
        """Return who sends a request if the password was right a short time ago; None if it has to be checked.

        Raises:
            AuthenticationError: There are no credentials, or they cannot be read.
        """
        principal = self._access.verified(self._access.credentials(authorization, parameters))
        return None if principal is None else replace(principal, origin=NAME)

    def try_reserve(self, user: str, size: int) -> bool:
        """Reserve memory for a body of a user, unless others wait for it or there is too little."""
        return self._limits.memory.try_reserve(user, size)

    def release(self, user: str, size: int) -> None:
        """Return what was reserved, to those that wait for it."""
        self._limits.memory.release(user, size)

    def submit(self, target: Target, body: bytes, reply: Callable[[Outcome], None]) -> None:
        """Write a body with the next batch of its target, and call `reply` with what has become of it."""
        self._batches_of(target).submit(body, reply)

    async def _written(self, target: Target, body: bytes) -> Outcome:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.submit(target, body, lambda outcome: None if future.done() else future.set_result(outcome))
        return await future

    def _batches_of(self, target: Target) -> Batches[bytes, Outcome]:
        if target not in self._batches:
            if len(self._batches) >= MAX_REMEMBERED_TARGETS:
                self._batches = {one: own for one, own in self._batches.items() if not own.is_idle}
            write = partial(self._write_bodies, target)
            self._batches[target] = Batches(self._writers, write, len, delay_s=self._delay_s, max_bytes=MAX_BATCH_BYTES)
        return self._batches[target]

    def _write_bodies(self, target: Target, bodies: Sequence[bytes]) -> Sequence[Outcome]:
        try:
            return self._writer.write(target, bodies)
        except Exception as error:
            logger.exception("unexpected error in schemaless writing")
            return [InternalError(f"{type(error).__name__}: {error}")] * len(bodies)

    def close(self) -> None:
        """Write no further batches."""
        self._writers.shutdown(wait=False, cancel_futures=True)

    def handlers(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """Return what answers each path."""
        return {
            **{path.decode(): self.influx for path in INFLUX_PATHS},
            "/opentsdb/v1/put/json/{database}": partial(self.opentsdb, protocol=JSON),
            "/opentsdb/v1/put/telnet/{database}": partial(self.opentsdb, protocol=TELNET),
        }


def line_target(principal: Principal, parameters: Mapping[str, str]) -> Target:
    """Return where lines are written, by the parameters of a URL of InfluxDB 1, or of InfluxDB 2, whose bucket is the database."""
    database = parameters.get("db") or parameters.get("bucket", "").partition("/")[0]
    return Target(principal, database, unit=parameters.get("precision") or "ns")


def http_status(error: Error) -> int:
    match error:
        case AuthenticationError():
            return 401
        case PermissionDeniedError():
            return 403
        case NotFoundError():
            return 404
        case TooSlowError():
            return 408
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
    408: "timeout",
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
