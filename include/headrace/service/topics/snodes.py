"""CREATE SNODE, DROP SNODE, and the queries that snodes run: SHOW QUERIES and KILL QUERY."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.catalog.snodes import FIRST
from headrace.errors import ExistsError, IntegrityError, NotFoundError
from headrace.model.statements import CreateSnode, DropSnode, KillQuery
from headrace.service.remote import living_snodes, query_snode
from headrace.service.results import BIGINT, BOOL, INSTANT, INT, STRING, CatalogRows, Result, Type
from headrace.service.rights import CATALOG, Action, Right
from headrace.service.stage import DONE, Stage
from headrace.service.state import PlanningContext, SessionState
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


@dataclass(frozen=True, slots=True)
class AddSnode(Stage):
    """Register an snode, which takes its share of the jobs once it runs."""

    required = (Right(Action.ALTER, CATALOG),)
    dnode: int

    def describe(self) -> list[str]:
        return [f"add an snode on dnode {self.dnode}; Airflow starts its driver, which takes its share of the streams"]

    def apply(self, session: SessionState) -> Result:
        from headrace.runtime.airflow import announce

        member = session.context.catalog.members.create(self.dnode, session.context.settings.snode)
        session.context.catalog.events.record("snode", member.name, "CREATED", f"on dnode {self.dnode}")
        announce(session.context.settings)
        return DONE


@dataclass(frozen=True, slots=True)
class RemoveSnode(Stage):
    """Remove an snode; its jobs move to that of dnode 1."""

    required = (Right(Action.ALTER, CATALOG),)
    dnode: int

    def describe(self) -> list[str]:
        return [f"remove the snode on dnode {self.dnode}; its streams move to that of dnode 1"]

    def apply(self, session: SessionState) -> Result:
        from headrace.runtime.airflow import announce

        name = session.context.catalog.members.drop(self.dnode)
        session.context.catalog.events.record("snode", name, "DROPPED", f"on dnode {self.dnode}")
        announce(session.context.settings)
        return DONE


@dataclass(frozen=True, slots=True)
class ListQueries(Stage):
    """List the queries that snodes run for users."""

    required = (Right(Action.DESCRIBE, CATALOG),)

    def describe(self) -> list[str]:
        return ["ask the snodes that are alive for the queries that they run"]

    def apply(self, session: SessionState) -> Result:
        if session.queries is not None:
            now = session.context.clock.now()
            return Result(CatalogRows(COLUMNS, [query_row(query, now) for query in session.queries.all()]))
        results = [query_snode(snode, "SHOW QUERIES", "tdengine", None) for snode in living_snodes(session.context)]
        return Result(CatalogRows(COLUMNS, [row for result in results if result is not None for row in integer_times(result)]))


@dataclass(frozen=True, slots=True)
class EndQuery(Stage):
    """End a query that an snode runs, by its id."""

    required = (Right(Action.OPERATE, CATALOG),)
    id: str

    def describe(self) -> list[str]:
        return [f"have the snode that runs query {self.id} end it"]

    def apply(self, session: SessionState) -> Result:
        if session.queries is not None:
            ended = session.queries.kill(self.id)
        else:
            ended = any(is_ended_by(snode, self.id) for snode in living_snodes(session.context))
        if not ended:
            raise NotFoundError(f"query {self.id!r} is not running", hint="SHOW QUERIES lists the running queries")
        return DONE


def plan_create_snode(statement: CreateSnode, session: PlanningContext) -> list[Stage]:
    if statement.dnode == FIRST or statement.dnode in registered(session):
        raise ExistsError(
            f"dnode {statement.dnode} has an snode already", hint="SHOW SNODES lists what there is", span=statement.span
        )
    return [AddSnode(statement.dnode)]


def plan_drop_snode(statement: DropSnode, session: PlanningContext) -> list[Stage]:
    if statement.dnode == FIRST:
        raise IntegrityError("the snode of dnode 1 cannot be dropped", hint="streams need an snode", span=statement.span)
    if statement.dnode not in registered(session):
        raise NotFoundError(f"dnode {statement.dnode} has no snode", hint="SHOW SNODES lists what there is", span=statement.span)
    return [RemoveSnode(statement.dnode)]


def plan_kill_query(statement: KillQuery, _: PlanningContext) -> list[Stage]:
    return [EndQuery(statement.id)]


def registered(session: PlanningContext) -> set[int]:
    """Return the dnodes that have an snode."""
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
