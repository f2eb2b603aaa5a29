"""Parsing of the TDengine INSERT, without tokens because a statement may have very many rows."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Final, NoReturn

from headrace.errors import NotSupportedError, SyntaxError_
from headrace.model.expressions import Scalar
from headrace.model.spans import Span
from headrace.model.statements import Explain, Insert, InsertBlock, Now, RowValue, SubtableSpec, TagValue
from headrace.model.tables import Name
from headrace.model.time import NANOSECONDS
from headrace.sql.lexis import BLANKS
from headrace.sql.scanner import Scanner
from headrace.sql.syntax_errors import unexpected_token
from headrace.sql.tdengine.words import LEXIS

INSERT: Final = re.compile(rf"{BLANKS}(EXPLAIN\b{BLANKS})?INSERT\b", re.IGNORECASE | re.DOTALL)
NOW_TEXT: Final = r"(?:now|today)\b(?:\s*\(\s*\))?(?:\s*[+-]\s*[0-9]{1,20}[busamhdw]\b)*"
NOW: Final = re.compile(NOW_TEXT)
NUMBER: Final = r"[+-]?(?:0x[0-9a-f]{1,32}|0b[01]{1,128}|(?:[0-9]{1,40}\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)"
OTHER_VALUE: Final = rf"{LEXIS.string}|{NOW_TEXT}|[a-z]\w*|{NUMBER}"
VALUE: Final = rf"([+-]?[0-9]{{1,40}})|([+-]?[0-9]{{1,40}}\.[0-9]*)|'([^'\\]*)'|\"([^\"\\]*)\"|({OTHER_VALUE})"
NEXT_ROW: Final = re.compile(r"\s*(?:,\s*)?\(")
OFFSET: Final = re.compile(r"([+-])\s*([0-9]+)([busamhdw])", re.IGNORECASE)
MAX_NOW_OFFSET: Final = 10**20
"""Nanoseconds from now that exceed every timestamp."""

CONSTANTS: Final[dict[str, bool | None]] = {"null": None, "true": True, "false": False}
EXPECTED_VALUE: Final = "a value (number, string, TRUE, FALSE, NULL or now)"


@functools.cache
def fast_value_pattern() -> re.Pattern[str]:
    """Return the pattern of a value and the symbol after it. Compiled on first use, which takes milliseconds."""
    return re.compile(rf"\s*(?:{VALUE})\s*[,)]", re.IGNORECASE | re.DOTALL)


@functools.cache
def commented_value_pattern() -> re.Pattern[str]:
    """Return the pattern of a value that a comment may follow."""
    return re.compile(rf"(?:{VALUE})(?![\w.'\"])", re.IGNORECASE | re.DOTALL)


def is_insert(text: str) -> bool:
    """Return whether a text begins with INSERT or EXPLAIN INSERT."""
    return INSERT.match(text) is not None


def parse_insert(text: str) -> Insert | Explain:
    """Parse an INSERT or EXPLAIN INSERT, or raise `SyntaxError_`."""
    return InsertScanner(text, LEXIS).parse()


def _convert_other(text: str) -> RowValue:
    """Convert a value with escapes, a constant, now, or a hexadecimal or scientific number, or raise `ValueError`."""
    if text[0] in "'\"":
        return LEXIS.unquote(text)
    word = text.lower()
    if word in CONSTANTS:
        return CONSTANTS[word]
    if NOW.fullmatch(word):
        return _parse_now(word)
    return int(word, 0) if word.lstrip("+-")[:2] in ("0x", "0b") else _check_finite(float(word))


def _parse_now(word: str) -> Now:
    parts = OFFSET.findall(word)
    offset = sum((-1 if sign == "-" else 1) * int(count) * NANOSECONDS[unit] for sign, count, unit in parts)
    if abs(offset) >= MAX_NOW_OFFSET:
        raise ValueError(word)
    return Now(offset, word.startswith("today"))


def _check_finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(value)
    return value


CONVERTERS: Final[tuple[Callable[[str], RowValue], ...]] = (str, int, float, str, str, _convert_other)
"""Converters by group number in VALUE."""


class InsertScanner(Scanner):
    """Parses `INSERT INTO table [USING supertable [(tags)] TAGS (values)] [(columns)] VALUES (…) [,] (…) [table …]`."""

    def parse(self) -> Insert | Explain:
        """Parse the text."""
        return Explain(self.statement()) if self._accept("EXPLAIN") else self.statement()

    def statement(self) -> Insert:
        """Parse an INSERT up to the end of the text."""
        self._expect("INSERT", "INTO")
        blocks = [self._parse_block()]
        while not self._at_end() and self._current_word() != ";":
            blocks.append(self._parse_block())
        while self._accept(";"):
            pass
        if not self._at_end():
            self._fail("the end of the statement")
        return Insert(tuple(blocks))

    def _parse_block(self) -> InsertBlock:
        table = self._parse_name("a table")
        columns = self._parse_names("a column") if self._at_columns() else None
        using = self._parse_using(table) if self._accept("USING") else None
        if columns is None and self._at_columns():
            columns = self._parse_names("a column")
        self._expect_values()
        rows, spans = self._parse_rows()
        return InsertBlock(table, rows, columns, using, spans)

    def _at_columns(self) -> bool:
        if self._current_word() == "(":
            return True
        self._expected.append("(")
        return False

    def _expect_values(self) -> None:
        if self._current_word() == "FILE":
            self._fail_unsupported("INSERT … FILE", "load files with: headrace load FILE… INTO database.table")
        if self._current_word() == "SELECT":
            self._fail_unsupported("INSERT … SELECT", "create a stream with FILL_HISTORY 1")
        self._expect("VALUES")
        if self._current_word() != "(":
            self._fail("(")

    def _parse_using(self, table: Name) -> SubtableSpec:
        using = self._parse_name("a supertable")
        names = self._parse_names("a tag") if self._at_columns() else None
        self._expect("TAGS")
        if self._current_word() != "(":
            self._fail("(")
        start = self._offset
        values, end = self._parse_row(start)
        self._move_to(end)
        span = Span(start, end)
        if names is not None and len(names) != len(values):
            raise SyntaxError_(f"{len(names)} tags, but {len(values)} values", span=span, sql=self.text)
        tags = tuple(TagValue(self._check_constant(value, span), span) for value in values)
        return SubtableSpec(table, using, tags, names, if_not_exists=True)

    def _check_constant(self, value: RowValue, span: Span) -> Scalar:
        if isinstance(value, Now):
            raise NotSupportedError(
                "now as the value of a tag is not supported", hint="write the timestamp", span=span, sql=self.text
            )
        return value

    # Rows

    def _parse_rows(self) -> tuple[tuple[tuple[RowValue, ...], ...], tuple[Span, ...]]:
        """Parse all rows from here on, with or without commas between them."""
        rows: list[tuple[RowValue, ...]] = []
        spans: list[Span] = []
        start: int | None = self._offset
        while start is not None:
            row, end = self._parse_row(start)
            rows.append(row)
            spans.append(Span(start, end))
            match = NEXT_ROW.match(self.text, end)
            start = match.end() - 1 if match else self._next_row(end)
        return tuple(rows), tuple(spans)

    def _next_row(self, offset: int) -> int | None:
        """Return where the next row begins if comments precede it, or None if there are no more rows."""
        self._move_to(offset)
        if self._accept(",") and self._current_word() != "(":
            self._fail("(")
        return self._offset if self._current_word() == "(" else None

    def _parse_row(self, start: int) -> tuple[tuple[RowValue, ...], int]:
        """Parse the row whose parenthesis opens at `start`. Returns its values and its end."""
        values: list[RowValue] = []
        text, pattern, offset = self.text, fast_value_pattern(), start + 1
        while True:
            match = pattern.match(text, offset)
            if match is None:
                value, offset = self._parse_commented_value(offset)
                values.append(value)
            else:
                values.append(self._convert(match))
                offset = match.end()
            if text[offset - 1] == ")":
                return tuple(values), offset

    def _parse_commented_value(self, offset: int) -> tuple[RowValue, int]:
        """Parse a value with comments around it. Returns it and the offset after the comma or parenthesis."""
        self._move_to(offset)
        match = commented_value_pattern().match(self.text, self._offset)
        if match is None:
            self._fail_value(self._offset)
        value = self._convert(match)
        self._move_to(match.end())
        if self._current_word() not in (",", ")"):
            self._fail(",", ")")
        return value, self._offset + 1

    def _convert(self, match: re.Match[str]) -> RowValue:
        group = match.lastindex or 0
        try:
            return CONVERTERS[group](match[group])
        except ValueError:
            return self._fail_value(match.start(group))

    def _fail_value(self, offset: int) -> NoReturn:
        self.lexis.check_closed(self.text)
        span = self._span_at(offset)
        word = self.text[span.start : span.end]
        hint = f"write strings in quotes: '{word}'" if word.isidentifier() else ""
        raise unexpected_token(self.text, span, [EXPECTED_VALUE], hint=hint)
