"""Sessions: a current database, a dialect, and the way from a statement's text to its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.errors import Error, InternalError, OperationalError, PermissionDeniedError
from headrace.model.access import Principal
from headrace.model.masking import masked
from headrace.service.authorization import CatalogAuthorizer
from headrace.service.concealment import Named, check_effects, concealed
from headrace.service.dispatch import plan
from headrace.service.remote import query_living_snode
from headrace.service.results import Result
from headrace.service.rights import Authorizer, Right, authorize_points
from headrace.service.stage import SessionState, Stage, required_rights
from headrace.service.statement_rights import statement_rights
from headrace.sql import parse

if TYPE_CHECKING:
    from headrace.compute import AnyPlan
    from headrace.context import Context
    from headrace.queries.running import RunningQueries
    from headrace.service.embedded import EmbeddedRunner


MAX_AUDITED: Final = 2_000
"""Characters of a statement that the audit log has."""


class Session(SessionState):
    """Runs statements against one home. Not thread-safe."""

    def __init__(
        self,
        context: Context,
        dialect: str = "tdengine",
        database: str | None = None,
        *,
        principal: Principal | None = None,
        authorizer: Authorizer | None = None,
        reads_files: bool = True,
        queries: RunningQueries | None = None,
        label: str = "",
        max_rows: int | None = None,
    ) -> None:
        """Create a session.

        The default principal is trusted, with the name in the settings; the default `authorizer` goes by the catalog's grants.
        Statements that come from another machine may not name files of this one (`reads_files`). `queries` registers and limits the
        session's queries. `label` is theirs, by which the user can cancel them. `max_rows` are as many rows of a query as the
        client wants; None for all.
        """
        principal = principal or Principal(context.settings.login, is_trusted=True)
        self._authorizer = authorizer = authorizer or CatalogAuthorizer(context.catalog)
        context = replace(
            context,
            user=principal.name,
            authorize_points=lambda series: authorize_points(authorizer, context.catalog, self.principal, series),
            permissions=lambda: authorizer.permissions(self.principal),
        )
        super().__init__(context, dialect, database, principal, reads_files, queries, max_rows)
        self._embedded: EmbeddedRunner | None = None
        self.label = label

    def execute(self, text: str) -> Result:
        """Run one statement.

        Raises:
            Error: Always one of ours, with the statement's text.
        """
        return self.execute_planned(text)[0]

    def execute_planned(self, text: str) -> tuple[Result, AnyPlan | None]:
        """Run one statement like `execute`, and return the plan too if it is a query of rows: that has the declared types."""
        with with_statement(text):
            try:
                stages = self.stages(text)
                result = self.run(stages, text)
            except PermissionDeniedError as error:
                self.record(text, error)
                raise
            if any(stage.is_audited for stage in stages):
                self.record(text)
            return result, stages[-1].plan if stages else None

    def apply(
        self, described: str, rights: Sequence[Right], make_stages: Callable[[], Sequence[Stage]], named: Named | None = None
    ) -> Result:
        """Do what a client asks for without a statement: check rights, then plan and apply stages.

        `described` replaces the statement in the audit log. Errors in planning reveal nothing of the tables that `named` has.

        Raises:
            PermissionDeniedError: The user lacks a right; nothing has been looked up or applied.
        """
        try:
            if rights:
                self._authorizer.authorize(self.principal, rights)
            try:
                stages = make_stages()
            except Error as error:
                raise error if named is None else concealed(error, named, self) from error.__cause__
            return self.run(stages)
        except PermissionDeniedError as error:
            self.record(described, error)
            raise

    def record(self, text: str, error: PermissionDeniedError | None = None) -> None:
        """Record in the audit log what the user has done, or was refused."""
        statement, reason = masked(text)[:MAX_AUDITED], "" if error is None else error.message
        action = statement.split(maxsplit=1)[0].upper() if statement.strip() else ""
        self.context.catalog.audit_log.record(
            self.user, self.principal.origin, action, statement, is_allowed=error is None, reason=reason
        )

    def stages(self, text: str) -> list[Stage]:
        """Plan a statement without applying it.

        Raises:
            PermissionDeniedError: The user lacks a right that its text needs; nothing has been looked up.
        """
        statement = parse(text, self.dialect)
        rights = statement_rights(statement, self.user)
        if rights:
            self._authorizer.authorize(self.principal, rights)
        try:
            stages = plan(statement, self)
        except Exception as error:
            raise concealed(error, statement, self) from None
        check_effects(stages, statement, self)
        return stages

    def run(self, stages: Sequence[Stage], text: str | None = None) -> Result:
        """Apply stages if the user has the rights that they require, and return the result of the last.

        `text` is the statement that they come from. If set, a query runs on a live snode unless this process has Spark.

        Raises:
            PermissionDeniedError: The user lacks a right; nothing has been applied.
        """
        self._authorizer.authorize(self.principal, required_rights(stages))
        reads_rows = is_query(stages)
        if reads_rows and text is not None:
            # A live snode has a warm Spark session.
            user = None if self.principal.is_trusted else self.user
            answer = query_living_snode(self.context, text, self.dialect, self.database, user)
            if answer is not None:
                return answer
        result = Result()
        with self._limits(stages, text):
            for stage in stages:
                result = stage.apply(self) or Result()
        return result

    def _limits(self, stages: Sequence[Stage], text: str | None) -> AbstractContextManager[None]:
        """Return the limits of what stages run."""
        reads_rows = is_query(stages)
        if self.queries is None or not (reads_rows or any(stage.is_limited for stage in stages)):
            return nullcontext()
        return self.queries.run(self.user, masked(text or ""), self.label, uses_spark=reads_rows)

    def allows(self, rights: Sequence[Right]) -> bool:
        """Return whether the user has some rights."""
        try:
            self._authorizer.authorize(self.principal, rights)
        except PermissionDeniedError:
            return False
        return True

    def explain(self, stages: Sequence[Stage]) -> list[str]:
        """Describe what stages would do, and the rights that they require."""
        from headrace.service.topics.queries import describe_stages

        return [line for (line,) in self.run([describe_stages(stages)]).tuples()]

    def settle(self, report: Callable[[str], None] = lambda _: None) -> None:
        """Return when every stream has processed all that was written. `report` is called with what is waited for."""
        if self._embedded is None:
            from headrace.service.embedded import EmbeddedRunner

            self._embedded = EmbeddedRunner(self.context)
        self._embedded.settle(report)

    def close(self) -> None:
        """Stop what this session started. The Spark session stays, since the process shares it."""
        if self._embedded is not None:
            self._embedded.close()


def is_query(stages: Sequence[Stage]) -> bool:
    """Return whether stages are those of a query of rows."""
    return any(stage.is_query for stage in stages)


@contextmanager
def with_statement(text: str) -> Iterator[None]:
    """Add the statement to errors, and convert exceptions that are not ours to `InternalError`."""
    try:
        yield
    except Error as error:
        raise error.with_sql(text) from error.__cause__
    except Exception as error:
        if is_spark_gone(error):
            hint = "run it again; if this process has started Spark itself, start the process again first"
            raise OperationalError("Spark has ended while the statement ran", hint=hint, sql=text) from error
        raise InternalError(
            f"{type(error).__name__}: {error}", hint="this is a bug in Headrace; report it with the statement", sql=text
        ) from error


def is_spark_gone(error: Exception) -> bool:
    """Return whether an error of py4j says that the JVM has died, or that its SparkContext was stopped."""
    if type(error).__name__ == "Py4JNetworkError":
        return True
    stopped = ("SparkContext was shut down", "stopped SparkContext")
    return type(error).__name__ == "Py4JJavaError" and any(text in str(error) for text in stopped)
