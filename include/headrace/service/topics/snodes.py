"""CREATE SNODE, DROP SNODE, and the queries that snodes run: SHOW QUERIES and KILL QUERY."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from headrace.catalog.snodes import FIRST
from headrace.errors import ExistsError, IntegrityError, NotFoundError
from headrace.model.statements import CreateSnode, DropSnode, KillQuery
from headrace.runtime.living_snodes import living_snodes
from headrace.service.remote import query_snode
from headrace.service.results import BIGINT, BOOL, INSTANT, INT, STRING, CatalogRows, Result, Type
from headrace.service.rights import Action, on_catalog
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.sql import to_sql

if TYPE_CHECKING:
    from headrace.model.snodes import Heartbeat
    from headrace.queries.running import RunningQuery

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


def plan_create_snode(statement: CreateSnode, session: PlanningContext) -> list[Stage]:
    if statement.dnode == FIRST or statement.dnode in registered(session):
        raise ExistsError(
            f"dnode {statement.dnode} has an snode already", hint="SHOW SNODES lists what there is", span=statement.span
        )

    def apply(session: SessionState) -> None:
        member = session.context.catalog.members.create(statement.dnode, session.context.settings.snode)
        record_change(session, member.name, "CREATED", statement.dnode)

    described = f"add an snode on dnode {statement.dnode}; Airflow starts its driver, which takes its share of the streams"
    return [Stage(on_catalog(Action.ALTER), lambda: [described], apply)]


def record_change(session: SessionState, snode: str, event: str, dnode: int) -> None:
    from headrace.runtime.airflow import announce

    session.context.catalog.events.record("snode", snode, event, f"on dnode {dnode}")
    announce(session.context.settings)


def plan_drop_snode(statement: DropSnode, session: PlanningContext) -> list[Stage]:
    if statement.dnode == FIRST:
        raise IntegrityError("the snode of dnode 1 cannot be dropped", hint="streams need an snode", span=statement.span)
    if statement.dnode not in registered(session):
        raise NotFoundError(f"dnode {statement.dnode} has no snode", hint="SHOW SNODES lists what there is", span=statement.span)

    def apply(session: SessionState) -> None:
        record_change(session, session.context.catalog.members.drop(statement.dnode), "DROPPED", statement.dnode)

    described = f"remove the snode on dnode {statement.dnode}; its streams move to that of dnode 1"
    return [Stage(on_catalog(Action.ALTER), lambda: [described], apply)]


def plan_kill_query(statement: KillQuery, _: PlanningContext) -> list[Stage]:
    id = statement.id

    def apply(session: SessionState) -> None:
        if session.queries is not None:
            ended = session.queries.kill(id)
        else:
            ended = any(is_ended_by(snode, id) for snode in living_snodes(session.context))
        if not ended:
            raise NotFoundError(f"query {id!r} is not running", hint="SHOW QUERIES lists the running queries")

    return [Stage(on_catalog(Action.OPERATE), lambda: [f"have the snode that runs query {id} end it"], apply)]


def list_queries() -> Stage:
    def apply(session: SessionState) -> Result:
        if session.queries is not None:
            now = session.context.clock.now()
            return Result(CatalogRows(COLUMNS, [query_row(query, now) for query in session.queries.all()]))
        results = [query_snode(snode, "SHOW QUERIES", "tdengine", None) for snode in living_snodes(session.context)]
        return Result(CatalogRows(COLUMNS, [row for result in results if result is not None for row in integer_times(result)]))

    described = "ask the snodes that are alive for the queries that they run"
    return Stage(on_catalog(Action.DESCRIBE), lambda: [described], apply)


def registered(session: PlanningContext) -> set[int]:
    return {member.dnode for member in session.context.catalog.members.all()}


def query_row(query: RunningQuery, now: int) -> tuple[object, ...]:
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


def is_ended_by(snode: Heartbeat, id: str) -> bool:
    try:
        return query_snode(snode, to_sql(KillQuery(id)), "tdengine", None) is not None
    except NotFoundError:
        return False
