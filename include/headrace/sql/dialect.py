"""What a dialect offers: whole statements as the model's plain definitions, and back."""

from __future__ import annotations

from typing import Protocol

from headrace.model.expressions import Expression
from headrace.model.statements import Statement
from headrace.sql.lexis import Lexis


class Dialect(Protocol):
    """A language whose statements become `headrace.model.statements`."""

    @property
    def lexis(self) -> Lexis:
        """How it writes strings, names and comments."""

    def statement(self, text: str) -> Statement:
        """The one statement of a text."""

    def statement_sql(self, statement: Statement) -> str:
        """A statement written in this dialect, on one line."""

    def expression_sql(self, expression: Expression) -> str:
        """An expression written in this dialect."""
