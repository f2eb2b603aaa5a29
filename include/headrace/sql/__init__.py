"""SQL text to the model's plain definitions and back, by dialect."""

from __future__ import annotations

from headrace.errors import Error, SyntaxError_
from headrace.model.expressions import Expression
from headrace.model.spans import Span
from headrace.model.statements import Statement
from headrace.sql.dialect import named
from headrace.sql.tdengine import TDengine

__all__ = ["TDengine", "expression_sql", "parse", "parse_script", "to_sql"]


def parse(text: str, dialect: str = "tdengine") -> Statement:
    """The one statement of a text; a `;` after it does no harm.

    Spans are offsets in `text`. Errors (`SyntaxError_`, `NotSupportedError`, `LimitError`, `InvalidStreamError`) carry the
    text and a span in it; an unknown dialect is a `ProgrammingError`.
    """
    speaker = named(dialect)
    if speaker.LEXIS.is_blank(text):
        raise SyntaxError_(
            "there is no statement", hint="write one, such as SHOW DATABASES", span=Span(len(text), len(text)), sql=text
        )
    try:
        return speaker.statement(text)
    except Error as error:
        raise error.located(text) from None


def parse_script(text: str, dialect: str = "tdengine") -> list[tuple[str, Statement]]:
    """The statements of a script with `;` between them, each with its own text, in which its spans are offsets."""
    return [(statement, parse(statement, dialect)) for statement in named(dialect).LEXIS.statements(text)]


def to_sql(statement: Statement, dialect: str = "tdengine") -> str:
    """A statement on one line, such that `parse(to_sql(statement)) == statement`."""
    return named(dialect).statement_sql(statement)


def expression_sql(expression: Expression, dialect: str = "tdengine") -> str:
    """An expression as text, such as `max(a) + 1`."""
    return named(dialect).expression_sql(expression)
