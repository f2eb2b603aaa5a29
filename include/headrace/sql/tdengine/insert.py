"""Parsing of the TDengine INSERT, without tokens because a statement may have very many rows."""

from __future__ import annotations

import functools
import math
import re
from typing import Final

from headrace.errors import NotSupportedError, SqlSyntaxError
from headrace.model.expressions import Scalar
from headrace.model.spans import Span
from headrace.model.statements import Explain, Insert, InsertBlock, Now, RowValue, SubtableSpec, TagValue
from headrace.model.tables import Name
from headrace.model.time import NANOSECONDS
from headrace.sql.lexical_rules import BLANKS
from headrace.sql.rows import RowScanner
from headrace.sql.tdengine.words import LEXICAL_RULES

INSERT: Final = re.compile(rf"{BLANKS}(EXPLAIN\b{BLANKS})?INSERT\b", re.IGNORECASE | re.DOTALL)
NOW_TEXT: Final = r"(?:now|today)\b(?:\s*\(\s*\))?(?:\s*[+-]\s*[0-9]{1,20}[busamhdw]\b)*"
NOW: Final = re.compile(NOW_TEXT)
NUMBER: Final = r"[+-]?(?:0x[0-9a-f]{1,32}|0b[01]{1,128}|(?:[0-9]{1,40}\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)"
OTHER_VALUE: Final = rf"{LEXICAL_RULES.string}|{NOW_TEXT}|[a-z]\w*|{NUMBER}"
VALUE: Final = rf"([+-]?[0-9]{{1,40}})|([+-]?[0-9]{{1,40}}\.[0-9]*)|'([^'\\]*)'|\"([^\"\\]*)\"|({OTHER_VALUE})"
OFFSET: Final = re.compile(r"([+-])\s*([0-9]+)([busamhdw])", re.IGNORECASE)
MAX_NOW_OFFSET: Final = 10**20
"""Nanoseconds from now that exceed every timestamp."""

CONSTANTS: Final[dict[str, bool | None]] = {"null": None, "true": True, "false": False}


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
    """Parse an INSERT or EXPLAIN INSERT, or raise `SqlSyntaxError`."""
    return InsertScanner(text, LEXICAL_RULES).parse()


def _convert_other(text: str) -> RowValue:
    """Convert a value with escapes, a constant, now, or a hexadecimal or scientific number, or raise `ValueError`."""
    if text[0] in "'\"":
        return LEXICAL_RULES.unquote(text)
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


class InsertScanner(RowScanner):
    """Parses `INSERT INTO table [USING supertable [(tags)] TAGS (values)] [(columns)] VALUES (…) [,] (…) [table …]`."""

    CONVERT = (str, int, float, str, str, _convert_other)
    EXPECTED_VALUE = "a value (number, string, TRUE, FALSE, NULL or now)"

    @classmethod
    def _fast_value(cls) -> re.Pattern[str]:
        return fast_value_pattern()

    @classmethod
    def _lone_value(cls) -> re.Pattern[str]:
        return commented_value_pattern()

    def parse(self) -> Insert | Explain:
        """Parse the text."""
        return Explain(self.statement()) if self._accept("EXPLAIN") else self.statement()

    def statement(self) -> Insert:
        """Parse an INSERT up to the end of the text."""
        self._expect("INSERT", "INTO")
        blocks = [self._parse_block()]
        while not self._at_end() and self._current_word() != ";":
            blocks.append(self._parse_block())
        self._expect_end()
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
            raise SqlSyntaxError(f"{len(names)} tags, but {len(values)} values", span=span, sql=self.text)
        tags = tuple(TagValue(self._check_constant(value, span), span) for value in values)
        return SubtableSpec(table, using, tags, names, if_not_exists=True)

    def _check_constant(self, value: RowValue, span: Span) -> Scalar:
        if isinstance(value, Now):
            raise NotSupportedError(
                "now as the value of a tag is not supported", hint="write the timestamp", span=span, sql=self.text
            )
        return value
