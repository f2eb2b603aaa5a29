"""Routes of the page that show the windows of a job, the flow of its rows, and who has rights to it."""

# No `from __future__ import annotations`: FastAPI cannot resolve string annotations of handlers defined in a function.
from collections.abc import Callable
from typing import Annotated, Any, Protocol, TypeAlias

from fastapi import APIRouter, Depends

from headrace.catalog import Catalog
from headrace.context import Context
from headrace.errors import NotSupportedError, PermissionDeniedError
from headrace.model.jobs import JobRecord
from headrace.web.flow_view import FlowRange, row_flow
from headrace.web.rights_view import job_rights
from headrace.web.users import MappedAccess
from headrace.web.window_view import has_windows, window_timeline

Json = dict[str, Any]


class Data(Protocol):
    """What the routes read."""

    @property
    def catalog(self) -> Catalog:
        """The catalog."""

    @property
    def context(self) -> Context:
        """The context in which jobs are planned and tables read."""

    def now(self) -> int:
        """Return the catalog's time in epoch milliseconds."""


def add_job_views(router: APIRouter, access: MappedAccess, data: Data, find_readable: Callable[..., JobRecord]) -> None:
    """Add the routes to the one of a job, which `find_readable` finds if the user may read it."""
    User: TypeAlias = Annotated[Any, Depends(access.authenticate)]
    ReadableRecord: TypeAlias = Annotated[JobRecord, Depends(find_readable)]

    @router.get("/flow")
    def flow(record: ReadableRecord, over: FlowRange = FlowRange.ALL) -> Json:
        return row_flow(data.catalog, record, over, data.now())

    @router.get("/windows")
    def windows(
        record: ReadableRecord,
        user: User,
        series: str | None = None,
        tag: str | None = None,
        value: str = "",
        before: int | None = None,
    ) -> Json:
        from headrace.streams.timeline import TimelineChoice

        target = record.definition.target
        if target is None or not has_windows(record):
            raise NotSupportedError(f"{record.definition} has no windows")
        # Windows that are not written yet, and notes of late rows, tell of rows of the source.
        if not all(access.reads_table(user, one.database, one.name) for one in (target, record.definition.source)):
            message = f"you have no right to read the windows of {record.definition}"
            raise PermissionDeniedError(message, hint="it takes GRANT READ on its source and on its target")
        choice = TimelineChoice(series, None if tag is None else (tag, value), before)
        return window_timeline(data.context, record, choice, data.now())

    @router.get("/rights")
    def rights(record: ReadableRecord, user: User) -> Json:
        return job_rights(data.catalog, access.permissions(user), record.definition)
