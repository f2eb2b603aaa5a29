"""What a dialect of ours offers beyond sqlglot's: whole statements as the model's plain definitions, and back."""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token

from headrace.errors import SyntaxError_
from headrace.model.expressions import Expression
from headrace.model.spans import Span
from headrace.model.statements import Statement
from headrace.sql.lexis import Lexis


class StatementDialect(Dialect):
    """A sqlglot dialect whose statements become `headrace.model.statements`."""

    LEXIS: ClassVar[Lexis]

    def statement(self, text: str) -> Statement:
        """The one statement of a text."""
        raise NotImplementedError

    def statement_sql(self, statement: Statement) -> str:
        """A statement written in this dialect, on one line."""
        raise NotImplementedError

    def expression_sql(self, expression: Expression) -> str:
        """An expression written in this dialect."""
        raise NotImplementedError

    def tokens(self, text: str) -> list[Token]:
        """The tokens of a text; a `SyntaxError_` shows what is not closed."""
        if "/*" in text:
            self.LEXIS.require_closed(text)
        try:
            return self.tokenize(text)
        except TokenError:
            self.LEXIS.require_closed(text)
            raise SyntaxError_("the text cannot be cut into words", span=Span(0, len(text)), sql=text) from None
