"""The scanner of the rows of an INSERT, which skips tokens for speed."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, NoReturn

from headrace.model.spans import Span
from headrace.model.values import RowValue
from headrace.sql.scanner import Scanner
from headrace.sql.syntax_errors import unexpected_token

NEXT_ROW: Final = re.compile(r"\s*(?:,\s*)?\(")


class RowScanner(Scanner, ABC):
    """Parses rows in parentheses, with or without commas between them.

    A dialect supplies two patterns of a value. Their groups are an integer, a decimal number, a string without escapes in `'`, one
    in `"`, and any other value; `CONVERT` converts the text of each group.
    """

    CONVERT: ClassVar[tuple[Callable[[str], RowValue], ...]]
    """Converters by group number; they raise `ValueError` for an invalid value."""

    EXPECTED_VALUE: ClassVar[str]
    """Description of the values allowed, for error messages."""

    @classmethod
    @abstractmethod
    def _fast_value(cls) -> re.Pattern[str]:
        """Return the pattern of a value and the comma or parenthesis after it, without comments."""

    @classmethod
    @abstractmethod
    def _lone_value(cls) -> re.Pattern[str]:
        """Return the pattern of a value that a comment may follow."""

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
        text, match_value, offset = self.text, self._fast_value().match, start + 1
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
        match = self._lone_value().match(self.text, self._offset)
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
