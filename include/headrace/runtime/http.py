"""The snode's HTTP endpoint on the loopback interface: SQL, health and metrics, behind a bearer token."""

from __future__ import annotations

import base64
import hmac
import logging
import math
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel

from headrace.errors import ConfigurationError, Error, InternalError, OperationalError, TerminalError

if TYPE_CHECKING:
    import pyarrow as pa
    import uvicorn

logger = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
ARROW: Final = "application/vnd.apache.arrow.stream"
PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement returned: rows, or None for a statement that returns none, and how many rows it changed."""

    rows: pa.Table | None
    affected: int = -1


RunSql = Callable[[str, str, str | None], Answer]
"""Runs one statement, `(sql, dialect, current database)`; raises `headrace.errors.Error`. Called from several threads."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the snode does its work, and what tells so."""

    healthy: bool
    details: dict[str, Any]


class Statement(BaseModel):
    """Body of `POST /sql`."""

    sql: str
    dialect: str = "tdengine"
    database: str | None = None


def create_app(token: str, run_sql: RunSql, health: Callable[[], Health], metrics: Callable[[], str]) -> FastAPI:
    """The application. `/health` tells its status to anyone, its details and all else to who has the token."""
    app = FastAPI(title="Headrace snode", docs_url=None, redoc_url=None, openapi_url=None)

    def authorised(authorization: str = Header("")) -> bool:
        scheme, _, given = authorization.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())

    def required(allowed: bool = Depends(authorised)) -> None:
        if not allowed:
            raise HTTPException(401, "a token is needed: Authorization: Bearer …", headers={"WWW-Authenticate": "Bearer"})

    @app.post("/sql", dependencies=[Depends(required)])
    async def sql(statement: Statement, request: Request) -> Response:
        arrow = ARROW in request.headers.get("accept", "")
        return await run_in_threadpool(answer, run_sql, statement, arrow)

    @app.get("/health")
    def healthy(allowed: bool = Depends(authorised)) -> Response:
        state = health()
        status = {"status": "ok" if state.healthy else "failing"}
        return JSONResponse(status | (state.details if allowed else {}), 200 if state.healthy else 503)

    @app.get("/metrics", dependencies=[Depends(required)])
    def prometheus() -> Response:
        return PlainTextResponse(metrics(), media_type=PROMETHEUS)

    return app


def answer(run_sql: RunSql, statement: Statement, arrow: bool) -> Response:
    """Run a statement and dress what it returned, or the error it raised."""
    try:
        result = run_sql(statement.sql, statement.dialect, statement.database)
    except Error as error:
        return JSONResponse(error_body(error.located(statement.sql)), status_of(error))
    except Exception as error:
        logger.exception("a statement failed in a way nobody foresaw: %s", statement.sql)
        return JSONResponse(error_body(InternalError(f"{type(error).__name__}: {error}")), 500)
    return arrow_response(result) if arrow and result.rows is not None else JSONResponse(json_body(result))


def status_of(error: Error) -> int:
    """400 where the statement is to blame, 503 where trying again may help, else 500."""
    if isinstance(error, InternalError):
        return 500
    return 400 if isinstance(error, TerminalError) else 503


def error_body(error: Error) -> dict[str, Any]:
    line, column = (None, None) if error.span is None or error.sql is None else error.span.position(error.sql)
    return {"code": error.code, "message": error.message, "hint": error.hint, "line": line, "column": column}


def arrow_response(result: Answer) -> Response:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    assert result.rows is not None
    with pa.ipc.new_stream(sink, result.rows.schema) as writer:
        writer.write_table(result.rows)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW)


def json_body(result: Answer) -> dict[str, Any]:
    """Columns with their Arrow types, and rows as lists."""
    if result.rows is None:
        return {"columns": [], "rows": [], "affected": result.affected}
    columns = [{"name": field.name, "type": str(field.type)} for field in result.rows.schema]
    values = [[plain(value) for value in column.to_pylist()] for column in result.rows.columns]
    return {"columns": columns, "rows": [list(row) for row in zip(*values, strict=True)], "affected": result.affected}


def plain(value: object) -> object:
    """A value as JSON has it: instants in ISO 8601, decimals and what is no finite number as text, bytes in base64."""
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date():
            return value.isoformat()
        case Decimal() | timedelta():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return value


class Endpoint:
    """The application served on a loopback port by a thread of its own."""

    def __init__(self, app: FastAPI, port: int = 0) -> None:
        """Bind the port (0: a free one); a `ConfigurationError` says when it is taken."""
        self._socket = _bind(port)
        self.port: int = self._socket.getsockname()[1]
        self._server = _server(app)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def start(self, timeout_s: float = 10.0) -> None:
        """Serve; returns once requests are taken."""
        self._thread.start()
        deadline = time.monotonic() + timeout_s
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise OperationalError("the HTTP endpoint did not start", hint="see the log of the snode")
            time.sleep(0.01)

    def stop(self) -> None:
        """End; requests that are being answered get two seconds."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(3)
        self._socket.close()


def _bind(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((LOOPBACK, port))
    except OSError as error:
        bound.close()
        raise ConfigurationError(
            f"port {port} of {LOOPBACK} cannot be taken: {error.strerror}",
            hint="set HEADRACE_HTTP_PORT to a free port, or to 0 for any",
        ) from None
    return bound


def _server(app: FastAPI) -> uvicorn.Server:
    import uvicorn

    return uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2))
