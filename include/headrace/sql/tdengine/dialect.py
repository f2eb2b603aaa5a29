"""TDengine 3.3, with streams of the form `CREATE STREAM … INTO … AS`."""

from __future__ import annotations

from headrace.model.statements import Statement
from headrace.sql.tdengine.insert import is_insert, parse_insert
from headrace.sql.tdengine.parser import Parser
from headrace.sql.tdengine.render import expression_sql, statement_sql
from headrace.sql.tdengine.words import LEXICAL_RULES

__all__ = ["LEXICAL_RULES", "expression_sql", "instant_sql", "statement", "statement_sql"]


def statement(text: str) -> Statement:
    return parse_insert(text) if is_insert(text) else Parser(text).statement()


def instant_sql(text: str, is_data: bool, /) -> str:
    """Write an instant: a string among data, a `TIMESTAMP` literal in expressions."""
    return LEXICAL_RULES.quote(text) if is_data else f"TIMESTAMP {LEXICAL_RULES.quote(text)}"
