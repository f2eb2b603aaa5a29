"""The page as an ASGI application: static files and the JSON API behind them. It reads the catalog and needs no Spark.

All paths below `/api` need a user. Changes must come from the page itself and need the right to edit the job's DAG; DROP also
needs the right to delete it.
"""

# No `from __future__ import annotations`: FastAPI cannot resolve string annotations of handlers defined in a function.
import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel

from headrace.catalog import Catalog
from headrace.context import Context
from headrace.errors import ConfigurationError, Error, NotFoundError, OperationalError, TransientError
from headrace.jobs.actions import DROP
from headrace.model.clock import Clock, SystemClock
from headrace.model.execution_history import ExecutionHistory
from headrace.model.job_parts import part_ids
from headrace.model.jobs import JobRecord
from headrace.model.stream_metrics import Rate
from headrace.runtime.activity import measure, read_present
from headrace.runtime.context import Lazy, open_session, open_tables
from headrace.runtime.dag_ids import record_dag_id, snode_dag_id
from headrace.runtime.supervision import Snapshot
from headrace.runtime.trigger_metrics import CountedTriggers, counted_triggers
from headrace.settings import Settings, current
from headrace.web import actions, view
from headrace.web.access import Access, require_same_origin
from headrace.web.graph_view import make_graph
from headrace.web.job_views import add_job_views
from headrace.web.lineage_view import lineage_view
from headrace.web.metric_view import ChartRange, metric_charts
from headrace.web.query_view import LISTED_INTERVALS
from headrace.web.users import MappedAccess, service_executor
from headrace.web.version_view import version_rows
from headrace.web.worksheet import add_worksheet

log = logging.getLogger(__name__)

STATIC_FOLDER: Final = Path(__file__).parent / "static"
# All open pages share a snapshot, so this bounds the load on the catalog.
MAX_SNAPSHOT_AGE_S: Final = 1.5
# Airflow's API server has 40 threads. A catalog that hangs may occupy this many, and further requests fail after this long.
MAX_THREADS: Final = 8
MAX_WAIT_S: Final = 5.0
MAX_BODY_BYTES: Final = 8 << 20
SHOWN_SAMPLES: Final = 30
"""Samples of each stream whose rates are drawn in the list."""
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

Execute = Callable[[str, str, str], None]
"""Runs a statement in a dialect for a user; raises `headrace.errors.Error`."""
State: TypeAlias = tuple[Snapshot, dict[str, ExecutionHistory], dict[str, list[Rate]], CountedTriggers]
MISSING_HINT: Final = "it was dropped, or you have no right to read its DAG"


class PageData:
    """The data behind the page: the catalog, and a cached snapshot of it. Thread-safe."""

    def __init__(self, settings: Settings, clock: Clock | None) -> None:
        self.settings = settings
        self._clock = clock
        self._catalog: Catalog | None = None
        self._context: Context | None = None
        self._lock = threading.Lock()
        self._state: State | None = None
        self._read_at = 0.0
        self._is_outdated = threading.Event()

    @property
    def catalog(self) -> Catalog:
        """The catalog, opened on first use."""
        if self._catalog is None:
            self._catalog = Catalog.open(self.settings.catalog, clock=None if self._clock is None else self._clock.now)
        return self._catalog

    @property
    def context(self) -> Context:
        """The context in which the queries of jobs are planned, and what waits for them is measured; opened on first use."""
        if self._context is None:
            tables, spark = partial(open_tables, self.settings, self.catalog), partial(open_session, self.settings)
            self._context = Context(self.catalog, Lazy(tables), Lazy(spark), self._clock or SystemClock(), self.settings)
        return self._context

    def overview(self, access: MappedAccess, user: Any) -> view.Overview:
        """Return the jobs that a user may read, from data of the catalog that is at most `MAX_SNAPSHOT_AGE_S` old."""
        state, histories, rates, triggers = self._read()
        readable = filter_readable(state, access, user)
        # Triggers have no DAG: they are for those who may read the DAG of an snode.
        snodes = access.readable_dags(user, {snode_dag_id(name) for name in self.settings.own_snodes})
        seen = access.visible_triggers(user, triggers) if snodes else ()
        hidden = access.unread_jobs(user, readable.jobs.values())
        return view.make_overview(self.catalog, readable, histories, rates, self.settings, seen, hidden)

    def _read(self) -> State:
        if not self._lock.acquire(timeout=MAX_WAIT_S):
            raise unanswered()
        try:
            if self._state is None or self._is_outdated.is_set() or time.monotonic() - self._read_at > MAX_SNAPSHOT_AGE_S:
                self._is_outdated.clear()
                state = read_present(self.context)
                rates = self.catalog.stream_metrics.rates(since=state.now - SHOWN_SAMPLES * self.settings.metrics_interval_s * 1000)
                histories, triggers = self.catalog.executions.histories(LISTED_INTERVALS), counted_triggers(self.catalog)
                self._state = state, histories, rates, triggers
                self._read_at = time.monotonic()
            return self._state
        finally:
            self._lock.release()

    def invalidate(self) -> None:
        """Have the snapshot read again after a change."""
        self._is_outdated.set()

    def now(self) -> int:
        """Return the catalog's time in epoch milliseconds."""
        return self.catalog.now()


class ConfirmedAction(BaseModel):
    """Request body of an action: the statement that the user has seen and confirmed."""

    sql: str


def create_app(
    access: Access, settings: Settings | None = None, *, execute: Execute | None = None, clock: Clock | None = None
) -> FastAPI:
    """Create the page's application, by default with the settings of the environment and the time of the catalog database.

    `execute` runs the statements of actions, by default in the service.
    """
    settings = settings or current()
    data = PageData(settings, clock)
    app = FastAPI(title="Headrace", docs_url=None, redoc_url=None, openapi_url=None)
    mapped = MappedAccess(access, settings, lambda: data.catalog)
    app.include_router(create_router(mapped, data, execute or service_executor(settings)), prefix="/api")
    app.include_router(create_worksheet(mapped, data), prefix="/api")
    app.mount("/", StaticFiles(directory=STATIC_FOLDER, html=True))
    app.add_exception_handler(Error, _error_response)

    @app.middleware("http")
    async def headers(request: Request, call_next: Callable[[Request], Any]) -> Response:
        response: Response = refusal_of_body(request) or await call_next(request)
        response.headers.update(SECURITY_HEADERS)
        return response

    return app


def refusal_of_body(request: Request) -> Response | None:
    """Return why the body of a request is not read; None if it is. It is read before the user is known, so it has to be small."""
    length = request.headers.get("content-length", "0")
    if "transfer-encoding" in request.headers or not length.isdecimal():
        return JSONResponse({"detail": "the size of the body is missing"}, 411)
    return JSONResponse({"detail": f"the body has more than {MAX_BODY_BYTES} bytes"}, 413) if int(length) > MAX_BODY_BYTES else None


def create_worksheet(access: MappedAccess, data: PageData) -> APIRouter:
    """Create the routes of the worksheet, where statements have other bounds than requests that wait for the catalog."""

    def same_origin(request: Request) -> None:
        require_same_origin(request, access.base_url)

    router = APIRouter()
    add_worksheet(router, access, lambda: data.context, data.settings, same_origin, [Depends(thread_limit())])
    return router


def create_router(access: MappedAccess, data: PageData, execute: Execute) -> APIRouter:
    router = APIRouter(dependencies=[Depends(thread_limit())])
    User: TypeAlias = Annotated[Any, Depends(access.authenticate)]

    def same_origin(request: Request) -> None:
        require_same_origin(request, access.base_url)

    @router.get("/jobs")
    def jobs(user: User) -> view.Json:
        return view.list_jobs(data.overview(access, user))

    @router.get("/graph")
    def graph(user: User) -> view.Json:
        return make_graph(data.overview(access, user))

    @router.post("/jobs/{job_id}/{action}", dependencies=[Depends(same_origin)])
    def act(job_id: str, action: str, body: ConfirmedAction, user: User) -> view.Json:
        record = readable_record(data.catalog, access, user, job_id)
        if not is_allowed(access, user, record, action):
            raise HTTPException(403, f"you have no right to {action} this {record.definition.kind}")
        sql = actions.action_statement(action, record)
        if sql is None or body.sql != sql:
            raise HTTPException(409, f"the {record.definition.kind} has changed, reload the page")
        # Recorded first, so that every change has an event.
        data.catalog.events.record("job", record.definition.id, "ASKED", f"{sql} by {access.user_name(user)}")
        log.info("running %s for %s", sql, access.user_name(user))
        execute(sql, record.definition.dialect, access.user_name(user))
        data.invalidate()
        return {"done": sql}

    router.include_router(create_job_router(access, data), prefix="/jobs/{job_id}")
    return router


def create_job_router(access: MappedAccess, data: PageData) -> APIRouter:
    """Create the routes that show a job."""
    router = APIRouter()
    User: TypeAlias = Annotated[Any, Depends(access.authenticate)]

    def find_readable(job_id: str, user: User) -> JobRecord:
        record = readable_record(data.catalog, access, user, job_id)
        return measure(data.context, record) or record

    def as_user(user: Any) -> Context:
        return replace(data.context, permissions=partial(access.permissions, user))

    ReadableRecord: TypeAlias = Annotated[JobRecord, Depends(find_readable)]
    add_job_views(router, access, data, find_readable)

    @router.get("")
    def job(record: ReadableRecord, user: User) -> view.Json:
        offered = actions.available_actions(record, lambda action: is_allowed(access, user, record, action), data.settings.dialect)
        detail = view.job_detail(data.catalog, record, data.now())
        is_hidden = bool(access.unread_jobs(user, [record]))
        return {**(view.without_messages(detail) if is_hidden else detail), "actions": offered}

    @router.get("/metrics")
    def metrics(record: ReadableRecord, over: ChartRange = ChartRange.HOUR) -> view.Json:
        keep_ms, interval_ms = data.settings.metrics_keep_s * 1000, data.settings.metrics_interval_s * 1000
        return metric_charts(data.catalog, part_ids(record.definition), over, data.now(), keep_ms, interval_ms)

    @router.get("/versions")
    def versions(record: ReadableRecord) -> view.Json:
        return {"versions": version_rows(data.catalog, record.definition)}

    @router.get("/plan")
    def plan(record: ReadableRecord, user: User) -> view.Json:
        return actions.describe_plan(as_user(user), record)

    @router.get("/lineage")
    def lineage(record: ReadableRecord, user: User) -> view.Json:
        return lineage_view(as_user(user), record.definition)

    return router


def thread_limit() -> Callable[[], AsyncIterator[None]]:
    """Return a dependency that holds one of `MAX_THREADS` permits during a request."""
    permits = asyncio.Semaphore(MAX_THREADS)

    async def hold() -> AsyncIterator[None]:
        try:
            await asyncio.wait_for(permits.acquire(), MAX_WAIT_S)
        except TimeoutError:
            raise unanswered() from None
        try:
            yield
        finally:
            permits.release()

    return hold


def unanswered() -> OperationalError:
    return OperationalError("the catalog does not answer", hint="the page shows the jobs when it does")


def readable_record(catalog: Catalog, access: MappedAccess, user: Any, job_id: str) -> JobRecord:
    """Return the job of an id.

    Raises:
        NotFoundError: It does not exist, or the user may not read it; the error does not tell which.
    """
    missing = NotFoundError(f"no job has the id {job_id}", hint=MISSING_HINT)
    try:
        record = catalog.jobs.whole(job_id)
    except NotFoundError:
        raise missing from None
    readable = access.readable_jobs(user, [record])
    if not readable:
        raise missing
    return readable[0]


def is_allowed(access: MappedAccess, user: Any, record: JobRecord, action: str) -> bool:
    """Return True if the user has the right to an action on a job."""
    dag_id = record_dag_id(record)
    return access.can_edit(user, dag_id) and (action != DROP or access.can_delete(user, dag_id))


def filter_readable(state: Snapshot, access: MappedAccess, user: Any) -> Snapshot:
    readable = access.readable_jobs(user, state.jobs.values())
    return replace(state, jobs={record.definition.id: record for record in readable})


def _error_response(_: Request, error: Exception) -> JSONResponse:
    """Return an error of Headrace as JSON, with the HTTP status for its class."""
    assert isinstance(error, Error)
    status = 404 if isinstance(error, NotFoundError) else 503 if isinstance(error, TransientError | ConfigurationError) else 409
    return JSONResponse({"code": error.code, "message": error.message, "hint": error.hint}, status_code=status)
