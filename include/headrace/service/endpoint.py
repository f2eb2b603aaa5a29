"""Statements that an snode executes over HTTP, each in its own session on the snode's catalog, tables and Spark."""

from __future__ import annotations

from typing import Final

from headrace.context import Context
from headrace.queries.running import RunningQueries
from headrace.runtime.http import RunSql, StatementResult
from headrace.service.rights import Authorizer
from headrace.service.session import Session

HTTP_USER: Final = "http"
"""The user of every holder of the token, which carries no name."""


def sql_runner(context: Context, authorizer: Authorizer | None = None) -> RunSql:
    """Return the function behind `POST /sql`. It is thread-safe, so requests run concurrently."""
    queries = RunningQueries(context)

    def run(sql: str, dialect: str, database: str | None = None) -> StatementResult:
        session = Session(context, dialect, database, user=HTTP_USER, authorizer=authorizer, reads_files=False, queries=queries)
        result = session.execute(sql)
        return StatementResult(result.table, result.affected)

    return run
