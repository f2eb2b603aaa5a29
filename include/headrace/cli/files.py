"""Files of statements: their text, and where in them an error is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import Error, NotFoundError
from headrace.model.spans import Span

STANDARD_INPUT = "-"


def read_statements(file: str | None) -> str:
    """Return the text of a file, or of standard input if it is None or `-`; `NotFoundError` if it cannot be read."""
    if file is None or file == STANDARD_INPUT:
        return sys.stdin.read()
    try:
        with open(os.path.expanduser(file)) as opened:
            return opened.read()
    except OSError as error:
        raise NotFoundError(f"file {file} cannot be read: {error.strerror}", hint="check the path") from None


@contextmanager
def locate_error_in_file(text: str, statement: Span, file: str | None) -> Iterator[None]:
    """Add the file and line to an error raised by a statement of a script; do nothing if there is no file."""
    try:
        yield
    except Error as error:
        if file is not None and file != STANDARD_INPUT:
            span = error.span or Span(0, 0)
            error.sql, error.span = text, Span(statement.start + span.start, statement.start + span.end)
            error.message = f"{file}, line {error.span.position(text)[0]}: {error.message}"
        raise
