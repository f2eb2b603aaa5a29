"""Scripts: run the statements of a text or file in order, show their results, and ask before streams or rows are lost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from headrace.cli.files import locate_error_in_file
from headrace.cli.output import DIM, Format, show_lines, show_rows, styled
from headrace.errors import OperationalError, ProgrammingError
from headrace.model.statements import CreateStream, DropDatabase, DropTable
from headrace.model.tree_statements import DropTimeseries, DropTreeDatabases
from headrace.service.session import Session, with_statement
from headrace.sql import lexical_rules_of, parse

if TYPE_CHECKING:
    from headrace.service.connection import Connection
    from headrace.service.results import Result


MAX_LOST: Final = 10
"""What a DROP takes along that is shown."""
DROPS: Final = (DropDatabase, DropTable, DropTreeDatabases, DropTimeseries)
"""Statements that may take rows and streams along."""


def confirm(session: Session, text: str, *, yes: bool) -> None:
    """Show what a statement would compute again or take along, and ask at a terminal, unless the user has agreed (`yes`).

    Raises:
        OperationalError: The user declines.
        ProgrammingError: A stream would be replaced, and there is no terminal to ask at.
    """
    statement = parse(text, session.dialect)
    if isinstance(statement, CreateStream) and statement.or_replace:
        confirm_replacement(session, text, str(statement.name), yes=yes)
    elif isinstance(statement, DROPS) and not yes and sys.stdin.isatty():
        confirm_drop(session, text)


def confirm_replacement(session: Session, text: str, name: str, *, yes: bool) -> None:
    with with_statement(text):
        stages = session.stages(text)
    if not any(stage.replaces for stage in stages):
        return
    show_lines(session.explain(stages))
    if yes:
        return
    if not sys.stdin.isatty():
        raise ProgrammingError(f"replacing stream {name} needs a confirmation", hint="add --yes", sql=text)
    ask("Replace the stream?", "the stream was not replaced")


def confirm_drop(session: Session, text: str) -> None:
    """Ask about a DROP that takes rows or jobs along. A script is not asked: unlike a replacement, its text says what goes."""
    with with_statement(text):
        lost = [line for stage in session.stages(text) for line in stage.loses()]
    if lost:
        more = [f"  … and {len(lost) - MAX_LOST} more"] if len(lost) > MAX_LOST else []
        show_lines(["This drops", *(f"  {line}" for line in lost[:MAX_LOST]), *more])
        ask("Drop?", "nothing was dropped")


def ask(question: str, declined: str) -> None:
    if input(f"{question} [y/N]: ").strip().lower() not in ("y", "yes"):
        raise OperationalError(declined, hint="the statements before this one have been run")


def show_result(result: Result, output_format: Format, separator: str) -> None:
    if result.rows is not None:
        show_rows(result, output_format, separator)
    elif output_format is Format.TABLE:
        text = result.note or ("OK" if result.affected < 0 else f"OK, {result.affected} rows{result.unwritten}")
        sys.stderr.write(styled(text, DIM, sys.stderr) + "\n")


def run_script(
    connection: Connection, text: str, output_format: Format, file: str | None, *, separator: str = ",", yes: bool = False
) -> None:
    """Run the statements of a text in order, stopping at the first error.

    All statements are parsed first, so a syntax error anywhere runs nothing. If the text was read from a file, errors name it and
    the line. With `yes`, streams are replaced, and rows dropped, without a question.
    """
    dialect = connection.session.dialect
    spans = lexical_rules_of(dialect).statement_spans(text)
    for span in spans:
        with locate_error_in_file(text, span, file):
            parse(text[span.start : span.end], dialect)
    for span in spans:
        with locate_error_in_file(text, span, file):
            confirm(connection.session, text[span.start : span.end], yes=yes)
            result = connection.session.execute(text[span.start : span.end])
        show_result(result, output_format, separator)
