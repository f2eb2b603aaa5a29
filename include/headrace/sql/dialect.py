"""The interface of a dialect."""

from __future__ import annotations

from typing import Protocol

from headrace.model.expressions import Expression
from headrace.model.statements import Statement
from headrace.sql.lexical_rules import LexicalRules


class Dialect(Protocol):
    """Converts between SQL text and `headrace.model.statements`."""

    @property
    def lexical_rules(self) -> LexicalRules:
        """How it writes strings, names and comments."""

    def statement(self, text: str) -> Statement:
        """Parse one statement."""

    def statement_sql(self, statement: Statement) -> str:
        """Write a statement on one line."""

    def expression_sql(self, expression: Expression) -> str:
        """Write an expression."""

    def instant_sql(self, text: str, is_data: bool, /) -> str:
        """Write an instant; `is_data` if it is a value for a column whose type is known."""
