"""Expressions, durations and types of the TDengine language."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from headrace.errors import LimitError
from headrace.model.expressions import Call, Cast, DurationLiteral, Expression, Literal
from headrace.model.spans import Span
from headrace.model.time import UNIT_NAMES, Duration
from headrace.model.types import SIGNED, UNSIGNED, DataType, Kind
from headrace.sql.expressions import ExpressionParser
from headrace.sql.faults import likely
from headrace.sql.operators import PREDICATE
from headrace.sql.tdengine.words import BARE_FUNCTIONS, BINARY, CALLABLE, LEXIS, NEGATED, PREDICATES
from headrace.sql.tokens import Kind as TokenKind
from headrace.sql.tokens import Token

DURATION: Final = re.compile(r"([0-9]{1,20})([busamhdwny])", re.IGNORECASE)
BITS: Final = re.compile(r"0B[01]{1,128}")
UNITS_HINT: Final = "a duration is a whole number and a unit, such as 10s: " + ", ".join(
    f"{unit} {name}" for unit, name in UNIT_NAMES.items()
)


class TypeRule(NamedTuple):
    """What follows a type's name: its kind, how many numbers in brackets at most, and the greatest first number."""

    kind: Kind
    numbers: int = 0
    greatest: int = 0


BYTES: Final = 65_517
TYPES: Final = {
    "BOOL": TypeRule(Kind.BOOL),
    "TINYINT": TypeRule(Kind.TINYINT),
    "SMALLINT": TypeRule(Kind.SMALLINT),
    "INT": TypeRule(Kind.INT),
    "INTEGER": TypeRule(Kind.INT),
    "BIGINT": TypeRule(Kind.BIGINT),
    "FLOAT": TypeRule(Kind.FLOAT),
    "DOUBLE": TypeRule(Kind.DOUBLE),
    "DECIMAL": TypeRule(Kind.DECIMAL, 2, 38),
    "NUMERIC": TypeRule(Kind.DECIMAL, 2, 38),
    "VARCHAR": TypeRule(Kind.VARCHAR, 1, BYTES),
    "BINARY": TypeRule(Kind.VARCHAR, 1, BYTES),
    "NCHAR": TypeRule(Kind.NCHAR, 1, BYTES // 4),
    "VARBINARY": TypeRule(Kind.VARBINARY, 1, BYTES),
    "GEOMETRY": TypeRule(Kind.GEOMETRY, 1, BYTES),
    "JSON": TypeRule(Kind.JSON),
    "TIMESTAMP": TypeRule(Kind.TIMESTAMP),
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
UNSIGNED_OF: Final = dict(zip(SIGNED, UNSIGNED, strict=True))


class TDengineExpressions(ExpressionParser):
    """Adds durations, JSON members, `TRIM(… FROM …)` and the like, and the column types."""

    LEXIS = LEXIS
    BINARY = BINARY
    PREDICATES = PREDICATES
    NEGATED = NEGATED
    BARE_FUNCTIONS = BARE_FUNCTIONS
    CALLABLE = CALLABLE
    FORMS: ClassVar[Mapping[str, Callable[[Any], Expression]]] = {
        **ExpressionParser.FORMS,
        "POSITION": lambda self: self._parse_position(),
        "SUBSTR": lambda self: self._parse_substring(),
        "SUBSTRING": lambda self: self._parse_substring(),
        "TRIM": lambda self: self._parse_trim(),
    }

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
            return Cast(operand, DataType(Kind.TIMESTAMP), self._span(start))
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

    # Functions of their own form; all become plain calls

    def _parse_position(self) -> Expression:
        """`POSITION(part IN whole)`, or `POSITION(part, whole)`."""
        start = self._index
        self._advance()
        self._expect("(")
        part = self._nested(lambda: self._parse_operation(PREDICATE + 1))
        self._expect_one("IN", ",")
        whole = self._nested(self._parse_expression)
        self._expect(")")
        return self._call("position", (part, whole), start)

    def _parse_substring(self) -> Expression:
        """`SUBSTR(text FROM position [FOR length])`, or with commas."""
        start = self._index
        name = self._advance().word.lower()
        self._expect("(")
        arguments = [self._nested(self._parse_expression)]
        self._expect_one("FROM", ",")
        arguments.append(self._nested(self._parse_expression))
        if self._accept_one("FOR", ","):
            arguments.append(self._nested(self._parse_expression))
        self._expect(")")
        return self._call(name, tuple(arguments), start)

    def _parse_trim(self) -> Expression:
        """`TRIM([[LEADING|TRAILING|BOTH] [characters] FROM] text)`; with FROM it is `trim(text, characters, side)`."""
        start = self._index
        self._advance()
        self._expect("(")
        side = self._accept_one("LEADING", "TRAILING", "BOTH") if self._next().word not in (")", ",") else None
        if side is not None:
            characters = None if self._at("FROM") else self._nested(self._parse_expression)
            return self._parse_trim_rest(start, side, characters)
        arguments = self._nested(lambda: self._list(self._parse_expression))
        if len(arguments) == 1 and self._at("FROM"):
            return self._parse_trim_rest(start, "BOTH", arguments[0])
        self._expect(")")
        return self._call("trim", arguments, start)

    def _parse_trim_rest(self, start: int, side: str, characters: Expression | None) -> Expression:
        self._expect("FROM")
        text = self._nested(self._parse_expression)
        self._expect(")")
        span = self._span(start)
        return Call("trim", (text, characters or Literal(" ", span), Literal(side.lower(), span)), span=span)

    # Types

    def _parse_type(self) -> DataType:
        """A type; lengths may be left out."""
        start = self._index
        name = self._token.word
        if name not in TYPES:
            return self._fail(*TYPES, hint=self._type_hint())
        self._advance()
        rule = TYPES[name]
        if rule.kind in UNSIGNED_OF and self._accept("UNSIGNED"):
            return DataType(UNSIGNED_OF[rule.kind])
        if not rule.numbers or not self._at("("):
            return DataType(rule.kind)
        numbers = self._wrapped(lambda: self._list(self._parse_integer))
        self._check_numbers(rule, numbers, start)
        scale = (numbers[1] if len(numbers) > 1 else 0) if rule.numbers == 2 else None
        return DataType(rule.kind, numbers[0], scale)

    def _type_hint(self) -> str:
        """What to write for a type of another system."""
        foreign = likely(self._token.word, list(FOREIGN_TYPES)) if self._token.word else None
        own = FOREIGN_TYPES[foreign] if foreign else ""
        return f"write {own} instead of {self._token.word.lower()}" if own else ""

    def _check_numbers(self, rule: TypeRule, numbers: tuple[int, ...], start: int) -> None:
        span = self._span(start)
        if len(numbers) > rule.numbers:
            raise LimitError(f"{rule.kind} takes {rule.numbers} number(s), got {len(numbers)}", span=span, sql=self.text)
        if not 1 <= numbers[0] <= rule.greatest:
            raise LimitError(f"{rule.kind}({numbers[0]}) is not between 1 and {rule.greatest}", span=span, sql=self.text)
        if len(numbers) > 1 and numbers[1] > numbers[0]:
            raise LimitError(f"the scale of {rule.kind} is greater than its precision", span=span, sql=self.text)
