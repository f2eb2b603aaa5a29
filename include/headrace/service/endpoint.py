"""Statements that an snode executes over HTTP, each in its own session on the snode's catalog, tables and Spark."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.context import Context
from headrace.model.access import Principal
from headrace.queries.running import RunningQueries
from headrace.runtime.http import NO_OPTIONS, StatementOptions, StatementResult, token_holder
from headrace.service.authentication import taken_on_trust
from headrace.service.authorization import CatalogAuthorizer
from headrace.service.rights import Authorizer
from headrace.service.session import Session


def sql_runner(context: Context, authorizer: Authorizer | None = None, queries: RunningQueries | None = None) -> SqlRunner:
    """Return what is behind `POST /sql`. The default `authorizer` goes by the grants of the catalog."""
    return SqlRunner(context, authorizer or CatalogAuthorizer(context.catalog), queries or RunningQueries(context))


@dataclass(frozen=True, slots=True)
class SqlRunner:
    """Runs each statement in a session of its own. Thread-safe, so requests run concurrently."""

    context: Context
    authorizer: Authorizer
    queries: RunningQueries

    def __call__(
        self,
        sql: str,
        dialect: str,
        database: str | None = None,
        principal: Principal | None = None,
        options: StatementOptions = NO_OPTIONS,
    ) -> StatementResult:
        """Run a statement of a principal, or of who has the token if it is None. Raise `headrace.errors.Error`."""
        # With one row more, it is known whether there are more.
        max_rows = None if options.max_rows is None else options.max_rows + 1
        session = Session(
            self.context,
            dialect,
            database,
            principal=principal or token_holder(None, ""),
            authorizer=self.authorizer,
            reads_files=False,
            queries=self.queries,
            label=options.label,
            max_rows=max_rows,
        )
        result = session.execute(sql)
        return StatementResult(result.table, result.affected)

    def cancel(self, user: str, label: str) -> bool:
        """End the queries that a user runs under a label; return False if there are none."""
        return self.queries.cancel(user, label)

    def abandon(self, thread: int) -> bool:
        """End the query that a thread runs, since its client is gone; return False if it runs none."""
        return self.queries.abandon(thread)

    def vouch(self, name: str | None, origin: str) -> Principal:
        """Return as whom the holder of the token acts: with all rights, unless they name a user and there are some."""
        return token_holder(name, origin) if name is None else taken_on_trust(self.context.catalog, name, origin)
