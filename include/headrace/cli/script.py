"""Scripts: run the statements of a text or file in order and show their results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.confirmation import confirm_replacement
from headrace.cli.console import Format, err, show_rows
from headrace.errors import Error, OperationalError
from headrace.model.spans import Span
from headrace.sql import lexical_rules_of, parse

if TYPE_CHECKING:
    from headrace.service.connection import Connection
    from headrace.service.results import Result


def show_result(result: Result, output_format: Format) -> None:
    """Print the rows of a result, or the number of affected rows if the format is a table."""
    if result.rows is not None:
        show_rows(result, output_format)
    elif output_format is Format.TABLE:
        err.print("OK" if result.affected < 0 else f"OK, {result.affected} rows", style="dim")


def run_script(connection: Connection, text: str, output_format: Format, file: Path | None = None, *, yes: bool = False) -> None:
    """Run the statements of a text in order, stopping at the first error.

    All statements are parsed first, so a syntax error anywhere runs nothing.

    Args:
        connection: Runs the statements.
        text: The statements, separated by semicolons.
        output_format: Format of the rows.
        file: File that the text was read from; errors then name the file and line.
        yes: Whether streams are replaced without a question.
    """
    dialect = connection.session.dialect
    spans = lexical_rules_of(dialect).statement_spans(text)
    for span in spans:
        with locate_error_in_file(text, span, file):
            parse(text[span.start : span.end], dialect)
    for span in spans:
        with locate_error_in_file(text, span, file):
            if not confirm_replacement(connection.session, text[span.start : span.end], yes=yes):
                raise OperationalError("the stream was not replaced", hint="the statements before this one have been run")
            result = connection.session.execute(text[span.start : span.end])
        show_result(result, output_format)


@contextmanager
def locate_error_in_file(text: str, statement: Span, file: Path | None) -> Iterator[None]:
    """Add the file and line to an error raised by a statement of a script; do nothing if there is no file."""
    try:
        yield
    except Error as error:
        if file is not None:
            span = error.span or Span(0, 0)
            error.sql, error.span = text, Span(statement.start + span.start, statement.start + span.end)
            error.message = f"{file}, line {error.span.position(text)[0]}: {error.message}"
        raise
