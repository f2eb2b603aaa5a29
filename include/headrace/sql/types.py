"""Parsing of column types, by a table of the dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple

from headrace.errors import LimitError
from headrace.model.types import SIGNED, UNSIGNED, DataType, TypeKind
from headrace.sql.expressions import ExpressionParser
from headrace.sql.syntax_errors import likely_intended

UNSIGNED_KINDS: Final = dict(zip(SIGNED, UNSIGNED, strict=True))


class TypeRule(NamedTuple):
    """The kind of a type, how many numbers may follow in parentheses, and the maximum of the first one."""

    kind: TypeKind
    numbers: int = 0
    max_length: int = 0


class TypeParser(ExpressionParser):
    """Parses column types."""

    TYPES: ClassVar[Mapping[str, TypeRule]] = {}
    """Types by their names in upper case."""

    FOREIGN_TYPES: ClassVar[Mapping[str, str]] = {}
    """What to write for types of other systems, by their names."""

    def _parse_type(self) -> DataType:
        """Parse a type. Lengths are optional."""
        start = self._index
        name = self._token.word
        if name not in self.TYPES:
            return self._fail(*self.TYPES, hint=self._type_hint())
        self._advance()
        rule = self.TYPES[name]
        if rule.kind in UNSIGNED_KINDS and self._accept("UNSIGNED"):
            return DataType(UNSIGNED_KINDS[rule.kind])
        if not rule.numbers or not self._is_at("("):
            return DataType(rule.kind)
        numbers = self._parse_parenthesized(lambda: self._parse_list(self._parse_integer))
        self._check_lengths(rule, numbers, start)
        scale = (numbers[1] if len(numbers) > 1 else 0) if rule.numbers == 2 else None
        return DataType(rule.kind, numbers[0], scale)

    def _type_hint(self) -> str:
        """Return what to write for a type of another system."""
        foreign = likely_intended(self._token.word, list(self.FOREIGN_TYPES)) if self._token.word else None
        own = self.FOREIGN_TYPES[foreign] if foreign else ""
        return f"write {own} instead of {self._token.word.lower()}" if own else ""

    def _check_lengths(self, rule: TypeRule, numbers: tuple[int, ...], start: int) -> None:
        span = self._span(start)
        if len(numbers) > rule.numbers:
            raise LimitError(f"{rule.kind} takes {rule.numbers} number(s), got {len(numbers)}", span=span, sql=self.text)
        if not 1 <= numbers[0] <= rule.max_length:
            raise LimitError(f"{rule.kind}({numbers[0]}) is not between 1 and {rule.max_length}", span=span, sql=self.text)
        if len(numbers) > 1 and numbers[1] > numbers[0]:
            raise LimitError(f"the scale of {rule.kind} is greater than its precision", span=span, sql=self.text)
