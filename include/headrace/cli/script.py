"""Scripts: run the statements of a text or file in order and show their results."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.cli.confirmation import confirm_replacement
from headrace.cli.files import locate_error_in_file
from headrace.cli.output import DIM, Format, show_rows, styled
from headrace.errors import OperationalError
from headrace.sql import lexical_rules_of, parse

if TYPE_CHECKING:
    from headrace.service.connection import Connection
    from headrace.service.results import Result


def show_result(result: Result, output_format: Format, separator: str) -> None:
    """Print the rows of a result, or the number of affected rows if the format is a table."""
    if result.rows is not None:
        show_rows(result, output_format, separator)
    elif output_format is Format.TABLE:
        text = "OK" if result.affected < 0 else f"OK, {result.affected} rows"
        sys.stderr.write(styled(text, DIM, sys.stderr) + "\n")


def run_script(
    connection: Connection, text: str, output_format: Format, file: str | None, *, separator: str = ",", yes: bool = False
) -> None:
    """Run the statements of a text in order, stopping at the first error.

    All statements are parsed first, so a syntax error anywhere runs nothing.

    Args:
        connection: Runs the statements.
        text: The statements, separated by semicolons.
        output_format: Format of the rows.
        file: File that the text was read from; errors then name the file and line.
        separator: What is between the values of CSV.
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
        show_result(result, output_format, separator)
