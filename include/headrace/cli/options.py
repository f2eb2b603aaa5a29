"""Options that several commands share, and the connection that they select."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headrace.service.connection import Connection

HOME_HELP = "Folder of the catalog, tables and state. Default: HEADRACE_HOME, else ./.headrace."
Home = Annotated[Path | None, typer.Option("--home", help=HOME_HELP)]
DatabaseName = Annotated[str | None, typer.Option("--database", "-d", help="Current database, as set by USE.")]
DialectName = Annotated[
    str | None, typer.Option("--dialect", help="SQL dialect, tdengine or iotdb. Default: HEADRACE_DIALECT, else tdengine.")
]
ExplainOnly = Annotated[bool, typer.Option("--explain", help="Show the steps and the rights they need, and run nothing.")]


def format_example(command: str) -> str:
    return f"Example: $ {command}"


def open_connection(home: Path | None, database: str | None = None, dialect: str | None = None) -> Connection:
    """Connect to the home selected by `--home`, the environment or the default."""
    from headrace.service.connecting import connect

    return connect(home, dialect=dialect, database=database)
