"""`headrace sql`: statements that a live snode answers are sent to it; for the others, this process opens the home."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.cli.files import read_statements
from headrace.cli.output import Format, show_rows
from headrace.cli.snode_statements import ask_snode, find_endpoint
from headrace.errors import ProgrammingError

OPTIONS: Final = {
    **dict.fromkeys(("--file", "-f"), "file"),
    **dict.fromkeys(("--field-separator", "-F"), "separator"),
    **dict.fromkeys(("--database", "-d"), "database"),
    "--home": "home",
    "--dialect": "dialect",
    "--format": "output_format",
}
"""The options with a value of `headrace sql`, and the fields of `SqlCommand` that they set."""
FLAGS: Final = ("--yes", "-y")


@dataclass(frozen=True, slots=True)
class SqlCommand:
    """The arguments of `headrace sql`; None means the configured home or language.

    Statements are separated by semicolons; without any, those of the file or of standard input (`-`) are executed. An empty
    `separator` is the format's own. With `yes`, streams are replaced, and rows dropped, without a question.
    """

    statement: str | None = None
    file: str | None = None
    separator: str = ""
    home: str | None = None
    database: str | None = None
    dialect: str | None = None
    output_format: str = Format.TABLE
    yes: bool = False


def parse_command(arguments: Sequence[str]) -> SqlCommand | None:
    """Parse the arguments of `headrace sql`; return None for all that the complete parser has to explain, such as `--help`.

    It exists because importing Typer takes longer than most statements.
    """
    values: dict[str, str | bool] = {}
    rest = iter(arguments)
    for argument in rest:
        name, is_assigned, value = argument.partition("=") if argument.startswith("--") else (argument, "", "")
        if name in FLAGS and not is_assigned:
            values["yes"] = True
        elif name in OPTIONS:
            assigned = value if is_assigned else next(rest, None)
            if assigned is None:
                return None
            values[OPTIONS[name]] = assigned
        elif argument.startswith("-") or "statement" in values:
            return None
        else:
            values["statement"] = argument
    is_valid = values.get("output_format", Format.TABLE) in list(Format)
    return SqlCommand(**values) if is_valid else None  # type: ignore[arg-type]


def run_sql(command: SqlCommand) -> None:
    """Run the statements of a command, or a shell if there are none and standard input and output are a terminal."""
    output_format, separator = output_of(command)
    has_shell = command.statement is None and command.file is None and sys.stdin.isatty() and sys.stdout.isatty()
    text = "" if has_shell else read_statements(command.file) if command.statement is None else command.statement
    file = command.file if command.statement is None else None
    if not has_shell and show_answers(command, text, file, output_format, separator):
        return
    from headrace.service.connecting import connect

    with connect(command.home, dialect=command.dialect, database=command.database) as connection:
        if has_shell:
            from headrace.cli.shell import run_shell

            run_shell(connection, output_format, separator)
        else:
            from headrace.cli.script import run_script

            run_script(connection, text, output_format, file, separator=separator, yes=command.yes)


def show_answers(command: SqlCommand, text: str, file: str | None, output_format: Format, separator: str) -> bool:
    """Print what a live snode answers, and raise its error; return False if this process must run the statements."""
    endpoint = find_endpoint(command.home, os.environ)
    if endpoint is None:
        return False
    dialect = command.dialect or os.environ.get("HEADRACE_DIALECT") or "tdengine"
    answers = ask_snode(endpoint, text, dialect.lower(), command.database, file)
    if answers is None:
        return False
    results, error = answers
    for result in results:
        show_rows(result, output_format, separator)
    if error is not None:
        raise error
    return True


def output_of(command: SqlCommand) -> tuple[Format, str]:
    """Return the format of rows and the separator of their values; a separator implies CSV.

    Raises:
        ProgrammingError: The separator is not one character.
    """
    separator = {"\\t": "\t"}.get(command.separator, command.separator)
    if not separator:
        return Format(command.output_format), ","
    if len(separator) != 1 or separator in '"\r\n':
        raise ProgrammingError(f"{separator!r} cannot separate fields", hint="pass one character, such as '|', or \\t for a tab")
    return Format.CSV, separator
