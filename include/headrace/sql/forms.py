"""Functions whose brackets hold words of the SQL standard, such as `TRIM(LEADING 'x' FROM text)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from headrace.model.expressions import Call, Expression, Literal
from headrace.sql.operators import PREDICATE
from headrace.sql.types import TypeParser


class FormParser(TypeParser):
    """`POSITION`, `SUBSTRING` and `TRIM`; all become plain calls."""

    FORMS: ClassVar[Mapping[str, Callable[[Any], Expression]]] = {
        **TypeParser.FORMS,
        "POSITION": lambda self: self._parse_position(),
        "SUBSTR": lambda self: self._parse_substring(),
        "SUBSTRING": lambda self: self._parse_substring(),
        "TRIM": lambda self: self._parse_trim(),
    }

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
