"""Statements that come over HTTP to an snode: a session for each, on the snode's own catalog, tables and Spark."""

from __future__ import annotations

from typing import Final

from headrace.runtime.context import Context
from headrace.runtime.http import Answer, RunSql
from headrace.service.rights import Authorizer
from headrace.service.session import Session

HTTP_USER: Final = "http"
"""Whoever has the token: the door knows no other names."""


def sql_runner(context: Context, authorizer: Authorizer | None = None) -> RunSql:
    """What `POST /sql` calls; statements of several requests run side by side."""

    def run(sql: str, dialect: str, database: str | None = None) -> Answer:
        result = Session(context, dialect, database, user=HTTP_USER, authorizer=authorizer).execute(sql)
        return Answer(result.table, result.affected)

    return run
