"""Statements from a text or a file, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.console import Format, err, show_rows
from headrace.errors import Error
from headrace.model.spans import Span
from headrace.sql import lexis_of, parse

if TYPE_CHECKING:
    from headrace.service.connection import Connection
    from headrace.service.results import Result


def show_result(result: Result, form: Format) -> None:
    """Show what a statement has returned."""
    if result.rows is not None:
        show_rows(result, form)
    elif form is Format.TABLE:
        err.print("OK" if result.affected < 0 else f"OK, {result.affected} rows", style="dim")


def run_script(connection: Connection, text: str, form: Format, file: Path | None = None) -> None:
    """Run the statements of a text; the first that fails ends it. An error in a file says the file's line.

    Nothing is run if one of them is no statement.
    """
    dialect = connection.session.dialect
    spans = lexis_of(dialect).statement_spans(text)
    for span in spans:
        with in_file(text, span, file):
            parse(text[span.start : span.end], dialect)
    for span in spans:
        with in_file(text, span, file):
            result = connection.session.execute(text[span.start : span.end])
        show_result(result, form)


@contextmanager
def in_file(text: str, statement: Span, file: Path | None) -> Iterator[None]:
    """Let an error of a statement tell the file, and its place in it."""
    try:
        yield
    except Error as error:
        if file is not None:
            place = error.span or Span(0, 0)
            error.sql, error.span = text, Span(statement.start + place.start, statement.start + place.end)
            error.message = f"{file}, line {error.span.position(text)[0]}: {error.message}"
        raise
