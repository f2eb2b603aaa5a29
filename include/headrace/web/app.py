"""The page as an ASGI application: static files, and what they show as JSON. It reads the catalog; Spark is not needed.

Every path below `/api` needs a user; what changes something needs the right to edit the stream's DAG, a DROP that to delete it,
too, and must come from the page itself.
"""

# No `from __future__ import annotations`: FastAPI must see the types of handlers that are made in a function.
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel

from headrace.catalog import Catalog
from headrace.errors import ConfigurationError, Error, NotFoundError, TransientError
from headrace.model.clock import Clock
from headrace.model.jobs import JobRecord, JobState
from headrace.runtime.supervision import Snapshot, snapshot, stale_after_ms
from headrace.settings import Settings, current
from headrace.web import actions, view
from headrace.web.access import Access, refuse_foreign
from headrace.web.rates import Rates

log = logging.getLogger(__name__)

STATIC: Final = Path(__file__).parent / "static"
# However many pages are open, the catalog is read once in this many seconds.
FRESH_SECONDS: Final = 1.5
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

Execute = Callable[[str, str], None]
"""Runs a statement for a user; raises `headrace.errors.Error`."""


class Board:
    """The catalog as the page shows it, looked at no more often than needed."""

    def __init__(self, settings: Settings, clock: Clock | None) -> None:
        self._settings = settings
        self._clock = clock
        self._catalog: Catalog | None = None
        self._lock = threading.Lock()
        self._state: Snapshot | None = None
        self._read_at = 0.0
        self.rates = Rates()

    @property
    def stale_ms(self) -> int:
        return stale_after_ms(self._settings)

    @property
    def catalog(self) -> Catalog:
        if self._catalog is None:
            self._catalog = Catalog.open(self._settings.catalog, clock=None if self._clock is None else self._clock.now)
        return self._catalog

    def look(self) -> Snapshot:
        """A snapshot that is at most `FRESH_SECONDS` old."""
        with self._lock:
            if self._state is None or time.monotonic() - self._read_at > FRESH_SECONDS:
                self._state = snapshot(self.catalog, self.catalog.now())
                self._read_at = time.monotonic()
                self.rates.sample(self._state.jobs.values(), self._state.now)
            return self._state

    def forget(self) -> None:
        """Look anew next time: something has been changed."""
        with self._lock:
            self._state = None

    def now(self) -> int:
        """The catalog's time."""
        return self.catalog.now()


class Confirmed(BaseModel):
    """An action's body: the statement that the user has seen and confirmed."""

    sql: str


def create_app(
    access: Access, settings: Settings | None = None, *, execute: Execute | None = None, clock: Clock | None = None
) -> FastAPI:
    """The page for the users that `access` knows; `execute` runs the statements of actions, through the service by default."""
    chosen = settings or current()
    board = Board(chosen, clock)
    app = FastAPI(title="Headrace", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(api(access, board, execute or actions.through_service(chosen)), prefix="/api")
    app.mount("/", StaticFiles(directory=STATIC, html=True))
    app.add_exception_handler(Error, _refused)

    @app.middleware("http")
    async def headers(request: Request, call_next: Callable[[Request], Any]) -> Response:
        response: Response = await call_next(request)
        response.headers.update(HEADERS)
        return response

    return app


def api(access: Access, board: Board, execute: Execute) -> APIRouter:
    """The JSON behind the page."""
    router = APIRouter()
    User = Annotated[Any, Depends(access.user)]

    def visible(job_id: str, user: User) -> JobRecord:
        """The stream of the path, where the user may see it; else it does not exist."""
        record = board.catalog.jobs.by_id(job_id)
        dag_id = view.dag_of(record)
        if dag_id not in access.readable(user, {dag_id}):
            raise NotFoundError(f"no job has the id {job_id}")
        return record

    def own(request: Request) -> None:
        refuse_foreign(request, access.base_url)

    Visible = Annotated[JobRecord, Depends(visible)]

    @router.get("/streams")
    def streams(user: User) -> view.Json:
        state = permitted(board.look(), access, user)
        filling = [record for record in state.jobs.values() if record.state is JobState.FILLING]
        runs = {record.definition.id: board.catalog.ledger.summary(record.definition.id, view.HISTORY) for record in filling}
        return view.overview(state, runs, board.rates, board.stale_ms)

    @router.get("/streams/{job_id}")
    def stream(record: Visible, user: User) -> view.Json:
        detail = view.detail(board.catalog, record, board.now())
        return {**detail, "actions": actions.offered(record, lambda action: is_allowed(access, user, record, action))}

    @router.get("/streams/{job_id}/plan")
    def plan(record: Visible) -> view.Json:
        return {"plan": actions.plan_text(board.catalog, record)}

    @router.post("/streams/{job_id}/{action}", dependencies=[Depends(own)])
    def act(action: str, body: Confirmed, record: Visible, user: User) -> view.Json:
        if not is_allowed(access, user, record, action):
            raise HTTPException(403, f"you may see this stream, but not {action} it")
        sql = actions.statement(action, record)
        if sql is None or body.sql != sql:
            raise HTTPException(409, "the stream has changed meanwhile: look again")
        # First, so that nothing is done that is not on record.
        board.catalog.events.record("job", record.definition.id, "ASKED", f"{sql} by {access.name(user)}")
        log.info("%s asked for by %s", sql, access.name(user))
        execute(sql, access.name(user))
        board.forget()
        return {"done": sql}

    return router


def is_allowed(access: Access, user: Any, record: JobRecord, action: str) -> bool:
    """Return True where the user may take an action on a stream."""
    dag_id = view.dag_of(record)
    return access.editable(user, dag_id) and (action != actions.DROP or access.deletable(user, dag_id))


def permitted(state: Snapshot, access: Access, user: Any) -> Snapshot:
    """The snapshot without the streams that a user may not see."""
    dag_ids = {view.dag_of(record): job_id for job_id, record in state.jobs.items()}
    readable = access.readable(user, set(dag_ids))
    if len(readable) == len(dag_ids):
        return state
    kept = {dag_ids[dag_id] for dag_id in readable}
    return Snapshot(state.now, {key: state.jobs[key] for key in state.jobs if key in kept}, state.leases, state.beats)


def _refused(_: Request, error: Exception) -> JSONResponse:
    """Errors of ours as JSON, with the status that fits."""
    assert isinstance(error, Error)
    status = 404 if isinstance(error, NotFoundError) else 503 if isinstance(error, TransientError | ConfigurationError) else 409
    return JSONResponse({"code": error.code, "message": error.message, "hint": error.hint}, status_code=status)
