"""Statements that come over HTTP to an snode: a session for each, on the snode's own catalog, tables and Spark."""

from __future__ import annotations

from headrace.runtime.context import Context
from headrace.runtime.http import Answer, RunSql
from headrace.service.session import Session


def sql_runner(context: Context) -> RunSql:
    """What `POST /sql` calls; statements of several requests run side by side."""

    def run(sql: str, dialect: str, database: str | None = None) -> Answer:
        result = Session(context, dialect, database).execute(sql)
        return Answer(result.table, result.affected)

    return run
