"""Statements that an snode executes over HTTP, each in its own session on the snode's catalog, tables and Spark."""

from __future__ import annotations

from typing import Final

from headrace.context import Context
from headrace.queries.running import RunningQueries
from headrace.runtime.http import RunSql, StatementResult
from headrace.service.authorization import CatalogAuthorizer
from headrace.service.rights import Authorizer
from headrace.service.session import Session

HTTP_USER: Final = "http"
"""The name of holders of the token who name no user. They may do everything."""


def sql_runner(context: Context, authorizer: Authorizer | None = None, queries: RunningQueries | None = None) -> RunSql:
    """Return the function behind `POST /sql`. It is thread-safe, so requests run concurrently."""
    queries = queries or RunningQueries(context)
    grants = CatalogAuthorizer(context.catalog)

    def run(sql: str, dialect: str, database: str | None = None, user: str | None = None) -> StatementResult:
        checked = authorizer if user is None else grants
        name = HTTP_USER if user is None else user
        session = Session(context, dialect, database, user=name, authorizer=checked, reads_files=False, queries=queries)
        result = session.execute(sql)
        return StatementResult(result.table, result.affected)

    return run
