"""Expressions, durations, types and queries of the TDengine language: its clauses and their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, ClassVar, Final

from headrace.model.expressions import Cast, DurationLiteral, Expression, Literal
from headrace.model.queries import InterpolationClause, WindowClause
from headrace.model.spans import Span
from headrace.model.time import UNIT_NAMES, Duration
from headrace.model.types import DataType, TypeKind
from headrace.sql.numbers import exact
from headrace.sql.queries import ASOF, Clause, Fields, QueryParser, misplaced_hints
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

WINDOWS: Final[Mapping[str, Callable[[Any, int], WindowClause]]] = {
    "INTERVAL": lambda self, start: self._parse_interval(start),
    "SESSION": lambda self, start: self._parse_session(start),
    "STATE_WINDOW": lambda self, start: self._parse_state(start),
    "EVENT_WINDOW": lambda self, start: self._parse_event(start),
    "COUNT_WINDOW": lambda self, start: self._parse_count(start),
}
SOURCE, WHERE, GROUP, HAVING = QueryParser.CLAUSES
ORDER, LIMIT = QueryParser.TAIL
CLAUSES: Final = (
    SOURCE,
    WHERE,
    Clause("PARTITION BY", lambda self: self._parse_listed("PARTITION BY", "partition_by", self._parse_partition_key)),
    Clause("RANGE … EVERY", lambda self: self._parse_interpolation()),
    Clause(f"{', '.join([*WINDOWS][:-1])} or {[*WINDOWS][-1]}", lambda self: self._parse_window_clause()),
    Clause("FILL", lambda self: self._parse_fill_clause()),
    GROUP,
    HAVING,
)
TAIL: Final = (ORDER, Clause("SLIMIT", lambda self: self._parse_limit("SLIMIT", "SOFFSET", "series_")), LIMIT)
JOIN_HINT: Final = "use ASOF JOIN, or join on equal timestamps"


class TDengineQueries(QueryParser):
    """Parses what is TDengine's own: durations, `0b` numbers, `TIMESTAMP 'text'`, `PARTITION BY`, `RANGE … EVERY`, windows, `FILL`.

    Names of columns are in lower case.
    """

    LEXICAL_RULES = LEXICAL_RULES
    BINARY = BINARY
    PREDICATES = PREDICATES
    NEGATED = NEGATED
    BARE_FUNCTIONS = BARE_FUNCTIONS
    CALLABLE = CALLABLE
    TYPES = TYPES
    FOREIGN_TYPES = FOREIGN_TYPES
    CLAUSES = CLAUSES
    TAIL = TAIL
    WINDOWS = WINDOWS
    MISPLACED: ClassVar[Mapping[str, str]] = misplaced_hints(CLAUSES, TAIL)
    UNSUPPORTED_WINDOWS = ("ANOMALY_WINDOW",)
    MATCHES = ("SEMI", "ANTI", ASOF)
    UNSUPPORTED_JOINS: ClassVar[Mapping[str, str]] = {"WINDOW": JOIN_HINT}

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

    def _parse_number_text(self, text: str) -> int | float | Decimal:
        return int(text) if text.isdigit() and int(text) < 2**64 else exact(text)

    def _parse_duration(self) -> Duration:
        """Parse a duration such as `10s`, which may be in quotes."""
        token = self._token
        text = self.text[token.start : token.end]
        match = DURATION.fullmatch(text.strip("'\"") if token.kind is TokenKind.STRING else text)
        if match is None:
            return self._fail("a duration", hint=UNITS_HINT if text[:1].isdigit() or text[:1] in "+-" else "")
        self._advance()
        return self._bounded(Duration(int(match[1]), match[2].lower()), Span(token.start, token.end))

    def _parse_quantifier(self) -> Fields:
        return {"tags_only": True} if self._accept("TAGS") else super()._parse_quantifier()

    def _column_name(self, start: int) -> str:
        """Return the text, in lower case outside quotes."""
        return self.LEXICAL_RULES.lower(self._text_since(start))

    def _parse_window_clause(self) -> Fields:
        window = self._parse_window()
        return {} if window is None else {"window": window}

    def _parse_fill_clause(self) -> Fields:
        fill = self._parse_fill()
        return {} if fill is None else {"fill": fill}

    def _parse_interpolation(self) -> Fields:
        """Parse `[RANGE(start[, end])] [EVERY(step)]`."""
        start = self._index
        ends = self._parse_items(self._parse_expression) if self._accept("RANGE") else ()
        if len(ends) > 2:
            self._fail_unsupported("RANGE of more than a start and an end", "write RANGE(start, end)", self._span(start))
        every = self._parse_parenthesized(self._parse_duration) if self._accept("EVERY") else None
        if not ends and every is None:
            return {}
        return {"interpolation": InterpolationClause(ends[0] if ends else None, ends[1] if len(ends) > 1 else None, every)}
