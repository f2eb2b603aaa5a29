"""Statements that an snode executes over HTTP, each in its own session on the snode's catalog, tables and Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.context import Context
from headrace.queries.running import RunningQueries
from headrace.runtime.http import NO_OPTIONS, StatementOptions, StatementResult
from headrace.service.authorization import CatalogAuthorizer
from headrace.service.rights import AllowAll, Authorizer
from headrace.service.session import Session

HTTP_USER: Final = "http"
"""The name of holders of the token who name no user. They may do everything."""


def sql_runner(context: Context, authorizer: Authorizer | None = None, queries: RunningQueries | None = None) -> SqlRunner:
    """Return what is behind `POST /sql`. `authorizer` decides for those who name no user; without it, they may do everything."""
    return SqlRunner(context, authorizer or AllowAll(), CatalogAuthorizer(context.catalog), queries or RunningQueries(context))


@dataclass(frozen=True, slots=True)
class SqlRunner:
    """Runs each statement in a session of its own. Thread-safe, so requests run concurrently."""

    context: Context
    authorizer: Authorizer
    grants: CatalogAuthorizer
    queries: RunningQueries

    def __call__(
        self,
        sql: str,
        dialect: str,
        database: str | None = None,
        user: str | None = None,
        options: StatementOptions = NO_OPTIONS,
    ) -> StatementResult:
        """Run a statement of a user, or of the administrator if there is none. Raise `headrace.errors.Error`."""
        # With one row more, it is known whether there are more.
        max_rows = None if options.max_rows is None else options.max_rows + 1
        session = Session(
            self.context,
            dialect,
            database,
            user=user or HTTP_USER,
            authorizer=self._authorizer_of(user),
            reads_files=False,
            queries=self.queries,
            address=options.origin,
            label=options.label,
            max_rows=max_rows,
        )
        result = session.execute(sql)
        return StatementResult(result.table, result.affected)

    def cancel(self, user: str | None, label: str) -> bool:
        """End the queries that a user runs under a label; return False if there are none."""
        return self.queries.cancel(user or HTTP_USER, label)

    def _authorizer_of(self, user: str | None) -> Authorizer:
        """Return what decides for a user. As long as the catalog has none, a name is taken on trust, as everywhere."""
        return self.authorizer if user is None or not self.context.catalog.access.has_users() else self.grants
