"""The scanner of the rows of an INSERT, which reads text with compiled patterns instead of tokens, for speed."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import ClassVar, Final, NoReturn

from headrace.errors import NotSupportedError
from headrace.model.spans import Span
from headrace.model.tables import Name
from headrace.model.values import RowValue
from headrace.sql.lexical_rules import QUOTED_NAME, WORD, LexicalRules
from headrace.sql.syntax_errors import name_hint, unexpected_token

NAME = re.compile(rf"{QUOTED_NAME}|{WORD}")
KEYWORD = re.compile(WORD)
NEXT_ROW: Final = re.compile(r"\s*(?:,\s*)?\(")

MAX_NOW_OFFSET: Final = 10**20
"""Nanoseconds from now that exceed every timestamp."""


@functools.cache
def fast_value(value: str) -> re.Pattern[str]:
    """Return the pattern of a value and the comma or parenthesis after it. Compiled on first use, which takes milliseconds."""
    return re.compile(rf"\s*(?:{value})\s*[,)]", re.IGNORECASE | re.DOTALL)


@functools.cache
def lone_value(value: str) -> re.Pattern[str]:
    """Return the pattern of a value that a comment may follow."""
    return re.compile(rf"(?:{value})(?![\w.'\"])", re.IGNORECASE | re.DOTALL)


class RowScanner:
    """Parses rows in parentheses, with or without commas between them.

    It is always at the beginning of a word or symbol, and collects what did not match for error messages. `_end` is where the last
    part of a name ended.

    A dialect supplies the pattern of a value. Its groups are an integer, a decimal number, a string without escapes in `'`, one in
    `"`, and any other value; `CONVERT` converts the text of each group.
    """

    VALUE: ClassVar[str]

    CONVERT: ClassVar[tuple[Callable[[str], RowValue], ...]]
    """Converters by group number; they raise `ValueError` for an invalid value."""

    EXPECTED_VALUE: ClassVar[str]
    """Description of the values allowed, for error messages."""

    def __init__(self, text: str, lexical_rules: LexicalRules) -> None:
        self.text = text
        self.lexical_rules = lexical_rules
        self._offset = 0
        self._end = 0
        self._expected: list[str] = []
        self._move_to(0)

    def _move_to(self, offset: int) -> None:
        """Move to the first word or symbol at or after an offset."""
        match = self.lexical_rules.blanks.match(self.text, offset)
        self._offset = match.end() if match else offset
        self._expected = []

    def _current_word(self) -> str:
        """Return the word here in upper case, or the symbol, or an empty string at the end."""
        match = KEYWORD.match(self.text, self._offset)
        return match[0].upper() if match else self.text[self._offset : self._offset + 1]

    def _accept(self, word: str) -> bool:
        if self._current_word() != word:
            self._expected.append(word)
            return False
        self._move_to(self._offset + len(word))
        return True

    def _expect(self, *words: str) -> None:
        for word in words:
            if not self._accept(word):
                self._fail()

    def _at_end(self) -> bool:
        return self._offset >= len(self.text)

    def _parse_identifier(self, what: str) -> str:
        match = NAME.match(self.text, self._offset)
        if match is None or match[0].upper() in self.lexical_rules.reserved or match[0] == "``":
            span = self._span_at(self._offset)
            return self._fail(what, hint=name_hint(self.lexical_rules, self.text[span.start : span.end], self._expected))
        self._end = match.end()
        self._move_to(self._end)
        return self.lexical_rules.name(match[0])

    def _parse_name(self, what: str) -> Name:
        start = self._offset
        first = self._parse_identifier(what)
        if not self._accept("."):
            return Name(None, first, Span(start, self._end))
        second = self._parse_identifier(what)
        return Name(first, second, Span(start, self._end))

    def _parse_names(self, what: str) -> tuple[str, ...]:
        self._expect("(")
        names = [self._parse_identifier(what)]
        while self._accept(","):
            names.append(self._parse_identifier(what))
        self._expect(")")
        return tuple(names)

    def _span_at(self, offset: int) -> Span:
        match = self.lexical_rules.sign.match(self.text, offset)
        return Span(offset, match.end() if match else offset)

    def _fail(self, *expected: str, hint: str = "") -> NoReturn:
        raise unexpected_token(self.text, self._span_at(self._offset), [*self._expected, *expected], hint=hint)

    def _fail_unsupported(self, what: str, hint: str) -> NoReturn:
        raise NotSupportedError(f"{what} is not supported", hint=hint, span=self._span_at(self._offset), sql=self.text)

    def _parse_rows(self) -> tuple[tuple[tuple[RowValue, ...], ...], tuple[Span, ...]]:
        rows: list[tuple[RowValue, ...]] = []
        spans: list[Span] = []
        start: int | None = self._offset
        while start is not None:
            row, end = self._parse_row(start)
            rows.append(row)
            spans.append(Span(start, end))
            next_row = NEXT_ROW.match(self.text, end)
            start = next_row.end() - 1 if next_row else self._next_row(end)
        return tuple(rows), tuple(spans)

    def _next_row(self, offset: int) -> int | None:
        """Return the offset of the next row, skipping comments; None after the last row."""
        self._move_to(offset)
        if self._accept(",") and self._current_word() != "(":
            self._fail("(")
        return self._offset if self._current_word() == "(" else None

    def _parse_row(self, start: int) -> tuple[tuple[RowValue, ...], int]:
        """Parse the row whose parenthesis opens at `start`; return its values and its end."""
        values: list[RowValue] = []
        text, match_value, offset = self.text, fast_value(self.VALUE).match, start + 1
        while True:
            match = match_value(text, offset)
            if match is None:
                value, offset = self._parse_commented_value(offset)
                values.append(value)
            else:
                values.append(self._convert(match))
                offset = match.end()
            if text[offset - 1] == ")":
                return tuple(values), offset

    def _parse_commented_value(self, offset: int) -> tuple[RowValue, int]:
        """Parse a value with comments around it; return it and the offset after the comma or parenthesis."""
        self._move_to(offset)
        match = lone_value(self.VALUE).match(self.text, self._offset)
        if match is None:
            self._refuse_value(self._offset)
        value = self._convert(match)
        self._move_to(match.end())
        if self._current_word() not in (",", ")"):
            self._fail(",", ")")
        return value, self._offset + 1

    def _convert(self, match: re.Match[str]) -> RowValue:
        group = match.lastindex or 0
        try:
            return self.CONVERT[group](match[group])
        except ValueError:
            return self._refuse_value(match.start(group))

    def _refuse_value(self, offset: int) -> NoReturn:
        self.lexical_rules.check_closed(self.text)
        span = self._span_at(offset)
        word = self.text[span.start : span.end]
        hint = f"write strings in quotes: '{word}'" if word.isidentifier() else ""
        raise unexpected_token(self.text, span, [self.EXPECTED_VALUE], hint=hint)

    def _expect_end(self) -> None:
        """Raise `SqlSyntaxError` unless only `;` follows."""
        while self._accept(";"):
            pass
        if not self._at_end():
            self._fail("the end of the statement")
