"""One connection's session: a current database, a language, and the way from text to result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import Error, InternalError
from headrace.model.progress import silent
from headrace.service.executor import apply
from headrace.service.planning import plan
from headrace.service.remote import ask, living_snode
from headrace.service.results import Result
from headrace.service.rights import AllowAll, Authorizer, required_rights
from headrace.service.stages import DescribeStages, RunQuery
from headrace.service.state import SessionState
from headrace.sql import parse

if TYPE_CHECKING:
    from headrace.model.clock import Clock
    from headrace.model.progress import Progress
    from headrace.runtime.context import Context
    from headrace.service.embedded import Embedded
    from headrace.service.stages import Stage
    from headrace.verify import VerificationResult


class Session:
    """Runs statements against one home. Not safe for use by several threads at once."""

    def __init__(
        self,
        context: Context,
        dialect: str = "tdengine",
        database: str | None = None,
        *,
        user: str = "",
        authorizer: Authorizer | None = None,
    ) -> None:
        """Make a session of a user (default: that of the settings), whose rights `authorizer` knows (default: all)."""
        self.state = SessionState(context, dialect, database, user or context.settings.login)
        self._authorizer = authorizer or AllowAll()
        self._embedded: Embedded | None = None

    @property
    def context(self) -> Context:
        return self.state.context

    @property
    def clock(self) -> Clock:
        return self.context.clock

    @property
    def dialect(self) -> str:
        return self.state.dialect

    @property
    def database(self) -> str | None:
        """The current database."""
        return self.state.database

    @property
    def user(self) -> str:
        return self.state.user

    def execute(self, text: str) -> Result:
        """Run one statement.

        Raises:
            Error: a named one, that knows the text; never anything else.
        """
        with located(text):
            return self.run(self.stages(text), text)

    def stages(self, text: str) -> list[Stage]:
        """What a statement would do."""
        return plan(parse(text, self.dialect), self.state)

    def run(self, stages: Sequence[Stage], text: str | None = None) -> Result:
        """Apply stages, if the user has the rights that they need; the result is that of the last.

        Args:
            stages: What to do.
            text: The statement that they are of. A query of a text goes to a living snode, if this process has no Spark.

        Raises:
            PermissionDeniedError: the user lacks a right; nothing has been done.
        """
        self._authorizer.authorize(self.user, required_rights(stages))
        result = None if text is None else self._ask_snode(stages, text)
        return self._apply(stages) if result is None else result

    def _apply(self, stages: Sequence[Stage]) -> Result:
        result = Result()
        for stage in stages:
            result = apply(stage, self.state)
        return result

    def _ask_snode(self, stages: Sequence[Stage], text: str) -> Result | None:
        """The rows of a query from a living snode, whose Spark is warm; None if it has to be answered here."""
        if not any(isinstance(stage, RunQuery) for stage in stages):
            return None
        snode = living_snode(self.context)
        return None if snode is None else ask(snode, text, self.dialect, self.database)

    def explain(self, stages: Sequence[Stage]) -> list[str]:
        """What stages would do, and the rights that they need."""
        return [line for (line,) in self.run([DescribeStages(tuple(stages))]).tuples()]

    def load(
        self,
        files: Sequence[Path],
        into: str,
        *,
        subtable: str | None = None,
        file_format: str | None = None,
        progress: Progress = silent,
    ) -> int:
        """Load files into a table; return how many rows were written. An invalid row refuses all of them (`DataError`)."""
        from headrace.service.planning.jobs import plan_load

        return self.run(plan_load(self.state, files, into, subtable, file_format=file_format, progress=progress)).affected

    def backfill(
        self, stream: str, start: str | None, end: str | None, *, rows: int | None = None, progress: Progress = silent
    ) -> int:
        """Compute windows of a stream that start in `[start, end)` again, here; return the number of chunks. None is open."""
        from headrace.service.planning.jobs import plan_backfill

        return self.run(plan_backfill(self.state, stream, start, end, rows=rows, progress=progress)).affected

    def verify(self, text: str) -> VerificationResult:
        """Answer a query, and compare with what DuckDB makes of the stored rows, in SQL of its own."""
        from headrace.service.planning.jobs import plan_query_verification

        with located(text):
            return verdict_of(self.run(plan_query_verification(self.state, text, self.dialect)))

    def verify_stream(self, stream: str) -> VerificationResult:
        """Compare a stream's target (`database.stream`) with what DuckDB makes of the rows that the stream has handled."""
        from headrace.service.planning.jobs import plan_stream_verification

        return verdict_of(self.run(plan_stream_verification(self.state, stream)))

    def settle(self) -> None:
        """Return when every stream has handled all that was written."""
        if self._embedded is None:
            from headrace.service.embedded import Embedded

            self._embedded = Embedded(self.context)
        self._embedded.settle()

    def close(self) -> None:
        """Stop what this session started; the process's Spark session stays for others."""
        if self._embedded is not None:
            self._embedded.close()


@contextmanager
def located(text: str) -> Iterator[None]:
    """Let errors know the statement that they arose from; what is no error of ours becomes one."""
    try:
        yield
    except Error as error:
        raise error.located(text) from error.__cause__
    except Exception as error:
        raise InternalError(
            f"{type(error).__name__}: {error}", hint="a fault of Headrace: please report it with the statement", sql=text
        ) from error


def verdict_of(result: Result) -> VerificationResult:
    assert result.verdict is not None
    return result.verdict
