"""IoTDB's status codes for statements that are refused before execution."""

from __future__ import annotations

import re
from typing import Final

from headrace.errors import SqlSyntaxError
from headrace.model.spans import Span

PARSE_ERROR: Final = 700
SEMANTIC_ERROR: Final = 701
UNEXPECTED: Final = re.compile(r'^unexpected (?P<token>".*"|[\'"`].*); expected (?P<several>one of )?(?P<expected>.*)$', re.DOTALL)


def with_parse_status(error: SqlSyntaxError, text: str) -> SqlSyntaxError:
    """Add IoTDB's status to a grammar error, and put the line (from 1) and column (from 0) before its message."""
    if error.status is None and error.span is not None:
        line, column = error.span.position(text)
        message = UNEXPECTED.sub(_mismatched, error.message)
        error.message = f"Error occurred while parsing SQL to physical plan: line {line}:{column - 1} {message}"
    error.with_status(PARSE_ERROR)
    return error


def _mismatched(match: re.Match[str]) -> str:
    expected = re.sub(r'"([^"]+)"', r"'\1'", match["expected"]).replace("'<EOF>'", "<EOF>")
    is_list = bool(match["several"])
    token = match["token"]
    text = token[1:-1] if token.startswith('"') else token
    return f"mismatched input '{text}' expecting {f'{{{expected}}}' if is_list else expected}"


def semantic_error(message: str, *, hint: str = "", span: Span | None = None, sql: str | None = None) -> SqlSyntaxError:
    """Return the error for text that is grammatical but not a valid statement."""
    error = SqlSyntaxError(message, hint=hint, span=span, sql=sql)
    error.with_status(SEMANTIC_ERROR)
    return error
