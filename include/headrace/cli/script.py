"""Scripts: run the statements of a text or file in order, show their results, and ask before a stream is computed again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.cli.files import locate_error_in_file
from headrace.cli.output import DIM, Format, show_lines, show_rows, styled
from headrace.errors import OperationalError, ProgrammingError
from headrace.model.statements import CreateStream
from headrace.service.session import Session, with_statement
from headrace.sql import lexical_rules_of, parse

if TYPE_CHECKING:
    from headrace.service.connection import Connection
    from headrace.service.results import Result


def confirm_replacement(session: Session, text: str, *, yes: bool) -> bool:
    """Show what CREATE OR REPLACE STREAM would compute again, and ask at a terminal; return False if the user declines.

    Statements of other kinds are not asked about, nor is a user who has agreed beforehand (`yes`).

    Raises:
        ProgrammingError: There is no terminal to ask at.
    """
    statement = parse(text, session.dialect)
    if not isinstance(statement, CreateStream) or not statement.or_replace:
        return True
    with with_statement(text):
        stages = session.stages(text)
    if not any(stage.needs_confirmation for stage in stages):
        return True
    show_lines(session.explain(stages))
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ProgrammingError(f"replacing stream {statement.name} needs a confirmation", hint="add --yes", sql=text)
    return input("Replace the stream? [y/N]: ").strip().lower() in ("y", "yes")


def show_result(result: Result, output_format: Format, separator: str) -> None:
    if result.rows is not None:
        show_rows(result, output_format, separator)
    elif output_format is Format.TABLE:
        text = "OK" if result.affected < 0 else f"OK, {result.affected} rows"
        sys.stderr.write(styled(text, DIM, sys.stderr) + "\n")


def run_script(
    connection: Connection, text: str, output_format: Format, file: str | None, *, separator: str = ",", yes: bool = False
) -> None:
    """Run the statements of a text in order, stopping at the first error.

    All statements are parsed first, so a syntax error anywhere runs nothing. If the text was read from a file, errors name it and
    the line. With `yes`, streams are replaced without a question.
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
