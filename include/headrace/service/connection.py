"""DB-API 2.0 (PEP 249) connections and cursors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headrace.errors import InterfaceError, ProgrammingError
from headrace.model.access import Privilege
from headrace.model.loads import LoadRequest
from headrace.model.progress import Progress, no_progress
from headrace.service.names import parse_name
from headrace.service.results import Result
from headrace.service.rights import globally
from headrace.service.session import Session, with_statement
from headrace.sql import parse

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from headrace.service.stage import Stage
    from headrace.verify import VerificationResult

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"

Description = list[tuple[str, str, None, None, None, None, None]]


class Connection:
    """A session on one home. Runs its streams in `settle` while no snode does."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._closed = False

    @property
    def user(self) -> str:
        """The user whose rights apply."""
        return self.session.user

    @property
    def clock(self) -> Any:
        """The clock handed to `connect`."""
        return self.session.context.clock

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        self._open()
        return Cursor(self)

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> Cursor:
        """Execute `sql` on a new cursor and return the cursor."""
        return self.cursor().execute(sql, parameters)

    def load(
        self,
        path: str | Path | Sequence[str | Path],
        into: str,
        *,
        subtable: str | None = None,
        device: str | None = None,
        aligned: bool = False,
        file_format: str | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
        progress: Progress = no_progress,
    ) -> int:
        """Load CSV, Parquet or NDJSON files into a table or a tree of devices: all rows of all files, or none.

        Args:
            path: One file, or several of one format.
            into: A table, subtable or supertable, as `database.name` or a name in the current database; or a tree
                (`root.plant`), or a device of one.
            subtable: The subtable of all rows of a supertable; if None, a column `tbname` names the subtable of each row.
            device: The device of all rows of a tree; if None, a column `device` names the device of each row, or the names of the
                columns are paths.
            aligned: Whether the devices that the load creates are aligned.
            file_format: `csv`, `parquet` or `ndjson`; if None, the files' extensions decide.
            columns: The columns of the table that columns of the files with other names are for: `{"time": ["ts"], "note": []}`
                leaves `note` out.
            progress: Called with the bytes read and the total bytes.

        Returns:
            The number of rows written; of rows with equal keys the last counts.

        Raises:
            DataError: A value is invalid; nothing has been written.
        """
        files = [Path(file) for file in ([path] if isinstance(path, str | Path) else path)]
        request = LoadRequest(files, into, subtable, device, aligned, file_format, columns or {})
        return self.load_files(request, progress).affected

    def load_files(self, request: LoadRequest, progress: Progress = no_progress) -> Result:
        """Load files as `load` does. The result has the number of rows read, too."""
        from headrace.service.topics.loads import load_rights, plan_load

        self._open()
        session, name = self.session, parse_name(request.into)
        stages = partial(plan_load, session, request, progress)
        return session.apply(f"LOAD into {request.into}", load_rights(session, request), stages, (name,))

    def check_load(self, into: str) -> None:
        """Do as `load` does before it reads files.

        Raises:
            PermissionDeniedError: The user may not write there.
            NotFoundError: There is no such table.
        """
        from headrace.service.topics.loads import load_rights, plan_load

        self._open()
        request, session = LoadRequest((), into), self.session

        def stages() -> list[Stage]:
            return [replace(stage, apply=lambda _: None) for stage in plan_load(session, request)]

        session.apply(f"LOAD into {into}", load_rights(session, request), stages, (parse_name(into),))

    def append(self, data: object, into: str, *, subtable: str | None = None, device: str | None = None) -> int:
        """Write rows that the program holds into a table or a tree: all of them, or none. Columns are matched by name.

        Args:
            data: An Arrow table, batch or stream, a DataFrame of pandas or polars, or a sequence of dictionaries.
            into: As in `load`.
            subtable: As in `load`.
            device: As in `load`.

        Returns:
            The number of rows written; of rows with equal keys the last counts.

        Raises:
            DataError: A value is invalid; nothing has been written.
        """
        from headrace.service.appending import parquet_file

        self._open()
        with parquet_file(data) as path:
            return self.load(path, into, subtable=subtable, device=device, file_format="parquet")

    def verify(
        self,
        query: str | None = None,
        *,
        stream: str | None = None,
        cq: str | None = None,
        start: str | None = None,
        end: str | None = None,
    ) -> VerificationResult:
        """Compare a query, or what a stream or continuous query has written, with the result that DuckDB computes.

        Args:
            query: A SELECT statement.
            stream: A stream, as `database.stream`, in place of a query.
            cq: A continuous query, in place of a query: what its latest execution has written, or the executions of a range.
            start: Only executions of the continuous query whose range ends after this instant.
            end: Only executions of the continuous query whose range starts before this instant.

        Raises:
            ProgrammingError: Not exactly one of the three is named, or there is a range without a continuous query.
            NotSupportedError: DuckDB cannot compute it independently.
        """
        from headrace.service.topics.verifications import plan_verification

        self._open()
        check_one_subject({"query": query, "stream": stream, "cq": cq})
        if cq is None and (start is not None or end is not None):
            raise ProgrammingError("start and end need a continuous query", hint="name it (cq=…), or leave them out")
        rights, session = () if cq is None else globally(Privilege.USE_CQ), self.session
        with nullcontext() if query is None else with_statement(query):
            named = (parse_name(stream or ""),) if query is None else parse(query, session.dialect)
            stages = partial(plan_verification, session, query, stream, cq, start, end)
            result = session.apply(f"VERIFY {query or stream or cq}", rights, stages, named)
        assert result.verification is not None
        return result.verification

    def backfill(
        self,
        *,
        stream: str | None = None,
        cq: str | None = None,
        start: str | None = None,
        end: str | None = None,
        progress: Progress = no_progress,
    ) -> int:
        """Recompute in this process a range of a stream's windows, or all ranges of a continuous query that overlap it.

        Args:
            stream: A stream, as `database.stream`.
            cq: A continuous query, in place of a stream.
            start: Start of the first window; None for the first row, or the first range of a continuous query.
            end: Only windows that start before this; None for all closed windows, or all ranges that are due.
            progress: Called with the number of chunks or ranges done and their total.

        Returns:
            The number of chunks of the stream, or of ranges of the continuous query.

        Raises:
            ProgrammingError: Not exactly one of the two is named.
        """
        from headrace.service.topics.backfills import plan_backfill

        self._open()
        check_one_subject({"stream": stream, "cq": cq})
        rights = () if cq is None else globally(Privilege.USE_CQ)
        stages = partial(plan_backfill, self.session, stream, cq, start, end, progress=progress)
        return self.session.apply(f"BACKFILL {stream or cq}", rights, stages, (parse_name(stream or ""),)).affected

    def settle(self, report: Callable[[str], None] = lambda _: None) -> None:
        """Return when every stream has processed all that was written; run the streams here unless an snode does.

        `report` is called with what is waited for, whenever that changes.
        """
        self._open()
        self.session.settle(report)

    def commit(self) -> None:
        """Do nothing: every statement commits on its own."""
        self._open()

    def close(self) -> None:
        """Stop what this connection started; the home stays usable. Idempotent."""
        if not self._closed:
            self._closed = True
            self.session.close()
            self.session.context.catalog.close()

    def _open(self) -> None:
        if self._closed:
            raise InterfaceError("the connection is closed", hint="open a new one with headrace.connect()")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def check_one_subject(subjects: Mapping[str, str | None]) -> None:
    """Raise `ProgrammingError` unless exactly one of the arguments is set."""
    if sum(subject is not None for subject in subjects.values()) != 1:
        names = " or ".join(subjects)
        raise ProgrammingError(f"exactly one argument is needed: {names}", hint="pass only what you want to compute again")


class Cursor:
    """Executes statements and holds the rows of the last one."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._result = Result()
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self._closed = False

    @property
    def description(self) -> Description | None:
        """Name and Arrow type of each column; None if the statement returned no rows."""
        if self._result.rows is None:
            return None
        return [(name, type_, None, None, None, None, None) for name, type_ in self._result.columns]

    @property
    def rowcount(self) -> int:
        """Number of rows in the result, or of rows written or deleted; -1 if neither applies."""
        return self._result.affected if self._result.rows is None else self._result.count

    @property
    def note(self) -> str:
        """What a user should know who expects something else of the statement, such as that there was nothing to drop."""
        return self._result.note

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> Cursor:
        """Execute one statement, with a value for each `?` in it.

        Raises:
            ProgrammingError: There are too few or too many values, or one has a type that no literal has.
        """
        self._check()
        if parameters is not None:
            from headrace.sql.parameters import split_template

            sql = split_template(sql, self.connection.session.dialect).render(parameters)
        return self._take(self.connection.session.execute(sql))

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> Cursor:
        """Execute a statement once for each row of parameters.

        An INSERT is executed as one statement: every value is checked before anything is written, and each table gets one commit.
        Any other statement is executed once per row; executions before a failing one remain.
        """
        from headrace.sql.parameters import render_many, split_template

        self._check()
        session = self.connection.session
        rows = list(rows)
        combined = render_many(sql, rows, session.dialect)
        if combined is not None:
            return self._take(session.execute(combined))
        statement = split_template(sql, session.dialect)
        texts = [statement.render(row, number) for number, row in enumerate(rows)]
        affected = [session.execute(text).affected for text in texts]
        return self._take(Result(affected=sum(affected) if affected and min(affected) >= 0 else -1))

    def _take(self, result: Result) -> Cursor:
        self._result = result
        self._rows = result.tuples()
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last."""
        self._check()
        return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next `size` rows (default `arraysize`), fewer at the end."""
        self._check()
        return [row for _, row in zip(range(size or self.arraysize), self._rows, strict=False)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the remaining rows."""
        self._check()
        return list(self._rows)

    def fetch_arrow_table(self) -> pa.Table:
        """Return the whole result as Arrow, including rows already fetched.

        Raises:
            InterfaceError: The last statement returned no rows.
        """
        self._check()
        if self._result.table is None:
            raise InterfaceError("the last statement has no rows", hint="execute a query first")
        return self._result.table

    def fetch_df(self) -> pd.DataFrame:
        """Return the whole result as a pandas DataFrame, including rows already fetched."""
        frame: pd.DataFrame = self.fetch_arrow_table().to_pandas()
        return frame

    def fetch_polars(self) -> pl.DataFrame:
        """Return the whole result as a polars DataFrame, including rows already fetched.

        Raises:
            InterfaceError: polars is not installed, or the last statement returned no rows.
        """
        try:
            import polars
        except ImportError:
            raise InterfaceError(
                "polars is not installed", hint="pip install polars, or use fetch_df() or fetch_arrow_table()"
            ) from None
        frame = polars.from_arrow(self.fetch_arrow_table())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def setinputsizes(self, sizes: Any) -> None:
        """Do nothing; PEP 249 requires the method."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing; PEP 249 requires the method."""

    def close(self) -> None:
        """Close the cursor; executing or fetching on it then fails."""
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed", hint="make a new one with connection.cursor()")
        self.connection._open()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        self._check()
        return next(self._rows)

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
