"""The dialect of IoTDB 1.3 in its tree model."""

from __future__ import annotations

from headrace.errors import SqlSyntaxError
from headrace.model.statements import Statement
from headrace.sql.iotdb.insert import insert, is_insert
from headrace.sql.iotdb.parser import Parser
from headrace.sql.iotdb.render import expression_sql
from headrace.sql.iotdb.render_statements import statement_sql
from headrace.sql.iotdb.status import with_parse_status
from headrace.sql.iotdb.words import LEXICAL_RULES

__all__ = ["LEXICAL_RULES", "expression_sql", "instant_sql", "statement", "statement_sql"]


def statement(text: str) -> Statement:
    """Parse one statement. Raise `SqlSyntaxError` with IoTDB's status code."""
    try:
        return insert(text) if is_insert(text) else Parser(text).statement()
    except SqlSyntaxError as error:
        raise with_parse_status(error, text) from None


def instant_sql(text: str, _: bool, /) -> str:
    """Write an instant, which IoTDB never quotes."""
    return text
