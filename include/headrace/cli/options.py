"""What several commands share: options, and the connection that they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headrace.service.connection import Connection

Home = Annotated[
    Path | None, typer.Option("--home", help="Folder of catalog, tables and state; else HEADRACE_HOME, else ./.headrace.")
]
DatabaseName = Annotated[str | None, typer.Option("--database", "-d", help="Current database, as after USE.")]

Explained = Annotated[bool, typer.Option("--explain", help="Only show what would be done, and the rights that it needs.")]


def example(command: str) -> str:
    """The end of a command's help."""
    return f"Example: $ {command}"


def open_connection(home: Path | None, database: str | None = None) -> Connection:
    """A connection to the home that the command names."""
    from headrace.service.connection import connect

    return connect(home, database=database)
