"""Column types as a table, which the parser of a dialect reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple

from headrace.errors import LimitError
from headrace.model.types import SIGNED, UNSIGNED, DataType, TypeKind
from headrace.sql.expressions import ExpressionParser
from headrace.sql.syntax_errors import likely_intended

UNSIGNED_OF: Final = dict(zip(SIGNED, UNSIGNED, strict=True))


class TypeRule(NamedTuple):
    """What follows a type's name: its kind, how many numbers in brackets at most, and the greatest first number."""

    kind: TypeKind
    numbers: int = 0
    greatest: int = 0


class TypeParser(ExpressionParser):
    """Column types of a dialect."""

    TYPES: ClassVar[Mapping[str, TypeRule]] = {}
    """The names of types, in upper case."""

    FOREIGN_TYPES: ClassVar[Mapping[str, str]] = {}
    """What to write for names that other systems have."""

    def _parse_type(self) -> DataType:
        """A type; lengths may be left out."""
        start = self._index
        name = self._token.word
        if name not in self.TYPES:
            return self._fail(*self.TYPES, hint=self._type_hint())
        self._advance()
        rule = self.TYPES[name]
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
        foreign = likely_intended(self._token.word, list(self.FOREIGN_TYPES)) if self._token.word else None
        own = self.FOREIGN_TYPES[foreign] if foreign else ""
        return f"write {own} instead of {self._token.word.lower()}" if own else ""

    def _check_numbers(self, rule: TypeRule, numbers: tuple[int, ...], start: int) -> None:
        span = self._span(start)
        if len(numbers) > rule.numbers:
            raise LimitError(f"{rule.kind} takes {rule.numbers} number(s), got {len(numbers)}", span=span, sql=self.text)
        if not 1 <= numbers[0] <= rule.greatest:
            raise LimitError(f"{rule.kind}({numbers[0]}) is not between 1 and {rule.greatest}", span=span, sql=self.text)
        if len(numbers) > 1 and numbers[1] > numbers[0]:
            raise LimitError(f"the scale of {rule.kind} is greater than its precision", span=span, sql=self.text)
