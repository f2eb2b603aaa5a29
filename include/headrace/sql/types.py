"""Parsing of column types, by a table of the dialect, and of functions with keywords such as `TRIM(LEADING 'x' FROM text)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from headrace.errors import LimitError
from headrace.model.expressions import Call, Expression, Literal
from headrace.model.types import SIGNED, UNSIGNED, DataType, TypeKind
from headrace.sql.expressions import ExpressionParser
from headrace.sql.operators import PREDICATE
from headrace.sql.syntax_errors import likely_intended

UNSIGNED_KINDS: Final = dict(zip(SIGNED, UNSIGNED, strict=True))


class TypeRule(NamedTuple):
    """The kind of a type, how many numbers may follow in parentheses, and the maximum of the first one."""

    kind: TypeKind
    numbers: int = 0
    max_length: int = 0


class FormParser(ExpressionParser):
    """Parses column types, and `POSITION`, `SUBSTRING` and `TRIM` as plain calls."""

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
        numbers = self._parse_items(self._parse_integer)
        self._check_lengths(rule, numbers, start)
        scale = (numbers[1] if len(numbers) > 1 else 0) if rule.numbers == 2 else None
        return DataType(rule.kind, numbers[0], scale)

    def _type_hint(self) -> str:
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

    FORMS: ClassVar[Mapping[str, Callable[[Any], Expression]]] = {
        **ExpressionParser.FORMS,
        "POSITION": lambda self: self._parse_position(),
        "SUBSTR": lambda self: self._parse_substring(),
        "SUBSTRING": lambda self: self._parse_substring(),
        "TRIM": lambda self: self._parse_trim(),
    }

    def _parse_position(self) -> Expression:
        start = self._index
        self._advance()
        self._expect("(")
        part = self._parse_nested(lambda: self._parse_operation(PREDICATE + 1))
        self._expect_one("IN", ",")
        text = self._parse_nested(self._parse_expression)
        self._expect(")")
        return self._make_call("position", (part, text), start)

    def _parse_substring(self) -> Expression:
        """Parse `SUBSTR(text FROM position [FOR length])`, or the form with commas."""
        start, name, text = self._parse_form()
        arguments = [text]
        self._expect_one("FROM", ",")
        arguments.append(self._parse_nested(self._parse_expression))
        if self._accept_one("FOR", ","):
            arguments.append(self._parse_nested(self._parse_expression))
        self._expect(")")
        return self._make_call(name.lower(), tuple(arguments), start)

    def _parse_trim(self) -> Expression:
        """Parse `TRIM([[LEADING|TRAILING|BOTH] [characters] FROM] text)`, with FROM as `trim(text, characters, side)`."""
        start = self._index
        self._advance()
        self._expect("(")
        side = self._accept_one("LEADING", "TRAILING", "BOTH") if self._peek().word not in (")", ",") else None
        if side is not None:
            characters = None if self._is_at("FROM") else self._parse_nested(self._parse_expression)
            return self._parse_trim_rest(start, side, characters)
        arguments = self._parse_nested(lambda: self._parse_list(self._parse_expression))
        if len(arguments) == 1 and self._is_at("FROM"):
            return self._parse_trim_rest(start, "BOTH", arguments[0])
        self._expect(")")
        return self._make_call("trim", arguments, start)

    def _parse_trim_rest(self, start: int, side: str, characters: Expression | None) -> Expression:
        self._expect("FROM")
        text = self._parse_nested(self._parse_expression)
        self._expect(")")
        span = self._span(start)
        return Call("trim", (text, characters or Literal(" ", span), Literal(side.lower(), span)), span=span)
