"""Sessions: a current database, a dialect, and the way from a statement's text to its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import Error, InternalError
from headrace.model.progress import no_progress
from headrace.service.dispatch import plan
from headrace.service.remote import query_living_snode
from headrace.service.results import Result
from headrace.service.rights import AllowAll, Authorizer, authorize_points
from headrace.service.stage import Stage, required_rights
from headrace.service.state import SessionState
from headrace.sql import parse

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.model.clock import Clock
    from headrace.model.progress import Progress
    from headrace.queries.running import RunningQueries
    from headrace.service.embedded import EmbeddedRunner
    from headrace.verify import VerificationResult


class Session:
    """Runs statements against one home. Not thread-safe."""

    def __init__(
        self,
        context: Context,
        dialect: str = "tdengine",
        database: str | None = None,
        *,
        user: str = "",
        authorizer: Authorizer | None = None,
        reads_files: bool = True,
        queries: RunningQueries | None = None,
    ) -> None:
        """Create a session.

        Args:
            context: The catalog, tables, Spark session and settings to use.
            dialect: The language of statements.
            database: The current database.
            user: The user whose rights apply; the default is that of the settings.
            authorizer: Decides what the user may do; the default allows everything.
            reads_files: Whether statements may name files of this machine, which must not be so if they come from another one.
            queries: Registers and limits the session's queries.
        """
        user, self._authorizer = user or context.settings.login, authorizer or AllowAll()
        context = replace(context, authorize_points=partial(authorize_points, self._authorizer, user))
        self.state = SessionState(context, dialect, database, user, reads_files, queries)
        self._embedded: EmbeddedRunner | None = None

    @property
    def context(self) -> Context:
        """The catalog, tables, Spark session and settings in use."""
        return self.state.context

    @property
    def clock(self) -> Clock:
        """The clock that `now` reads."""
        return self.context.clock

    @property
    def dialect(self) -> str:
        """The language of statements."""
        return self.state.dialect

    @property
    def database(self) -> str | None:
        """The current database."""
        return self.state.database

    @property
    def user(self) -> str:
        """The user whose rights apply."""
        return self.state.user

    def execute(self, text: str) -> Result:
        """Run one statement.

        Raises:
            Error: Always one of ours, with the statement's text.
        """
        with with_statement(text):
            return self.run(self.stages(text), text)

    def stages(self, text: str) -> list[Stage]:
        """Plan a statement without applying it."""
        return plan(parse(text, self.dialect), self.state)

    def run(self, stages: Sequence[Stage], text: str | None = None) -> Result:
        """Apply stages if the user has the rights that they require, and return the result of the last.

        Args:
            stages: What to apply.
            text: The statement that the stages come from. If set, a query runs on a live snode unless this process has Spark.

        Raises:
            PermissionDeniedError: The user lacks a right; nothing has been applied.
        """
        self._authorizer.authorize(self.user, required_rights(stages))
        result = None if text is None else self._ask_snode(stages, text)
        return self._apply(stages, text or "") if result is None else result

    def _apply(self, stages: Sequence[Stage], text: str) -> Result:
        result = Result()
        with self._registered(stages, text):
            for stage in stages:
                result = stage.apply(self.state)
        return result

    def _registered(self, stages: Sequence[Stage], text: str) -> AbstractContextManager[None]:
        """Register a query with the snode that runs it."""
        queries = self.state.queries
        return nullcontext() if queries is None or not is_query(stages) else queries.run(self.user, text)

    def _ask_snode(self, stages: Sequence[Stage], text: str) -> Result | None:
        """Run a query on a live snode, whose Spark session is warm; return None if it must run here."""
        return query_living_snode(self.context, text, self.dialect, self.database) if is_query(stages) else None

    def explain(self, stages: Sequence[Stage]) -> list[str]:
        """Describe what stages would do, and the rights that they require."""
        from headrace.service.topics.queries import DescribeStages

        return [line for (line,) in self.run([DescribeStages(tuple(stages))]).tuples()]

    def load(
        self,
        files: Sequence[Path],
        into: str,
        *,
        subtable: str | None = None,
        device: str | None = None,
        aligned: bool = False,
        file_format: str | None = None,
        progress: Progress = no_progress,
    ) -> int:
        """Load files into a table or tree and return the number of rows written.

        Raises:
            DataError: A row is invalid; nothing is written.
        """
        from headrace.service.topics.loads import plan_load

        stages = plan_load(
            self.state, files, into, subtable, device=device, aligned=aligned, file_format=file_format, progress=progress
        )
        return self.run(stages).affected

    def backfill(
        self, stream: str, start: str | None, end: str | None, *, rows: int | None = None, progress: Progress = no_progress
    ) -> int:
        """Recompute here the windows of a stream that start in `[start, end)`, None being open; return the number of chunks."""
        from headrace.service.topics.backfills import plan_backfill

        return self.run(plan_backfill(self.state, stream, start, end, rows=rows, progress=progress)).affected

    def backfill_query(self, name: str, start: str | None, end: str | None, *, progress: Progress = no_progress) -> int:
        """Compute here again all ranges of a continuous query that overlap `[start, end)`, None being open; return their number."""
        from headrace.service.topics.backfills import plan_query_backfill

        return self.run(plan_query_backfill(self.state, name, start, end, progress=progress)).affected

    def verify(self, text: str) -> VerificationResult:
        """Run a query with Spark and independently with DuckDB, and compare the results."""
        from headrace.service.topics.verifications import plan_query_verification

        with with_statement(text):
            return verification_result(self.run(plan_query_verification(self.state, text, self.dialect)))

    def verify_stream(self, stream: str) -> VerificationResult:
        """Compare the target of `stream` (as `database.stream`) with what DuckDB computes from the rows it has processed."""
        from headrace.service.topics.verifications import plan_stream_verification

        return verification_result(self.run(plan_stream_verification(self.state, stream)))

    def verify_continuous_query(self, name: str, start: str | None = None, end: str | None = None) -> VerificationResult:
        """Compare what a continuous query has written with DuckDB: for the executions of a range, or its latest one."""
        from headrace.service.topics.verifications import plan_continuous_query_verification

        return verification_result(self.run(plan_continuous_query_verification(self.state, name, start, end)))

    def settle(self) -> None:
        """Return when every stream has processed all that was written."""
        if self._embedded is None:
            from headrace.service.embedded import EmbeddedRunner

            self._embedded = EmbeddedRunner(self.context)
        self._embedded.settle()

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
        raise InternalError(
            f"{type(error).__name__}: {error}", hint="this is a bug in Headrace; report it with the statement", sql=text
        ) from error


def verification_result(result: Result) -> VerificationResult:
    assert result.verification is not None
    return result.verification
