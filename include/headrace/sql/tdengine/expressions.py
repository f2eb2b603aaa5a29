"""Expressions, durations and types of the TDengine language."""

from __future__ import annotations

import re
from typing import Final

from headrace.model.expressions import Cast, DurationLiteral, Expression, Literal
from headrace.model.spans import Span
from headrace.model.time import UNIT_NAMES, Duration
from headrace.model.types import DataType, TypeKind
from headrace.sql.queries import QueryParser
from headrace.sql.tdengine.words import BARE_FUNCTIONS, BINARY, CALLABLE, LEXICAL_RULES, NEGATED, PREDICATES
from headrace.sql.tokens import Token
from headrace.sql.tokens import TokenType as TokenKind
from headrace.sql.types import TypeRule

DURATION: Final = re.compile(r"([0-9]{1,20})([busamhdwny])", re.IGNORECASE)
BITS: Final = re.compile(r"0B[01]{1,128}")
UNITS_HINT: Final = "a duration is a whole number and a unit, such as 10s: " + ", ".join(
    f"{unit} {name}" for unit, name in UNIT_NAMES.items()
)


MAX_BYTES: Final = 65_517
TYPES: Final = {
    "BOOL": TypeRule(TypeKind.BOOL),
    "TINYINT": TypeRule(TypeKind.TINYINT),
    "SMALLINT": TypeRule(TypeKind.SMALLINT),
    "INT": TypeRule(TypeKind.INT),
    "INTEGER": TypeRule(TypeKind.INT),
    "BIGINT": TypeRule(TypeKind.BIGINT),
    "FLOAT": TypeRule(TypeKind.FLOAT),
    "DOUBLE": TypeRule(TypeKind.DOUBLE),
    "DECIMAL": TypeRule(TypeKind.DECIMAL, 2, 38),
    "NUMERIC": TypeRule(TypeKind.DECIMAL, 2, 38),
    "VARCHAR": TypeRule(TypeKind.VARCHAR, 1, MAX_BYTES),
    "BINARY": TypeRule(TypeKind.VARCHAR, 1, MAX_BYTES),
    "NCHAR": TypeRule(TypeKind.NCHAR, 1, MAX_BYTES // 4),
    "VARBINARY": TypeRule(TypeKind.VARBINARY, 1, MAX_BYTES),
    "GEOMETRY": TypeRule(TypeKind.GEOMETRY, 1, MAX_BYTES),
    "JSON": TypeRule(TypeKind.JSON),
    "TIMESTAMP": TypeRule(TypeKind.TIMESTAMP),
}
FOREIGN_TYPES: Final = {
    "BLOB": "VARBINARY(1000)",
    "BOOLEAN": "BOOL",
    "DATETIME": "TIMESTAMP",
    "LONG": "BIGINT",
    "REAL": "DOUBLE",
    "STRING": "VARCHAR(100)",
    "TEXT": "VARCHAR(1000)",
}


class TDengineExpressions(QueryParser):
    """Parses TDengine's durations, `0b` numbers and `TIMESTAMP 'text'`, and provides the tables of the shared parser."""

    LEXICAL_RULES = LEXICAL_RULES
    BINARY = BINARY
    PREDICATES = PREDICATES
    NEGATED = NEGATED
    BARE_FUNCTIONS = BARE_FUNCTIONS
    CALLABLE = CALLABLE
    TYPES = TYPES
    FOREIGN_TYPES = FOREIGN_TYPES

    def _parse_word(self, token: Token) -> Expression:
        if BITS.fullmatch(token.word):
            self._advance()
            return Literal(int(token.word, 2), Span(token.start, token.end))
        if token.word[0].isdigit():
            return DurationLiteral(self._parse_duration(), Span(token.start, token.end))
        if token.word == "TIMESTAMP" and self._peek().kind is TokenKind.STRING:
            start = self._index
            self._advance()
            text = self._token
            operand = Literal(self._parse_string(), Span(text.start, text.end))
            return Cast(operand, DataType(TypeKind.TIMESTAMP), self._span(start))
        return super()._parse_word(token)

    def _parse_duration(self) -> Duration:
        """Parse a duration such as `10s`, which may be in quotes."""
        token = self._token
        text = self.text[token.start : token.end]
        match = DURATION.fullmatch(text.strip("'\"") if token.kind is TokenKind.STRING else text)
        if match is None:
            return self._fail("a duration", hint=UNITS_HINT if text[:1].isdigit() or text[:1] in "+-" else "")
        self._advance()
        return Duration(int(match[1]), match[2].lower())
