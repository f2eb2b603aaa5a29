"""Parsing of the TDengine INSERT, without tokens because a statement may have very many rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headrace.errors import NotSupportedError, SqlSyntaxError
from headrace.model.expressions import Scalar
from headrace.model.spans import Span
from headrace.model.statements import (
    Explain,
    FileBlock,
    Insert,
    InsertBlock,
    InsertFiles,
    InsertSelect,
    Now,
    RowValue,
    SubtableSpec,
    TagValue,
)
from headrace.model.tables import Name
from headrace.model.time import NANOSECONDS
from headrace.sql.lexical_rules import BLANKS
from headrace.sql.numbers import exact
from headrace.sql.rows import MAX_NOW_OFFSET, RowScanner
from headrace.sql.tdengine.parser import Parser
from headrace.sql.tdengine.words import LEXICAL_RULES

INSERT: Final = re.compile(rf"{BLANKS}(EXPLAIN\b{BLANKS})?INSERT\b", re.IGNORECASE | re.DOTALL)
NOW_TEXT: Final = r"(?:now|today)\b(?:\s*\(\s*\))?(?:\s*[+-]\s*[0-9]{1,20}[busamhdw]\b)*"
NOW: Final = re.compile(NOW_TEXT)
NUMBER: Final = r"[+-]?(?:0x[0-9a-f]{1,32}|0b[01]{1,128}|(?:[0-9]{1,40}\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)"
OTHER_VALUE: Final = rf"{LEXICAL_RULES.string}|{NOW_TEXT}|[a-z]\w*|{NUMBER}"
VALUE: Final = rf"([+-]?[0-9]{{1,40}})|([+-]?[0-9]{{1,40}}\.[0-9]*)|'([^'\\]*)'|\"([^\"\\]*)\"|({OTHER_VALUE})"
STRING: Final = re.compile(LEXICAL_RULES.string, re.DOTALL)
OFFSET: Final = re.compile(r"([+-])\s*([0-9]+)([busamhdw])", re.IGNORECASE)
CONSTANTS: Final[dict[str, bool | None]] = {"null": None, "true": True, "false": False}


def is_insert(text: str) -> bool:
    return INSERT.match(text) is not None


def parse_insert(text: str) -> Insert | InsertFiles | InsertSelect | Explain:
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
    return int(word, 0) if word.lstrip("+-")[:2] in ("0x", "0b") else exact(word)


def _parse_now(word: str) -> Now:
    parts = OFFSET.findall(word)
    offset = sum((-1 if sign == "-" else 1) * int(count) * NANOSECONDS[unit] for sign, count, unit in parts)
    if abs(offset) >= MAX_NOW_OFFSET:
        raise ValueError(word)
    return Now(offset, word.startswith("today"))


@dataclass(frozen=True, slots=True)
class Header:
    """What precedes the rows of a table: the table, its columns, and USING."""

    table: Name
    columns: tuple[str, ...] | None
    using: SubtableSpec | None
    column_span: Span | None


class InsertScanner(RowScanner):
    """Parses `INSERT INTO table [USING supertable [(tags)] TAGS (values)] [(columns)] rows [table …]`.

    `rows` are `VALUES (…) [,] (…)` or `FILE 'path'`, and for a single table also a query.
    """

    VALUE = VALUE
    CONVERT = (str, int, exact, str, str, _convert_other)
    EXPECTED_VALUE = "a value (number, string, TRUE, FALSE, NULL or now)"

    def parse(self) -> Insert | InsertFiles | InsertSelect | Explain:
        """Parse the text."""
        return Explain(self.statement()) if self._accept("EXPLAIN") else self.statement()

    def statement(self) -> Insert | InsertFiles | InsertSelect:
        """Parse an INSERT up to the end of the text."""
        self._expect("INSERT", "INTO")
        header = self._parse_header()
        if self._at_query():
            return self._parse_select(header)
        if self._current_word() == "FILE":
            return self._parse_files(header)
        blocks = [self._parse_block(header)]
        while self._has_more():
            blocks.append(self._parse_block(self._parse_header()))
        self._expect_end()
        return Insert(tuple(blocks))

    def _has_more(self) -> bool:
        return not self._at_end() and self._current_word() != ";"

    def _parse_header(self) -> Header:
        table = self._parse_name("a table")
        start = self._offset
        columns = self._parse_names("a column") if self._at_columns() else None
        using = self._parse_using(table) if self._accept("USING") else None
        if columns is None and self._at_columns():
            start = self._offset
            columns = self._parse_names("a column")
        return Header(table, columns, using, None if columns is None else Span(start, self._offset))

    def _at_columns(self) -> bool:
        if self._current_word() == "(" and not self._at_query():
            return True
        self._expected.append("(")
        return False

    def _at_query(self) -> bool:
        """Return True at SELECT, also in parentheses."""
        start, expected = self._offset, self._expected
        while self._current_word() == "(":
            self._move_to(self._offset + 1)
        is_query = self._current_word() == "SELECT"
        self._offset, self._expected = start, expected
        return is_query

    def _parse_block(self, header: Header) -> InsertBlock:
        self._refuse_mixture("VALUES", "FILE")
        self._expect("VALUES")
        if self._current_word() != "(":
            self._fail("(")
        rows, spans = self._parse_rows()
        return InsertBlock(header.table, rows, header.columns, header.using, spans)

    def _refuse_mixture(self, first: str, other: str) -> None:
        if self._current_word() == other or self._at_query():
            word = self._current_word().replace("(", "SELECT")
            self._fail_unsupported(f"{word} beside {first}", "write a statement for each of them")

    # FILE and SELECT

    def _parse_files(self, first: Header) -> InsertFiles:
        blocks = [self._parse_file(first)]
        while self._has_more():
            blocks.append(self._parse_file(self._parse_header()))
        self._expect_end()
        return InsertFiles(tuple(blocks))

    def _parse_file(self, header: Header) -> FileBlock:
        self._refuse_mixture("FILE", "VALUES")
        self._expect("FILE")
        start = self._offset
        match = STRING.match(self.text, start)
        if match is None:
            self.lexical_rules.check_closed(self.text)
            self._fail("the path of a file in quotes")
        self._move_to(match.end())
        return FileBlock(header.table, LEXICAL_RULES.unquote(match[0]), header.columns, header.using, Span(start, match.end()))

    def _parse_select(self, header: Header) -> InsertSelect:
        if header.using is not None:
            self._fail_unsupported("SELECT after USING", f"CREATE TABLE … USING {header.using.using.name} TAGS (…) first")
        query = Parser(self.text).query_from(self._offset)
        return InsertSelect(header.table, query, header.columns, header.column_span, Span(self._offset, len(self.text.rstrip())))

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
