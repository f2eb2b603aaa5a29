"""The interface of a dialect."""

from __future__ import annotations

from typing import Protocol

from headrace.model.expressions import Expression
from headrace.model.statements import Statement
from headrace.sql.lexis import Lexis


class Dialect(Protocol):
    """Converts between SQL text and `headrace.model.statements`."""

    @property
    def lexis(self) -> Lexis:
        """How it writes strings, names and comments."""

    def statement(self, text: str) -> Statement:
        """Parse one statement."""

    def statement_sql(self, statement: Statement) -> str:
        """Write a statement on one line."""

    def expression_sql(self, expression: Expression) -> str:
        """Write an expression."""
