"""The queries that an snode runs for users: listed, limited, and ended when they are killed."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.errors import Error, LimitError, OperationalError

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.settings import Settings

POOL: Final = "queries"
"""Spark's pool of their jobs, which share the cores equally with those of streams."""


class RunningQuery:
    """One query. `id` names it in KILL QUERY, and `label` its client, if it has one; `started` is in epoch ms."""

    label = ""

    def __init__(self, id: str, user: str, sql: str, started: int, settings: Settings, cancel: Callable[[], None]) -> None:
        self.id, self.user, self.sql, self.started = id, user, sql, started
        self._settings = settings
        self.cancel = cancel
        """Ends what it waits for."""
        self._rows = 0
        self._bytes = 0
        self.thread = threading.get_ident()
        """The thread that runs it."""
        self.error: Error | None = None
        """Why the query has to end."""

    def end(self, error: Error) -> None:
        """End the query with an error."""
        self.error = self.error or error
        self.cancel()

    def check(self, rows: int = 0, bytes_: int = 0) -> None:
        """Count a part of the result; raise if the query has to end."""
        self._rows += rows
        self._bytes += bytes_
        most_rows, most_bytes = self._settings.query_rows, self._settings.query_bytes
        if most_rows and self._rows > most_rows:
            self.end(limit_error(f"{most_rows} rows", "HEADRACE_QUERY_ROWS"))
        if most_bytes and self._bytes > most_bytes:
            self.end(limit_error(f"{most_bytes} bytes", "HEADRACE_QUERY_BYTES"))
        if self.error is not None:
            raise self.error


def nothing() -> None:
    """Cancel nothing: the query ends at its next check."""


def limit_error(limit: str, setting: str) -> LimitError:
    return LimitError(f"the query exceeds the limit of {limit}", hint=f"narrow it with WHERE or LIMIT; {setting} sets the limit")


_CURRENT: Final[ContextVar[RunningQuery | None]] = ContextVar("query", default=None)


def check(rows: int = 0, bytes_: int = 0) -> None:
    """Count a part of the result of this thread's query; raise if the query has to end. Elsewhere there are no limits."""
    query = _CURRENT.get()
    if query is not None:
        query.check(rows, bytes_)


@contextmanager
def canceling(cancel: Callable[[], None]) -> Iterator[None]:
    """Have `cancel` called, from another thread, if this thread's query has to end while the block runs."""
    query = _CURRENT.get()
    if query is None:
        yield
        return
    before, query.cancel = query.cancel, cancel
    try:
        query.check()
        yield
    finally:
        query.cancel = before


@dataclass
class RunningQueries:
    """The running queries of an snode. Thread-safe."""

    context: Context

    def __post_init__(self) -> None:
        self._prefix = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._queries: dict[str, RunningQuery] = {}

    @contextmanager
    def run(self, user: str, sql: str, label: str = "", *, uses_spark: bool = True) -> Iterator[None]:
        """Register the query that this thread runs. By a `label`, its user can end it with `cancel`."""
        settings, now, id = self.context.settings, self.context.clock.now(), f"{self._prefix}:{next(self._numbers):x}"
        cancel = partial(self._cancel_jobs, id) if uses_spark else nothing
        query = RunningQuery(id, user, sql, now, settings, cancel)
        query.label = label
        self._queries[query.id] = query
        late = limit_error(f"{settings.query_timeout_s} s", "HEADRACE_QUERY_TIMEOUT_S")
        timer = threading.Timer(settings.query_timeout_s or threading.TIMEOUT_MAX, query.end, [late])
        timer.daemon = True
        timer.start()
        token = _CURRENT.set(query)
        try:
            with self._job_group(id) if uses_spark else nullcontext():
                yield
            query.check()
        except Exception as error:  # of Spark, whose jobs are canceled, or ours
            if query.error is None or query.error is error:
                raise
            raise query.error from error
        finally:
            _CURRENT.reset(token)
            timer.cancel()
            del self._queries[query.id]

    def all(self) -> list[RunningQuery]:
        """Return all running queries, oldest first."""
        return list(self._queries.values())

    def kill(self, id: str) -> bool:
        """End a query; return False if it does not run here."""
        query = self._queries.get(id)
        if query is None:
            return False
        query.end(OperationalError("the query was killed", hint="KILL QUERY has ended it"))
        return True

    def cancel(self, user: str, label: str) -> bool:
        """End the queries that a user runs under a label; return False if there are none."""
        named = [query for query in self.all() if label and (query.user, query.label) == (user, label)]
        for query in named:
            query.end(OperationalError("the query was canceled", hint="run it again"))
        return bool(named)

    def end_of_thread(self, thread: int, error: Error) -> bool:
        """End what a thread runs with an error; return False if it runs no query."""
        own = [query for query in self.all() if query.thread == thread]
        for query in own:
            query.end(error)
        return bool(own)

    def abandon(self, thread: int) -> bool:
        """End the query that a thread runs, since its client is gone; return False if it runs none."""
        return self.end_of_thread(thread, OperationalError("the client has ended the connection", hint="run the query again"))

    @contextmanager
    def _job_group(self, id: str) -> Iterator[None]:
        """Make all of Spark's jobs that this thread starts jobs of a query."""
        spark = self.context.spark().sparkContext
        properties = {"spark.jobGroup.id": id, "spark.scheduler.pool": POOL}
        for name, value in properties.items():
            spark.setLocalProperty(name, value)
        try:
            yield
        finally:
            for name in properties:
                spark.setLocalProperty(name, None)  # type: ignore[arg-type]

    def _cancel_jobs(self, id: str) -> None:
        self.context.spark().sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(id)
