"""One connection's session: a current database, a language, and the way from text to result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import Error, InternalError
from headrace.service.executor import apply
from headrace.service.planning import plan
from headrace.service.remote import ask, living_snode
from headrace.service.results import Result
from headrace.service.stages import RunQuery
from headrace.sql import parse

if TYPE_CHECKING:
    from headrace.model.clock import Clock
    from headrace.runtime.context import Context, Progress
    from headrace.service.embedded import Embedded
    from headrace.service.stages import Stage
    from headrace.verify import Verdict


class Session:
    """Runs statements against one home. Not safe for use by several threads at once."""

    def __init__(self, context: Context, dialect: str = "tdengine", database: str | None = None) -> None:
        self.context = context
        self.dialect = dialect
        self.database = database
        self._embedded: Embedded | None = None

    @property
    def clock(self) -> Clock:
        return self.context.clock

    def execute(self, text: str) -> Result:
        """Run one statement.

        Raises:
            Error: a named one, that knows the text; never anything else.
        """
        try:
            return self._apply(self.stages(text), text)
        except Error as error:
            raise error.located(text) from error.__cause__
        except Exception as error:
            raise InternalError(
                f"{type(error).__name__}: {error}", hint="a fault of Headrace: please report it with the statement", sql=text
            ) from error

    def stages(self, text: str) -> list[Stage]:
        """What a statement would do."""
        return plan(parse(text, self.dialect), self)

    def _apply(self, stages: list[Stage], text: str) -> Result:
        """Carry the stages out. A query goes to a living snode, whose Spark is warm, where this process has none."""
        if any(isinstance(stage, RunQuery) for stage in stages) and (snode := living_snode(self.context)) is not None:
            return ask(snode, text, self.dialect, self.database)
        result = Result()
        for stage in stages:
            result = apply(stage, self)
        return result

    def load(self, files: Sequence[Path], into: str, *, subtable: str | None = None, progress: Progress) -> int:
        """Load files into a table; how many rows were read. A bad row refuses all of them (`DataError`)."""
        from headrace.service.jobs import load_files

        loaded = load_files(self, files, into, subtable, progress)
        return loaded.inserted + loaded.updated

    def backfill(self, stream: str, start: str | None, end: str | None, *, rows: int | None = None, progress: Progress) -> int:
        """Compute windows of a stream that start in `[start, end)` again, here; the number of chunks. None is open."""
        from headrace.service.jobs import backfill

        return backfill(self, stream, start, end, rows, progress)

    def verify(self, text: str) -> Verdict:
        """Answer a query, and compare with what DuckDB makes of the stored rows, in SQL of its own."""
        from headrace.service.verification import verify_query

        try:
            return verify_query(self, text)
        except Error as error:
            raise error.located(text) from error.__cause__

    def verify_stream(self, stream: str) -> Verdict:
        """Compare a stream's target (`database.stream`) with what DuckDB makes of the rows that the stream has handled."""
        from headrace.service.verification import verify_stream

        return verify_stream(self, stream)

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
