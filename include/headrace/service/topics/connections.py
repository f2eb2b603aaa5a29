"""The connections that the doors of snodes have open: SHOW CONNECTIONS and KILL CONNECTION."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from headrace.errors import NotFoundError
from headrace.model.statements import KillConnection
from headrace.runtime.living_snodes import living_snodes
from headrace.service.remote import query_snode
from headrace.service.results import BIGINT, INSTANT, INT, STRING, CatalogRows, Result, Type
from headrace.service.rights import Action, on_catalog
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.snodes import integer_times, visible
from headrace.sql import to_sql

if TYPE_CHECKING:
    from headrace.model.snodes import Heartbeat

COLUMNS: Final[dict[str, Type]] = {
    "conn_id": BIGINT,
    "user": STRING,
    "app": STRING,
    "pid": INT,
    "end_point": STRING,
    "login_time": INSTANT,
    "last_access": INSTANT,
}
"""TDengine's. `app` is the door, and `pid` the process of the snode."""


def list_connections() -> Stage:
    """List the connections of this snode, or of all that are alive if this process is none."""

    def apply(session: SessionState) -> Result:
        if session.queries is None:
            results = [query_snode(snode, "SHOW CONNECTIONS", "tdengine", None) for snode in living_snodes(session.context)]
            rows = [row for result in results if result is not None for row in integer_times(result, COLUMNS)]
        else:
            pid = os.getpid()
            rows = [(c.id, c.user, c.door, pid, c.address, c.opened, c.used) for c in session.context.connections.all()]
        return Result(CatalogRows(COLUMNS, visible(rows, COLUMNS, session)))

    described = "ask the snodes that are alive for their connections"
    return Stage(on_catalog(Action.DESCRIBE), lambda: [described], apply)


def plan_kill_connection(statement: KillConnection, _: PlanningContext) -> list[Stage]:
    """Plan KILL CONNECTION: the connection's query ends, and it runs no other statement."""
    id = statement.id

    def apply(session: SessionState) -> None:
        if session.queries is not None:
            ended = session.context.connections.kill(id)
        else:
            ended = any(is_ended_by(snode, statement) for snode in living_snodes(session.context))
        if not ended:
            raise NotFoundError(f"there is no connection {id}", hint="SHOW CONNECTIONS lists them")

    return [Stage(on_catalog(Action.OPERATE), lambda: [f"have the snode that has connection {id} end it"], apply)]


def is_ended_by(snode: Heartbeat, statement: KillConnection) -> bool:
    try:
        return query_snode(snode, to_sql(statement), "tdengine", None) is not None
    except NotFoundError:
        return False
