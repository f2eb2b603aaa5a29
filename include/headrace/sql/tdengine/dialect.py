"""The TDengine language as a sqlglot dialect: its words and signs."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import tokens
from sqlglot.tokenizer_core import TokenType

from headrace.model.expressions import Expression
from headrace.model.statements import Statement
from headrace.sql.dialect import StatementDialect
from headrace.sql.tdengine.insert import insert, is_insert
from headrace.sql.tdengine.parser import Parser
from headrace.sql.tdengine.render import expression_sql, statement_sql
from headrace.sql.tdengine.words import LEXIS


class TDengine(StatementDialect):
    """TDengine 3.3 with its streams of the `CREATE STREAM … INTO … AS` kind."""

    LEXIS = LEXIS
    IDENTIFIERS_CAN_START_WITH_DIGIT = True  # so that a duration such as 10s is one token

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS: ClassVar = ["`"]
        QUOTES: ClassVar = ["'", '"']
        STRING_ESCAPES: ClassVar = ["'", '"', "\\"]
        COMMENTS: ClassVar = ["--", ("/*", "*/")]
        HEX_STRINGS: ClassVar = [("0x", "")]
        NESTED_COMMENTS = False
        # Words are told apart by the parser, where they stand: most are names in one place and keywords in another.
        KEYWORDS: ClassVar = {
            "->": TokenType.ARROW,
            "<=": TokenType.LTE,
            ">=": TokenType.GTE,
            "<>": TokenType.NEQ,
            "!=": TokenType.NEQ,
            "==": TokenType.EQ,
        }

    # sqlglot takes {# … #} for a comment in every dialect.
    del Tokenizer._COMMENTS["{#"]

    def statement(self, text: str) -> Statement:
        return insert(text) if is_insert(text) else Parser(text, self.tokens(text)).statement()

    def statement_sql(self, statement: Statement) -> str:
        return statement_sql(statement)

    def expression_sql(self, expression: Expression) -> str:
        return expression_sql(expression)
