"""Functions whose parentheses contain keywords of the SQL standard, such as `TRIM(LEADING 'x' FROM text)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from headrace.model.expressions import Call, Expression, Literal
from headrace.sql.operators import PREDICATE
from headrace.sql.types import TypeParser


class FormParser(TypeParser):
    """Parses `POSITION`, `SUBSTRING` and `TRIM` as plain calls."""

    FORMS: ClassVar[Mapping[str, Callable[[Any], Expression]]] = {
        **TypeParser.FORMS,
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
        start = self._index
        name = self._advance().word.lower()
        self._expect("(")
        arguments = [self._parse_nested(self._parse_expression)]
        self._expect_one("FROM", ",")
        arguments.append(self._parse_nested(self._parse_expression))
        if self._accept_one("FOR", ","):
            arguments.append(self._parse_nested(self._parse_expression))
        self._expect(")")
        return self._make_call(name, tuple(arguments), start)

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
