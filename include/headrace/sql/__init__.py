"""SQL text to the model's plain definitions and back, by dialect."""

from __future__ import annotations

import difflib
import functools
from importlib import import_module
from typing import TYPE_CHECKING, Final

from headrace.errors import Error, ProgrammingError, SyntaxError_
from headrace.model.expressions import Expression
from headrace.model.spans import Span
from headrace.model.statements import Statement

if TYPE_CHECKING:
    from headrace.sql.dialect import Dialect
    from headrace.sql.lexis import Lexis

__all__ = ["expression_sql", "lexis_of", "parse", "parse_script", "to_sql"]

DIALECTS: Final = {"tdengine": ("headrace.sql.tdengine", "TDengine")}
"""Module and class of each dialect; imported when first asked for."""


def parse(text: str, dialect: str = "tdengine") -> Statement:
    """The one statement of a text; a `;` after it does no harm.

    Spans are offsets in `text`. Errors (`SyntaxError_`, `NotSupportedError`, `LimitError`, `InvalidStreamError`) carry the
    text and a span in it; an unknown dialect is a `ProgrammingError`.
    """
    speaker = _dialect(dialect.lower())
    if speaker.lexis.is_blank(text):
        raise SyntaxError_(
            "there is no statement", hint="write one, such as SHOW DATABASES", span=Span(len(text), len(text)), sql=text
        )
    try:
        return speaker.statement(text)
    except Error as error:
        raise error.located(text) from None


def parse_script(text: str, dialect: str = "tdengine") -> list[tuple[str, Statement]]:
    """The statements of a script with `;` between them, each with its own text, in which its spans are offsets."""
    return [(statement, parse(statement, dialect)) for statement in _dialect(dialect.lower()).lexis.statements(text)]


def to_sql(statement: Statement, dialect: str = "tdengine") -> str:
    """A statement on one line, such that `parse(to_sql(statement)) == statement`."""
    return _dialect(dialect.lower()).statement_sql(statement)


def expression_sql(expression: Expression, dialect: str = "tdengine") -> str:
    """An expression as text, such as `max(a) + 1`."""
    return _dialect(dialect.lower()).expression_sql(expression)


def lexis_of(dialect: str = "tdengine") -> Lexis:
    """How a dialect writes strings, names and comments."""
    return _dialect(dialect.lower()).lexis


@functools.cache
def _dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        close = difflib.get_close_matches(name, DIALECTS, n=1) or sorted(DIALECTS)
        raise ProgrammingError(f"unknown dialect {name!r}", hint=f"use {' or '.join(close)}")
    module, class_ = DIALECTS[name]
    found: Dialect = getattr(import_module(module), class_)()
    return found
