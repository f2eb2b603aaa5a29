"""The HTTP application of the door: SQL, login, and schemaless writing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router

from headrace.doors.gate import TooManyConnectionsError
from headrace.doors.tdengine.access import NAME, Access, Credentials, origin_of
from headrace.doors.tdengine.answers import Format, answer, zone_name
from headrace.doors.tdengine.codes import OTHER, code_of, description
from headrace.doors.tdengine.ingest import MAX_BODY_BYTES, Ingestion
from headrace.doors.tdengine.schemaless.writes import SchemalessWriter
from headrace.errors import AuthenticationError, DataError, Error, InternalError
from headrace.model.masking import masked
from headrace.runtime.http import MAX_LOGINS
from headrace.runtime.http_limits import MAX_SQL_BYTES, RequestLimits, TooLargeError, TooSlowError

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.compute import AnyPlan
    from headrace.doors.gate import Gate
    from headrace.model.access import Principal
    from headrace.model.connections import Origin
    from headrace.service.results import Result

logger = logging.getLogger(__name__)

Handle = Callable[["Request"], Awaitable[Response]]


@dataclass(slots=True)
class RestInterface:
    """Answers `/rest/…`."""

    gate: Gate
    access: Access
    limits: RequestLimits
    logins: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(MAX_LOGINS))

    async def sql(self, request: Request) -> Response:
        """Run the statement in the body, in the database of the path, if there is one."""
        principal = await self.principal(request)
        format = format_of(request)
        database = request.path_params.get("database")
        async with self.limits.body(request, principal.name, MAX_SQL_BYTES) as body:
            sql = text_of(body)
        run = partial(self.run, origin_of(request), principal, sql, database)
        result, plan = await self.limits.run(request, self.gate.abandon, principal.name, run)
        return StreamingResponse(answer(result, plan, format), media_type="application/json")

    async def login(self, request: Request) -> Response:
        """Return a token that replaces a name and a password."""
        names = request.path_params
        token = await run_sync(self.access.token, names["user"], names["password"], origin_of(request), limiter=self.logins)
        return JSONResponse({"code": 0, "desc": token})

    async def principal(self, request: Request) -> Principal:
        """Return who sends a request, or raise `AuthenticationError`."""
        return await authenticated(self.access, self.access.credentials(*credentials_of(request)), origin_of(request), self.logins)

    def run(self, origin: Origin, principal: Principal, sql: str, database: str | None) -> tuple[Result, AnyPlan | None]:
        """Run a statement in a session of its own."""
        connection = self.gate.open_as(origin, principal, NAME, database)
        try:
            return connection.run(sql)
        finally:
            self.gate.close(connection)


async def authenticated(access: Access, credentials: Credentials, origin: Origin, limiter: anyio.CapacityLimiter) -> Principal:
    """Return who has credentials; checking a password takes a thread."""
    verified = access.verified(credentials)
    return verified if verified is not None else await run_sync(access.principal, credentials, origin, limiter=limiter)


def credentials_of(request: Request) -> tuple[str, dict[str, str]]:
    return request.headers.get("authorization", ""), dict(request.query_params)


def text_of(body: bytes) -> str:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise DataError("the body is not UTF-8", hint="encode it as UTF-8") from None
    if not text.strip():
        raise DataError("the body has no statement", hint="send the statement as the body")
    return text


def format_of(request: Request) -> Format:
    """Return how the request wants rows to be written."""
    written = request.query_params.get("tz") or "UTC"
    timezone = zone_name(written)
    if timezone is None:
        raise HTTPException(400, f"unknown time zone {written}")
    return Format(timezone, request.query_params.get("row_with_meta", "").lower() == "true")


def guarded(handle: Handle) -> Handle:
    """Return a handler that answers errors as TDengine does: with status 200, unless the request itself is at fault."""

    async def answered(request: Request) -> Response:
        try:
            return await handle(request)
        except Error as error:
            return JSONResponse({"code": code_of(error), "desc": description(error)}, status_of(error))
        except HTTPException as error:
            return JSONResponse({"code": OTHER, "desc": error.detail}, error.status_code)
        except Exception as error:
            logger.exception("unexpected error in a request of the door %s: %s", NAME, masked(str(request.url.path)))
            return JSONResponse({"code": OTHER, "desc": f"{type(error).__name__}: {error}"}, 500)

    return answered


def status_of(error: Error) -> int:
    match error:
        case AuthenticationError():
            return 401
        case TooSlowError():
            return 408
        case TooLargeError():
            return 413
        case TooManyConnectionsError():
            return 503
        case InternalError():
            return 500
        case _:
            return 200


async def ping(_: Request) -> Response:
    """Say that the door is open."""
    return Response()


def create_app(gate: Gate, access: Access) -> tuple[Router, Ingestion]:
    """Return the application, and what writes without a schema in it.

    It is a router alone, as the handlers answer errors themselves. Most requests write: these come first.
    """
    settings = gate.context.settings
    limits = RequestLimits(max(settings.group_commit_bytes, MAX_BODY_BYTES))
    writer = SchemalessWriter(partial(gate.create_session, dialect=NAME))
    ingestion = Ingestion(writer, access, limits, settings.group_commit_ms)
    rest = RestInterface(gate, access, limits)
    route = partial(Route, methods=["POST"])
    routes = [
        *(route(path, handler) for path, handler in ingestion.handlers().items()),
        route("/rest/sql", guarded(rest.sql)),
        route("/rest/sql/{database}", guarded(rest.sql)),
        Route("/rest/login/{user}/{password}", guarded(rest.login), methods=["GET"]),
        Route("/-/ping", ping, methods=["GET"]),
    ]
    return Router(routes=routes), ingestion
