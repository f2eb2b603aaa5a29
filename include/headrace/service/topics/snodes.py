"""CREATE SNODE, DROP SNODE, and what snodes have open: SHOW and KILL of queries, and of connections of their doors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from headrace.catalog.snodes import FIRST
from headrace.errors import ExistsError, IntegrityError, NotFoundError
from headrace.model.access import Privilege
from headrace.model.statements import CreateSnode, DropSnode, KillConnection, KillQuery
from headrace.model.tree_statements import KillQueries
from headrace.model.tree_status import TreeStatus
from headrace.runtime.living_snodes import living_endpoints
from headrace.service.remote import query_snode
from headrace.service.results import BIGINT, BOOL, DOUBLE, INSTANT, INT, STRING, CatalogRows, Result, Type
from headrace.service.rights import Action, on_catalog
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.sql import to_sql

if TYPE_CHECKING:
    from headrace.queries.running import RunningQuery
    from headrace.runtime.snode_client import SnodeEndpoint

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
TREE_COLUMNS: Final[dict[str, Type]] = {
    "Time": INSTANT,
    "QueryId": STRING,
    "DataNodeId": INT,
    "ElapsedTime": DOUBLE,
    "Statement": STRING,
}
"""IoTDB's; the elapsed time is in seconds."""
ASKED: Final = "ask the snodes that are alive for the queries that they run"
CONNECTION_COLUMNS: Final[dict[str, Type]] = {
    "conn_id": BIGINT,
    "user": STRING,
    "app": STRING,
    "pid": INT,
    "end_point": STRING,
    "login_time": INSTANT,
    "last_access": INSTANT,
}
"""TDengine's. `app` is the door, and `pid` the process of the snode."""


def plan_create_snode(statement: CreateSnode, session: PlanningContext) -> list[Stage]:
    if statement.dnode == FIRST:
        note = "the snode of dnode 1 is always there, so nothing was done"
        return [Stage(on_catalog(Action.ALTER), lambda: [note], lambda _: Result(note=note))]
    if statement.dnode in registered(session):
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
        if not kill(id, session):
            raise NotFoundError(f"query {id!r} is not running", hint="SHOW QUERIES lists the running queries")

    return [Stage(on_catalog(Action.OPERATE), lambda: [f"have the snode that runs query {id} end it"], apply)]


def plan_kill_queries(statement: KillQueries, _: PlanningContext) -> list[Stage]:
    """Plan KILL QUERY and KILL ALL QUERIES of the IoTDB language."""
    id = statement.id

    def apply(session: SessionState) -> None:
        for running in running_ids(session) if id is None else ():
            kill(running, session)
        if id is not None and not kill(id, session):
            error = NotFoundError(f"No such query: {id}", hint="SHOW QUERIES lists the running queries")
            raise error.with_status(TreeStatus.NO_SUCH_QUERY)

    described = "have snodes end all queries that they run" if id is None else f"have the snode that runs query {id} end it"
    return [Stage(on_catalog(Action.OPERATE), lambda: [described], apply)]


def kill(id: str, session: SessionState) -> bool:
    """End a query; return False if no snode runs it."""
    if session.queries is not None:
        return session.queries.kill(id)
    return any(is_ended_by(snode, KillQuery(id)) for snode in living_endpoints(session.context))


def running_ids(session: SessionState) -> list[str]:
    """Return the ids of all running queries."""
    return [str(row[0]) for row in running_rows(session)]


def list_queries() -> Stage:
    return Stage(on_catalog(Action.DESCRIBE), lambda: [ASKED], lambda session: Result(CatalogRows(COLUMNS, running_rows(session))))


def list_tree_queries(limit: int | None, offset: int | None) -> Stage:
    """List queries in IoTDB's form: those that began first come first."""
    first = offset or 0
    last = None if limit is None else first + limit

    def apply(session: SessionState) -> Result:
        names = list(COLUMNS)
        started, id, elapsed, sql = (names.index(name) for name in ("create_time", "kill_id", "exec_usec", "sql"))
        ordered = sorted(running_rows(session), key=lambda row: row[started])
        rows = [(row[started], row[id], 1, row[elapsed] / 1_000_000, row[sql]) for row in ordered]
        return Result(CatalogRows(TREE_COLUMNS, rows[first:last]))

    return Stage(on_catalog(Action.DESCRIBE), lambda: [ASKED], apply)


def running_rows(session: SessionState) -> list[tuple[Any, ...]]:
    """Return the running queries of all snodes, or of the one that the session is in: those that the user may see."""
    if session.queries is not None:
        now = session.context.clock.now()
        return visible([query_row(query, now) for query in session.queries.all()], COLUMNS, session)
    results = [query_snode(snode, "SHOW QUERIES", "tdengine", None) for snode in living_endpoints(session.context)]
    rows = [row for result in results if result is not None for row in integer_times(result, COLUMNS)]
    return visible(rows, COLUMNS, session)


def visible(rows: list[tuple[Any, ...]], columns: Mapping[str, Type], session: SessionState) -> list[tuple[Any, ...]]:
    """Return the rows of the user, or with the privilege MAINTAIN those of all; `columns` has `user`."""
    permissions, column = session.context.permissions(), list(columns).index("user")
    is_all = permissions.allows(Privilege.MAINTAIN)
    return [row for row in rows if is_all or row[column] == session.user]


def registered(session: PlanningContext) -> set[int]:
    return {member.dnode for member in session.context.catalog.members.all()}


def query_row(query: RunningQuery, now: int) -> tuple[Any, ...]:
    number = int(query.id.rpartition(":")[2], 16)
    times = (query.started, (now - query.started) * 1000)
    return (query.id, number, None, "headrace", os.getpid(), query.user, None, *times, None, None, None, None, query.sql)


def integer_times(result: Result, columns: Mapping[str, Type]) -> list[tuple[Any, ...]]:
    """Return rows that an snode has sent, with instants as epoch milliseconds."""
    import pyarrow as pa

    assert result.table is not None
    table = result.table
    for position, (name, type_) in enumerate(columns.items()):
        if type_ == INSTANT:
            table = table.set_column(position, name, table[name].cast(pa.int64()))
    return [tuple(row.values()) for row in table.to_pylist()]


def is_ended_by(snode: SnodeEndpoint, statement: KillQuery | KillConnection) -> bool:
    try:
        return query_snode(snode, to_sql(statement), "tdengine", None) is not None
    except NotFoundError:
        return False


def list_connections() -> Stage:
    """List the connections of this snode, or of all that are alive if this process is none."""

    def apply(session: SessionState) -> Result:
        if session.queries is None:
            results = [query_snode(snode, "SHOW CONNECTIONS", "tdengine", None) for snode in living_endpoints(session.context)]
            rows = [row for result in results if result is not None for row in integer_times(result, CONNECTION_COLUMNS)]
        else:
            pid = os.getpid()
            rows = [(c.id, c.user, c.door, pid, c.address, c.opened, c.used) for c in session.context.connections.all()]
        return Result(CatalogRows(CONNECTION_COLUMNS, visible(rows, CONNECTION_COLUMNS, session)))

    described = "ask the snodes that are alive for their connections"
    return Stage(on_catalog(Action.DESCRIBE), lambda: [described], apply)


def plan_kill_connection(statement: KillConnection, _: PlanningContext) -> list[Stage]:
    """Plan KILL CONNECTION: the connection's query ends, and it runs no other statement."""
    id = statement.id

    def apply(session: SessionState) -> None:
        if session.queries is not None:
            ended = session.context.connections.kill(id)
        else:
            ended = any(is_ended_by(snode, statement) for snode in living_endpoints(session.context))
        if not ended:
            raise NotFoundError(f"there is no connection {id}", hint="SHOW CONNECTIONS lists them")

    return [Stage(on_catalog(Action.OPERATE), lambda: [f"have the snode that has connection {id} end it"], apply)]
