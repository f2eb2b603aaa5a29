"""The routes of the page's worksheet."""

# No `from __future__ import annotations`: FastAPI cannot resolve string annotations of handlers defined in a function.
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal, TypeAlias

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from headrace.context import Context
from headrace.errors import AuthenticationError, Error, PermissionDeniedError
from headrace.runtime.http import error_body, status_of
from headrace.runtime.snode_client import JSON
from headrace.settings import Settings
from headrace.web.users import MappedAccess
from headrace.web.worksheet_statements import StatementSlots, Worksheet, WorksheetStatement, statements_of

MAX_SQL_CHARACTERS: Final = 1_000_000
MAX_NAME_LENGTH: Final = 200
EVERYTHING: Final[list[str]] = []
"""The path above all databases."""
Dialect: TypeAlias = Literal["tdengine", "iotdb"]
Sql: TypeAlias = Annotated[str, Field(max_length=MAX_SQL_CHARACTERS)]
Short: TypeAlias = Annotated[str, Field(max_length=MAX_NAME_LENGTH)]


class Text(BaseModel):
    """What the editor has."""

    sql: Sql
    dialect: Dialect = "tdengine"


class Run(Text):
    """A statement to run. `id` is any text by which to cancel it."""

    database: Short = ""
    id: Short = ""


class Complete(Text):
    """A text to complete at a cursor, an offset in it."""

    database: Short = ""
    cursor: int = Field(ge=0)


class Cancel(BaseModel):
    """The `id` of a statement to cancel."""

    id: Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]


def add_worksheet(
    router: APIRouter,
    access: MappedAccess,
    context: Callable[[], Context],
    settings: Settings,
    same_origin: Callable[..., None],
    limit: Sequence[Any],
) -> None:
    """Add the routes. `limit` bounds requests that wait for the catalog; statements have bounds of their own."""
    worksheet = Worksheet(access, context)
    slots, threads = StatementSlots(settings.worksheet_statements), anyio.CapacityLimiter(settings.worksheet_statements)
    User: TypeAlias = Annotated[Any, Depends(access.authenticate)]
    own = [Depends(same_origin)]

    @router.get("/worksheet", dependencies=limit)
    def opened(user: User) -> Response:
        return answered(lambda: describe(worksheet, user, access.user_name(user), settings.dialect))

    @router.get("/worksheet/names", dependencies=limit)
    def names(user: User, dialect: Dialect = "tdengine", path: Annotated[list[Short], Query()] = EVERYTHING) -> Response:
        return answered(lambda: {"names": worksheet.names(user, dialect, path)})

    @router.post("/worksheet/statements", dependencies=[*own, *limit])
    def split(body: Text, user: User) -> dict[str, Any]:  # noqa: ARG001
        return {"statements": statements_of(body.sql, body.dialect)}

    @router.post("/worksheet/complete", dependencies=[*own, *limit])
    def complete(body: Complete, user: User) -> Response:
        return answered(lambda: completed(worksheet, user, body))

    @router.post("/worksheet/cancel", dependencies=[*own, *limit])
    def cancel(body: Cancel, user: User) -> Response:
        return answered(lambda: {"canceled": worksheet.cancel(user, body.id)})

    @router.post("/worksheet/run", dependencies=own)
    async def run(body: Run, request: Request, user: User) -> Response:
        statement = WorksheetStatement(body.sql, body.dialect, body.database or None, body.id)
        origin = origin_of(request, access.user_name(user))
        try:
            with slots.taken(access.user_name(user)):
                content = await run_sync(worksheet.run, user, statement, origin, limiter=threads)
        except Error as error:
            return error_response(error.with_sql(body.sql))
        return Response(content, media_type=JSON)


def describe(worksheet: Worksheet, user: Any, name: str, dialect: str) -> dict[str, Any]:
    """Return what the editor needs to know first."""
    return {"user": name, "dialect": dialect, "is_ready": worksheet.is_ready(user), "databases": worksheet.databases(user)}


def completed(worksheet: Worksheet, user: Any, body: Complete) -> dict[str, Any]:
    suggestions, length = worksheet.complete(user, body.sql, body.cursor, body.dialect, body.database or None)
    return {"length": length, "suggestions": [asdict(one) for one in suggestions]}


def origin_of(request: Request, user: str) -> str:
    """Return where a statement comes from, for the audit log: the page, Airflow's user, and the address of the client."""
    client = request.client
    return f"page {user}" if client is None else f"page {user} {client.host}:{client.port}"


def answered(answer: Callable[[], dict[str, Any]]) -> Response:
    """Return an answer as JSON, or an error with its place in the statement."""
    try:
        return JSONResponse(answer())
    except Error as error:
        return error_response(error)


def error_response(error: Error) -> Response:
    status = 403 if isinstance(error, PermissionDeniedError | AuthenticationError) else status_of(error)
    return JSONResponse(error_body(error), status)
