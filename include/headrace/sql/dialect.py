"""What a dialect of ours offers beyond sqlglot's: whole statements as the model's plain definitions, and back."""

from __future__ import annotations

import difflib
from typing import ClassVar

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token

from headrace.errors import ProgrammingError, SyntaxError_
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


def named(name: str) -> StatementDialect:
    """The dialect of that name; a `ProgrammingError` lists those there are."""
    classes = {cls.__name__.lower(): cls for cls in StatementDialect.__subclasses__()}
    found = classes.get(name.lower())
    if found is not None:
        return found()
    close = difflib.get_close_matches(name.lower(), classes, n=1)
    hint = f"use {close[0]}" if close else f"use one of {', '.join(sorted(classes))}"
    raise ProgrammingError(f"unknown dialect {name!r}", hint=hint)
