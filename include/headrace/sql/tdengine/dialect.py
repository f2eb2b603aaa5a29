"""The TDengine dialect."""

from __future__ import annotations

from headrace.model.expressions import Expression
from headrace.model.statements import Statement
from headrace.sql.tdengine.insert import is_insert, parse_insert
from headrace.sql.tdengine.parser import Parser
from headrace.sql.tdengine.render import expression_sql, statement_sql
from headrace.sql.tdengine.words import LEXICAL_RULES


class TDengine:
    """TDengine 3.3, with streams of the form `CREATE STREAM … INTO … AS`."""

    lexical_rules = LEXICAL_RULES

    def statement(self, text: str) -> Statement:
        """Parse one statement."""
        return parse_insert(text) if is_insert(text) else Parser(text).statement()

    def statement_sql(self, statement: Statement) -> str:
        return statement_sql(statement)

    def expression_sql(self, expression: Expression) -> str:
        """Write an expression."""
        return expression_sql(expression)

    def instant_sql(self, text: str, is_data: bool, /) -> str:
        """Write an instant: a string among data, a `TIMESTAMP` literal in expressions."""
        return LEXICAL_RULES.quote(text) if is_data else f"TIMESTAMP {LEXICAL_RULES.quote(text)}"
