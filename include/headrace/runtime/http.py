"""The snode's HTTP endpoint: SQL, health and metrics, protected by bearer tokens."""

from __future__ import annotations

import base64
import io
import json
import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import BaseModel, Field, RootModel, ValidationError

from headrace.errors import AuthenticationError, Error, InternalError, TerminalError
from headrace.model.access import Principal
from headrace.model.connections import Origin
from headrace.model.masking import masked
from headrace.runtime.credentials import Identity, are_equal, identity_proof, session_token
from headrace.runtime.http_limits import MAX_SQL_BYTES, Abandon, RequestLimits, TooLargeError, TooSlowError
from headrace.runtime.snode_client import ARROW, JSON, TRIGGERS_PATH

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

MIN_NONCE_LENGTH: Final = 16
MAX_NONCE_LENGTH: Final = 128
BATCH_ROWS: Final = 65_536
"""Rows of a result that are sent at a time."""
MAX_JSON_ROWS: Final = 1_000
"""Clients that accept both JSON and Arrow get results of more rows as Arrow."""
MAX_SHOWN_BYTES: Final = 8 << 20
"""Size in Arrow's format of a result of which a client wants the first rows."""
MAX_ORIGIN_LENGTH: Final = 200
MAX_LOGINS: Final = 4
"""Passwords that are checked at the same time; others wait without a thread."""
MAX_TRIGGER_BYTES: Final = 64 << 20
"""The largest body that calls a trigger."""
PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The result of a statement: its rows, or None if it returns none, and the number of rows it changed."""

    rows: pa.Table | None
    affected: int = -1


@dataclass(frozen=True, slots=True)
class StatementOptions:
    """What a client asks for beside a statement.

    Attributes:
        label: A name of its queries, by which the user can cancel them; empty for none.
        max_rows: As many rows of a query as the client wants; None for all.
    """

    label: str = ""
    max_rows: int | None = None


NO_OPTIONS: Final = StatementOptions()


class RunSql(Protocol):
    """Runs statements. Thread-safe."""

    def __call__(
        self,
        sql: str,
        dialect: str,
        database: str | None = None,
        principal: Principal | None = None,
        options: StatementOptions = NO_OPTIONS,
    ) -> StatementResult:
        """Run a statement of a principal, or of who has the token if it is None. Raise `headrace.errors.Error`."""
        ...


class SqlService(RunSql, Protocol):
    """Runs statements, and ends queries among them."""

    def cancel(self, user: str, label: str) -> bool:
        """End the queries that a user runs under a label; return False if there are none."""
        ...

    def abandon(self, thread: int) -> bool:
        """End the query that a thread runs, since its client is gone; return False if it runs none."""
        ...

    def vouch(self, name: str | None, origin: str) -> Principal:
        """Return the principal as which who has the token acts: a user that they name, or themselves."""
        ...


HTTP_USER: Final = "http"
"""The name of who has the token and names no user."""
Authenticate = Callable[[str, str, Origin], Principal]
"""Takes the name and password of a user, and where they come from. Raises `AuthenticationError`."""
Vouch = Callable[[str | None, str], Principal]
"""See `SqlService.vouch`."""


def token_holder(name: str | None, origin: str) -> Principal:
    """Return the principal of who has the token: everything is allowed, or what a user may that they name."""
    return Principal(HTTP_USER, is_trusted=True, origin=origin) if name is None else Principal.named(name, origin)


RunTrigger = Callable[[dict[str, Any]], dict[str, Any]]
"""Calls a stateful trigger: see `runtime.trigger_calls`. Raises `headrace.errors.Error`. Must be thread-safe."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the snode works, with details. `is_slow`: a micro-batch takes longer than it should."""

    healthy: bool
    details: dict[str, Any]
    is_slow: bool = False

    @property
    def status(self) -> str:
        """The state in one word: ok, slow or failing."""
        return "failing" if not self.healthy else "slow" if self.is_slow else "ok"


class Statement(BaseModel):
    """The body of `POST /sql`. Who has the token may act as any user."""

    sql: str
    dialect: str = "tdengine"
    database: str | None = None
    user: str | None = None
    origin: str = ""
    label: str = ""
    max_rows: int | None = Field(default=None, ge=1)


class Cancellation(BaseModel):
    """The body of `POST /sql/cancel`."""

    label: str
    user: str | None = None


class TriggerCall(RootModel[dict[str, Any]]):
    """The body of a call of a trigger."""


Body = TypeVar("Body", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, and where from: a principal who has logged in, or who has the token if that is None."""

    principal: Principal | None
    origin: Origin

    @property
    def owner(self) -> str:
        """Whose share of the server's memory and threads a request takes."""
        return share_of(None if self.principal is None else self.principal.name)


def share_of(user: str | None) -> str:
    """Return the name of a user's share; holders of the token who name no user have one of their own."""
    return "" if user is None else f"user {user}"


@dataclass(frozen=True, slots=True)
class Guard:
    """The tokens of an endpoint: one for everything, one to read metrics and health, and a session token for each epoch."""

    token: str
    read_token: str = ""
    identity: Callable[[], Identity] = lambda: Identity(0, "")

    def may_write(self, bearer: str) -> bool:
        return are_equal(bearer, self.token) or are_equal(bearer, session_token(self.token, self.identity()))

    def may_read(self, bearer: str) -> bool:
        return self.may_write(bearer) or (self.read_token != "" and are_equal(bearer, self.read_token))


def bearer_token(authorization: str = Header("")) -> str:
    """Return the bearer token of a request; empty if there is none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def basic_credentials(authorization: str) -> tuple[str, str] | None:
    """Return the name and password of basic authentication; None if a request has none."""
    scheme, _, encoded = authorization.partition(" ")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except ValueError:
        return None
    name, colon, password = text.partition(":")
    return (name, password) if scheme.lower() == "basic" and colon else None


def unauthorized() -> HTTPException:
    return HTTPException(401, "a token is required: Authorization: Bearer …", headers={"WWW-Authenticate": "Bearer"})


def create_app(
    guard: Guard,
    run_sql: RunSql,
    health: Callable[[], Health],
    metrics: Callable[[], str],
    run_trigger: RunTrigger | None = None,
    authenticate: Authenticate | None = None,
    cancel: Callable[[str, str], bool] | None = None,
    vouch: Vouch = token_holder,
    abandon: Abandon = lambda _: False,
) -> FastAPI:
    """Return the application. The bare status and a proof of identity are public; everything else needs a token.

    Statements may come with the name and password of a user (HTTP's basic authentication) if `authenticate` checks them. `vouch`
    says as whom those act who have the token, and `abandon` ends queries whose clients are gone.
    """
    app = FastAPI(title="Headrace snode", docs_url=None, redoc_url=None, openapi_url=None)

    limits = RequestLimits()

    def reader(bearer: str = Depends(bearer_token)) -> None:
        if not guard.may_read(bearer):
            raise unauthorized()

    @app.get("/identity")
    def identity(nonce: str = Query(min_length=MIN_NONCE_LENGTH, max_length=MAX_NONCE_LENGTH)) -> dict[str, str]:
        return {"proof": identity_proof(guard.token, nonce, guard.identity())}

    add_statements(app, run_sql, partial(find_caller, guard, authenticate), vouch, cancel, abandon, limits)

    if run_trigger is not None:
        add_triggers(app, partial(find_caller, guard, None), run_trigger, limits)

    @app.exception_handler(Error)
    def failed(_: Request, error: Error) -> Response:
        return JSONResponse(error_body(error), status_of(error))

    @app.get("/health")
    def healthy(bearer: str = Depends(bearer_token)) -> Response:
        state = health()
        status = {"status": state.status}
        return JSONResponse(status | (state.details if guard.may_read(bearer) else {}), 200 if state.healthy else 503)

    @app.get("/metrics", dependencies=[Depends(reader)])
    def prometheus() -> Response:
        return PlainTextResponse(metrics(), media_type=PROMETHEUS)

    return app


def add_statements(
    app: FastAPI,
    run_sql: RunSql,
    find: Callable[[Request], Caller],
    vouch: Vouch,
    cancel: Callable[[str, str], bool] | None,
    abandon: Abandon,
    limits: RequestLimits,
) -> None:
    """Run statements, and cancel queries if `cancel` is given. Credentials are checked before a body is read."""
    logins = CapacityLimiter(MAX_LOGINS)

    async def caller_of(request: Request) -> Caller:
        """Return who sends a request. Passwords have threads of their own: many wrong ones leave those of other requests alone."""
        is_login = basic_credentials(request.headers.get("authorization", "")) is not None
        return await run_sync(find, request, limiter=logins if is_login else None)

    async def principal_of(caller: Caller, named: str | None, origin: str = "") -> tuple[Principal, str]:
        """Return as whom a request is run, and whose share it takes, once its body is read."""
        if caller.principal is not None:
            return caller.principal, caller.owner
        return await run_in_threadpool(vouch, named, origin[:MAX_ORIGIN_LENGTH] or str(caller.origin)), share_of(named)

    @app.post("/sql")
    async def sql(request: Request) -> Response:
        caller = await caller_of(request)
        async with limits.body(request, caller.owner, MAX_SQL_BYTES) as body:
            statement = parsed(Statement, body)
        principal, owner = await principal_of(caller, statement.user, statement.origin)
        options = StatementOptions(statement.label, statement.max_rows)
        accept = request.headers.get("accept", "")
        return await limits.run(request, abandon, owner, respond, run_sql, statement, principal, accept, options)

    if cancel is not None:

        @app.post("/sql/cancel")
        async def cancel_query(request: Request) -> dict[str, bool]:
            caller = await caller_of(request)
            async with limits.body(request, caller.owner, MAX_SQL_BYTES) as body:
                query = parsed(Cancellation, body)
            principal, _ = await principal_of(caller, query.user)
            return {"canceled": await run_in_threadpool(cancel, principal.name, query.label)}


def parsed(kind: type[Body], body: bytes) -> Body:
    """Return the content of a body; raise `HTTPException` if it is another."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise HTTPException(422, error.errors(include_url=False, include_context=False, include_input=False)) from None


def find_caller(guard: Guard, authenticate: Authenticate | None, request: Request) -> Caller:
    """Return who sends a request: a holder of the token, or a user who logs in.

    Raises:
        HTTPException: 401 if the credentials are missing or wrong.
    """
    authorization = request.headers.get("authorization", "")
    origin = Origin(HTTP_USER, "" if request.client is None else f"{request.client.host}:{request.client.port}")
    if guard.may_write(bearer_token(authorization)):
        return Caller(None, origin)
    credentials = basic_credentials(authorization)
    if authenticate is None or credentials is None:
        raise unauthorized()
    try:
        return Caller(authenticate(*credentials, origin), origin)
    except AuthenticationError as error:
        raise HTTPException(401, error.message, headers={"WWW-Authenticate": "Basic"}) from None


def add_triggers(app: FastAPI, caller_of: Callable[[Request], Caller], run_trigger: RunTrigger, limits: RequestLimits) -> None:
    """Let holders of the token call stateful triggers."""

    @app.post(TRIGGERS_PATH)
    async def trigger(request: Request) -> Response:
        caller = caller_of(request)
        async with limits.body(request, caller.owner, MAX_TRIGGER_BYTES) as body:
            call = parsed(TriggerCall, body).root
        return JSONResponse(await run_in_threadpool(run_trigger, call))


def respond(run_sql: RunSql, statement: Statement, principal: Principal, accept: str, options: StatementOptions) -> Response:
    try:
        result = run_sql(statement.sql, statement.dialect, statement.database, principal, options)
    except Error as error:
        return JSONResponse(error_body(error.with_sql(statement.sql)), status_of(error))
    except Exception as error:
        logger.exception("unexpected error in a statement: %s", masked(statement.sql))
        return JSONResponse(error_body(InternalError(f"{type(error).__name__}: {error}")), 500)
    if result.rows is None:
        return JSONResponse({"columns": [], "rows": [], "affected": result.affected})
    rows = first_rows(result.rows, options.max_rows)
    if ARROW in accept and not (JSON in accept and rows.num_rows <= MAX_JSON_ROWS):
        return StreamingResponse(arrow_parts(rows), media_type=ARROW)
    has_more = None if options.max_rows is None else rows.num_rows < result.rows.num_rows
    return StreamingResponse(json_parts(rows, result.affected, has_more=has_more), media_type=JSON)


def first_rows(rows: pa.Table, max_rows: int | None) -> pa.Table:
    """Return at most `max_rows` rows, and so few that they have about `MAX_SHOWN_BYTES`; all if it is None."""
    if max_rows is None:
        return rows
    rows = rows.slice(0, max_rows)
    while rows.nbytes > MAX_SHOWN_BYTES and rows.num_rows > 1:
        rows = rows.slice(0, rows.num_rows // 2)
    return rows


def status_of(error: Error) -> int:
    """Return the HTTP status of an error: 4xx if the request is wrong, 503 if a later try may succeed, else 500."""
    match error:
        case TooLargeError():
            return 413
        case TooSlowError():
            return 408
        case InternalError():
            return 500
        case AuthenticationError():
            return 401
        case _:
            return 400 if isinstance(error, TerminalError) else 503


def error_body(error: Error) -> dict[str, Any]:
    line, column = (None, None) if error.span is None or error.sql is None else error.span.position(error.sql)
    span = None if error.span is None else [error.span.start, error.span.end]
    location = {"line": line, "column": column, "span": span, "sql": None if error.sql is None else masked(error.sql)}
    return {"code": error.code, "message": error.message, "hint": error.hint} | location


def arrow_parts(rows: pa.Table) -> Iterator[bytes]:
    """Return the parts of an Arrow stream, of which one at a time is in memory."""
    import pyarrow as pa

    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
            writer.write_batch(batch)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()


def json_parts(rows: pa.Table, affected: int, *, has_more: bool | None = None) -> Iterator[str]:
    """Return the parts of a JSON object: columns with their Arrow types, rows as lists, and whether there are more, if asked."""
    columns = [{"name": field.name, "type": str(field.type)} for field in rows.schema]
    separator = f'{{"columns":{to_json(columns)},"rows":['
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        values = [[to_json_value(value) for value in column.to_pylist()] for column in batch.columns]
        yield separator + to_json([list(row) for row in zip(*values, strict=True)])[1:-1]
        separator = ","
    more = "" if has_more is None else f',"has_more":{to_json(has_more)}'
    yield f'{"" if separator == "," else separator}],"affected":{affected}{more}}}'


def to_json(value: object) -> str:
    """Write a value as JSON responses do."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_json_value(value: object) -> object:
    """Convert a value to JSON: times in ISO 8601, bytes in base64, decimals and non-finite numbers as strings."""
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
