"""SHOW QUERIES and KILL QUERY: in the snode that runs the queries, or by asking all that are alive."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from headrace.errors import NotFoundError
from headrace.model.statements import KillQuery
from headrace.service.remote import living_snodes, query_snode
from headrace.service.results import BIGINT, BOOL, INSTANT, INT, STRING, CatalogRows, Result, Type
from headrace.sql import to_sql

if TYPE_CHECKING:
    from headrace.model.snodes import Heartbeat
    from headrace.queries.running import RunningQuery
    from headrace.service.state import SessionState

COLUMNS: Final[dict[str, Type]] = {
    "kill_id": STRING,
    "query_id": BIGINT,
    "conn_id": BIGINT,
    "app": STRING,
    "pid": INT,
    "user": STRING,
    "end_point": STRING,
    "create_time": INSTANT,
    "exec_usec": BIGINT,
    "stable_query": BOOL,
    "sub_query": BOOL,
    "sub_num": INT,
    "sub_status": STRING,
    "sql": STRING,
}
"""TDengine's. Those of connections and sub-queries are NULL."""


def list_queries(session: SessionState) -> Result:
    """Return the running queries."""
    if session.queries is not None:
        now = session.context.clock.now()
        return Result(CatalogRows(COLUMNS, [query_row(query, now) for query in session.queries.all()]))
    results = [query_snode(snode, "SHOW QUERIES", "tdengine", None) for snode in living_snodes(session.context)]
    return Result(CatalogRows(COLUMNS, [row for result in results if result is not None for row in integer_times(result)]))


def query_row(query: RunningQuery, now: int) -> tuple[object, ...]:
    """Return the row of a query."""
    number = int(query.id.rpartition(":")[2], 16)
    times = (query.started, (now - query.started) * 1000)
    return (query.id, number, None, "headrace", os.getpid(), query.user, None, *times, None, None, None, None, query.sql)


def integer_times(result: Result) -> list[tuple[object, ...]]:
    """Return rows that an snode has sent, with instants as epoch milliseconds."""
    import pyarrow as pa

    assert result.table is not None
    position = list(COLUMNS).index("create_time")
    table = result.table.set_column(position, "create_time", result.table["create_time"].cast(pa.int64()))
    return [tuple(row.values()) for row in table.to_pylist()]


def end_query(id: str, session: SessionState) -> None:
    """End a running query; raise `NotFoundError` if no snode runs it."""
    if session.queries is not None and session.queries.kill(id):
        return
    if session.queries is None and any(is_ended_by(snode, id) for snode in living_snodes(session.context)):
        return
    raise NotFoundError(f"query {id!r} is not running", hint="SHOW QUERIES lists the running queries")


def is_ended_by(snode: Heartbeat, id: str) -> bool:
    """Return True if an snode ran a query and has ended it."""
    try:
        return query_snode(snode, to_sql(KillQuery(id)), "tdengine", None) is not None
    except NotFoundError:
        return False
