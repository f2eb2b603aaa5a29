"""Expressions, durations and types of the TDengine language."""

from __future__ import annotations

import re
from typing import Final

from headrace.model.expressions import Cast, DurationLiteral, Expression, Literal
from headrace.model.spans import Span
from headrace.model.time import UNIT_NAMES, Duration
from headrace.model.types import DataType, TypeKind
from headrace.sql.queries import QueryParser
from headrace.sql.tdengine.words import BARE_FUNCTIONS, BINARY, CALLABLE, LEXIS, NEGATED, PREDICATES
from headrace.sql.tokens import Token
from headrace.sql.tokens import TokenType as TokenKind
from headrace.sql.types import TypeRule

DURATION: Final = re.compile(r"([0-9]{1,20})([busamhdwny])", re.IGNORECASE)
BITS: Final = re.compile(r"0B[01]{1,128}")
UNITS_HINT: Final = "a duration is a whole number and a unit, such as 10s: " + ", ".join(
    f"{unit} {name}" for unit, name in UNIT_NAMES.items()
)


BYTES: Final = 65_517
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
    "VARCHAR": TypeRule(TypeKind.VARCHAR, 1, BYTES),
    "BINARY": TypeRule(TypeKind.VARCHAR, 1, BYTES),
    "NCHAR": TypeRule(TypeKind.NCHAR, 1, BYTES // 4),
    "VARBINARY": TypeRule(TypeKind.VARBINARY, 1, BYTES),
    "GEOMETRY": TypeRule(TypeKind.GEOMETRY, 1, BYTES),
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
    """Tables for the shared parser; durations, `0b` numbers and `TIMESTAMP 'text'`."""

    LEXIS = LEXIS
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
        if token.word == "TIMESTAMP" and self._next().kind is TokenKind.STRING:
            start = self._index
            self._advance()
            text = self._token
            operand = Literal(self._parse_string(), Span(text.start, text.end))
            return Cast(operand, DataType(TypeKind.TIMESTAMP), self._span(start))
        return super()._parse_word(token)

    def _parse_duration(self) -> Duration:
        """`10s`, also as a string."""
        token = self._token
        written = self.text[token.start : token.end]
        found = DURATION.fullmatch(written.strip("'\"") if token.kind is TokenKind.STRING else written)
        if found is None:
            return self._fail("a duration", hint=UNITS_HINT if written[:1].isdigit() or written[:1] in "+-" else "")
        self._advance()
        return Duration(int(found[1]), found[2].lower())
