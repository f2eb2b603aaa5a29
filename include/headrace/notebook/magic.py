"""The magic command `headrace`: `%headrace` connects, and `%%headrace` runs the statements of a cell."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from headrace.errors import Error, InterfaceError, ProgrammingError
from headrace.notebook.charts import plot_rows
from headrace.service.connecting import connect
from headrace.sql import parse_script

if TYPE_CHECKING:
    from argparse import Namespace

    from IPython.core.interactiveshell import InteractiveShell

    from headrace.service.connection import Connection, Cursor


class Frame(StrEnum):
    """What rows are returned as."""

    PANDAS = "pandas"
    POLARS = "polars"
    ARROW = "arrow"


FETCH: Final[dict[Frame, Callable[[Cursor], Any]]] = {
    Frame.PANDAS: lambda cursor: cursor.fetch_df(),
    Frame.POLARS: lambda cursor: cursor.fetch_polars(),
    Frame.ARROW: lambda cursor: cursor.fetch_arrow_table(),
}


class StatementError(Exception):
    """An error of Headrace, which a notebook shows as the command line does: without a traceback of its code."""

    def _render_traceback_(self) -> list[str]:
        return f"error {self}".splitlines()


@magics_class
class HeadraceMagics(Magics):
    """The command `headrace`, with the connection that the cells of a notebook share."""

    def __init__(self, shell: InteractiveShell) -> None:
        """Create it; the connection is opened on first use."""
        super().__init__(shell)
        self._connection: Connection | None = None
        self._target: dict[str, str] = {}

    @magic_arguments()
    @argument("home", nargs="?", help="with %%headrace: folder of a home, or grpc://host:port; default: the setting `home`")
    @argument("--dialect", choices=["tdengine", "iotdb"], help="language of the statements, of this and later cells")
    @argument("--database", help="current database, as after USE")
    @argument("--user", help="user whose rights apply; asks for the password unless HEADRACE_PASSWORD is set")
    @argument("--into", metavar="NAME", help="keep the rows in a variable, and show nothing")
    @argument("--frame", type=Frame, choices=list(Frame), default=Frame.PANDAS, help="what rows are returned as")
    @argument("--plot", action="store_true", help="draw the numbers over time, a line for each text; needs matplotlib")
    @line_cell_magic
    def headrace(self, line: str, cell: str | None = None) -> Any:
        """Connect to a home (%headrace), or run the statements of a cell (%%headrace) and return the rows of the last one.

        A cell needs no connection before it: it opens the home of the settings. The connection stays open for later cells, until
        another %headrace.
        """
        arguments = parse_argstring(self.headrace, line)
        try:
            named = named_target(arguments)
            if cell is None or self._connection is None or named:
                self._connect(named if cell is None else {**self._target, **named})
            return None if cell is None else self._run(cell, arguments)
        except Error as error:
            raise StatementError(str(error)) from None

    def disconnect(self) -> None:
        """Close the connection. Idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self, target: dict[str, str]) -> None:
        if "user" in target and "password" not in target and "HEADRACE_PASSWORD" not in os.environ:
            target = {**target, "password": getpass.getpass(f"Password of {target['user']}: ")}
        self.disconnect()
        options = {name: value for name, value in target.items() if name != "home"}
        self._connection = connect(target.get("home"), **options)  # type: ignore[arg-type]
        self._target = target

    def _run(self, cell: str, arguments: Namespace) -> Any:
        """Run statements in order, all of which are parsed first, and return the rows of the last one."""
        connection = self._connection
        assert connection is not None
        cursor = connection.cursor()
        for sql, _ in parse_script(cell, connection.session.dialect):
            cursor.execute(sql)
        if cursor.description is None:
            return self._report(cursor, arguments)
        rows = FETCH[arguments.frame](cursor)
        if arguments.into is not None:
            self._keep(arguments.into, rows)
        if arguments.plot:
            return plot_rows(cursor.fetch_df())
        return None if arguments.into is not None else rows

    def _keep(self, name: str, rows: Any) -> None:
        if not name.isidentifier():
            raise ProgrammingError(f"{name!r} is no name of a variable", hint="use letters, digits and underscores")
        assert self.shell is not None
        self.shell.user_ns[name] = rows

    def _report(self, cursor: Cursor, arguments: Namespace) -> None:
        """Say that statements without rows have succeeded."""
        if arguments.into is not None or arguments.plot:
            raise InterfaceError("the last statement has no rows", hint="end the cell with a query")
        print("OK" if cursor.rowcount < 0 else f"OK, {cursor.rowcount} rows")  # noqa: T201


def named_target(arguments: Namespace) -> dict[str, str]:
    """Return the arguments that say what to connect to."""
    named = {name: getattr(arguments, name) for name in ("home", "dialect", "database", "user")}
    return {name: value for name, value in named.items() if value is not None}
