"""Conversion of SQL text to the model's definitions and back, by dialect."""

from __future__ import annotations

import difflib
import functools
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from headrace.errors import Error, ProgrammingError, SqlSyntaxError
from headrace.model.spans import Span

if TYPE_CHECKING:
    from headrace.model.expressions import Expression
    from headrace.model.statements import Statement
    from headrace.sql.lexical_rules import LexicalRules

__all__ = ["check_dialect", "expression_sql", "instant_sql", "lexical_rules_of", "parse", "parse_script", "to_sql"]

DIALECTS: Final = ("iotdb", "tdengine")
"""The package of each dialect, imported on first use: its grammar takes much longer to import than its lexical rules."""


def parse(text: str, dialect: str = "tdengine") -> Statement:
    """Parse one statement; a trailing `;` is allowed. Spans are offsets in `text`, and errors carry the text and a span."""
    parser = _load_dialect(dialect.lower())
    if parser.LEXICAL_RULES.is_blank(text):
        raise SqlSyntaxError(
            "the statement is empty", hint="write a statement, such as SHOW DATABASES", span=Span(len(text), len(text)), sql=text
        )
    try:
        return parser.statement(text)
    except Error as error:
        raise error.with_sql(text) from None


def parse_script(text: str, dialect: str = "tdengine") -> list[tuple[str, Statement]]:
    """Parse statements separated by `;`. Returns each with its own text, in which its spans are offsets."""
    return [(statement, parse(statement, dialect)) for statement in lexical_rules_of(dialect).statements(text)]


def to_sql(statement: Statement, dialect: str = "tdengine") -> str:
    """Write a statement on one line, such that `parse(to_sql(statement)) == statement`."""
    return _load_dialect(dialect.lower()).statement_sql(statement)


def expression_sql(expression: Expression, dialect: str = "tdengine") -> str:
    """Write an expression, such as `max(a) + 1`."""
    return _load_dialect(dialect.lower()).expression_sql(expression)


def instant_sql(text: str, dialect: str = "tdengine", *, is_data: bool = False) -> str:
    """An instant (`2024-05-01 12:30:00+00:00`) as text; `is_data`: as a value for a column of a type that is known."""
    return _load_dialect(dialect.lower()).instant_sql(text, is_data)


def lexical_rules_of(dialect: str = "tdengine") -> LexicalRules:
    """Return how a dialect writes strings, names and comments."""
    name = dialect.lower()
    check_dialect(name)
    rules: LexicalRules = import_module(f"{__name__}.{name}.words").LEXICAL_RULES
    return rules


def check_dialect(name: str) -> None:
    """Raise `ProgrammingError` unless a dialect exists."""
    if name not in DIALECTS:
        close = difflib.get_close_matches(name, DIALECTS, n=1) or sorted(DIALECTS)
        raise ProgrammingError(f"unknown dialect {name!r}", hint=f"use {' or '.join(close)}")


class Dialect(Protocol):
    """What the module `dialect` of each package has: it converts between SQL text and `headrace.model.statements`."""

    LEXICAL_RULES: LexicalRules

    def statement(self, text: str) -> Statement:
        """Parse one statement."""

    def statement_sql(self, statement: Statement) -> str:
        """Write a statement on one line."""

    def expression_sql(self, expression: Expression) -> str:
        """Write an expression."""

    def instant_sql(self, text: str, is_data: bool, /) -> str:
        """Write an instant; `is_data` if it is a value for a column whose type is known."""


@functools.cache
def _load_dialect(name: str) -> Dialect:
    check_dialect(name)
    loaded: Any = import_module(f"{__name__}.{name}.dialect")
    return cast(Dialect, loaded)
