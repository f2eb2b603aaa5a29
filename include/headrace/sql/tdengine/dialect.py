"""The TDengine language."""

from __future__ import annotations

from headrace.model.expressions import Expression
from headrace.model.statements import Statement
from headrace.sql.tdengine.insert import insert, is_insert
from headrace.sql.tdengine.parser import Parser
from headrace.sql.tdengine.render import expression_sql, statement_sql
from headrace.sql.tdengine.words import LEXIS


class TDengine:
    """TDengine 3.3 with its streams of the `CREATE STREAM … INTO … AS` kind."""

    lexis = LEXIS

    def statement(self, text: str) -> Statement:
        return insert(text) if is_insert(text) else Parser(text).statement()

    def statement_sql(self, statement: Statement) -> str:
        return statement_sql(statement)

    def expression_sql(self, expression: Expression) -> str:
        return expression_sql(expression)
