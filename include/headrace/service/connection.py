"""DB-API 2.0 (PEP 249) over one home."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headrace.errors import InterfaceError
from headrace.model.clock import Clock, SystemClock
from headrace.model.progress import Progress, silent
from headrace.runtime.context import open_context
from headrace.service.results import Result
from headrace.service.rights import Authorizer
from headrace.service.session import Session
from headrace.settings import Settings, load

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"

Description = list[tuple[str, str, None, None, None, None, None]]


def connect(
    home: str | Path | None = None,
    *,
    dialect: str = "tdengine",
    database: str | None = None,
    user: str | None = None,
    clock: Clock | None = None,
    settings: Settings | None = None,
    authorizer: Authorizer | None = None,
) -> Connection:
    """Open a home; create it if it is missing.

    Args:
        home: Folder of the catalog, tables and state; the setting `home` where not given.
        dialect: Language of the statements, `tdengine`.
        database: Current database, as after `USE`.
        user: Who asks; the setting `user` where not given, else the login at the machine.
        clock: What `now` is; the machine's clock where not given.
        settings: All settings; `home` replaces theirs.
        authorizer: Decides what the user may do; everybody may do everything where not given.
    """
    chosen = settings or load()
    if home is not None:
        chosen = chosen.model_copy(update={"home": Path(home)})
    context = open_context(chosen, clock or SystemClock())
    return Connection(Session(context, dialect, database, user=user or "", authorizer=authorizer))


class Connection:
    """One connection; its streams run while no snode runs them, whenever `settle` is called."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._closed = False

    @property
    def user(self) -> str:
        """Who asks."""
        return self.session.user

    @property
    def clock(self) -> Any:
        """The clock handed to `connect`."""
        return self.session.clock

    def cursor(self) -> Cursor:
        self._open()
        return Cursor(self)

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> Cursor:
        """A new cursor on which `sql` has been executed."""
        return self.cursor().execute(sql, parameters)

    def load(
        self,
        path: str | Path | Sequence[str | Path],
        into: str,
        *,
        subtable: str | None = None,
        file_format: str | None = None,
        progress: Progress = silent,
    ) -> int:
        """Load CSV, Parquet or NDJSON files into a table: all rows of all files, or none.

        Args:
            path: A file, or several of one kind.
            into: A table, subtable or supertable, as `database.name` or a name of the current database.
            subtable: The subtable of all rows of a supertable; if None, a column `tbname` names each row's.
            file_format: `csv`, `parquet` or `ndjson`; if None, the files' names tell it.
            progress: Called with bytes read and bytes in all.

        Returns:
            How many rows were written; of rows with equal keys the last counts.

        Raises:
            DataError: a value is invalid; nothing has been written.
        """
        self._open()
        paths = [path] if isinstance(path, str | Path) else path
        files = [Path(each) for each in paths]
        return self.session.load(files, into, subtable=subtable, file_format=file_format, progress=progress)

    def append(self, data: object, into: str, *, subtable: str | None = None) -> int:
        """Write rows that the program holds into a table: all of them, or none. Columns are matched by name.

        Args:
            data: An Arrow table, batch or stream, a DataFrame of pandas or polars, or a sequence of dictionaries.
            into: As in `load`.
            subtable: As in `load`.

        Returns:
            How many rows were written; of rows with equal keys the last counts.

        Raises:
            DataError: a value is invalid; nothing has been written.
        """
        from headrace.service.appending import parquet_file

        self._open()
        with parquet_file(data) as path:
            return self.session.load([path], into, subtable=subtable, file_format="parquet")

    def settle(self) -> None:
        """Return when every stream has handled all that was written, by the snode where one lives, else right here."""
        self._open()
        self.session.settle()

    def commit(self) -> None:
        """Every statement commits by itself; there is nothing to do."""
        self._open()

    def close(self) -> None:
        """End what this connection started; the home stays usable. Closing twice is harmless."""
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
        """Name and type of each column, None for a statement without rows."""
        if self._result.rows is None:
            return None
        return [(name, kind, None, None, None, None, None) for name, kind in self._result.columns.items()]

    @property
    def rowcount(self) -> int:
        """Rows of the result, or rows written or deleted."""
        return self._result.affected if self._result.rows is None else self._result.count

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> Cursor:
        """Execute one statement, with a value for each `?` in it.

        Raises:
            ProgrammingError: there are too few or too many values, or one is of a type that no literal has.
        """
        self._check()
        if parameters is not None:
            from headrace.sql.parameters import template

            sql = template(sql, self.connection.session.dialect).render(parameters)
        return self._take(self.connection.session.execute(sql))

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> Cursor:
        """Execute a statement for each row of parameters.

        The rows of an INSERT go as one statement: every value is checked before anything is written, and each table gets one
        commit. Any other statement is executed once for each row; rows before one that fails stay executed.
        """
        from headrace.sql.parameters import render_many, template

        self._check()
        session = self.connection.session
        rows = list(rows)
        together = render_many(sql, rows, session.dialect)
        if together is not None:
            return self._take(session.execute(together))
        statement = template(sql, session.dialect)
        texts = [statement.render(row, number) for number, row in enumerate(rows)]
        affected = [session.execute(text).affected for text in texts]
        return self._take(Result(affected=sum(affected) if affected and min(affected) >= 0 else -1))

    def _take(self, result: Result) -> Cursor:
        self._result = result
        self._rows = result.tuples()
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        self._check()
        return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        self._check()
        return [row for _, row in zip(range(size or self.arraysize), self._rows, strict=False)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        self._check()
        return list(self._rows)

    def fetch_arrow_table(self) -> pa.Table:
        """The whole result as Arrow, whatever has been fetched of it."""
        self._check()
        if self._result.table is None:
            raise InterfaceError("the last statement has no rows", hint="execute a query first")
        return self._result.table

    def fetch_df(self) -> pd.DataFrame:
        """The whole result as a DataFrame of pandas, whatever has been fetched of it."""
        frame: pd.DataFrame = self.fetch_arrow_table().to_pandas()
        return frame

    def fetch_polars(self) -> pl.DataFrame:
        """The whole result as a DataFrame of polars, whatever has been fetched of it.

        Raises:
            InterfaceError: polars is not installed.
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
        """PEP 249 asks for it; it has no effect."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """PEP 249 asks for it; it has no effect."""

    def close(self) -> None:
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
