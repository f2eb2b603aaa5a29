"""SELECT of functions about the server and the session alone, as clients of TDengine ask for when they connect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.model.expressions import Call
from headrace.model.queries import Query, Union
from headrace.service.results import INT, STRING, CatalogRows, Result, Type
from headrace.service.rights import Action, on_catalog
from headrace.service.stage import SessionState, Stage

TDENGINE_VERSION: Final = "3.3.6.0"
"""The version of TDengine whose language and interfaces this is: clients decide by it what they may send."""
Value = tuple[Type, Callable[[SessionState], Any]]
FUNCTIONS: Final[dict[str, Value]] = {
    "server_version": (STRING, lambda _: TDENGINE_VERSION),
    "client_version": (STRING, lambda _: TDENGINE_VERSION),
    "server_status": (INT, lambda _: 1),
    "database": (STRING, lambda session: session.database),
    "current_user": (STRING, lambda session: session.user),
    "user": (STRING, lambda session: session.user),
}


def plan_session_functions(query: Query | Union) -> list[Stage] | None:
    """Plan a query of such functions and nothing else; None if it is another one."""
    if isinstance(query, Union) or query.source is not None or not query.items or query.where is not None:
        return None
    calls = [item.expression for item in query.items]
    if not all(isinstance(call, Call) and call.function in FUNCTIONS and not call.arguments for call in calls):
        return None
    names = [item.name for item in query.items]
    values = [FUNCTIONS[call.function] for call in calls if isinstance(call, Call)]
    return [Stage(on_catalog(Action.DESCRIBE), lambda: ["ask the session"], lambda session: read_values(names, values, session))]


def read_values(names: list[str], values: list[Value], session: SessionState) -> Result:
    columns = {name: type_ for name, (type_, _) in zip(names, values, strict=True)}
    row = {name: read(session) for name, (_, read) in zip(names, values, strict=True)}
    return Result(CatalogRows(columns, [tuple(row.values())]))
