"""INSERT of the TDengine language: many rows for many tables, read without tokens because they are many."""

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
ODD: Final = rf"{LEXIS.string}|{NOW_TEXT}|[a-z]\w*|{NUMBER}"
VALUE: Final = rf"([+-]?[0-9]{{1,40}})|([+-]?[0-9]{{1,40}}\.[0-9]*)|'([^'\\]*)'|\"([^\"\\]*)\"|({ODD})"
NEXT_ROW: Final = re.compile(r"\s*(?:,\s*)?\(")
OFFSET: Final = re.compile(r"([+-])\s*([0-9]+)([busamhdw])", re.IGNORECASE)
FAR: Final = 10**20
"""Nanoseconds from now that are beyond all timestamps."""

CONSTANTS: Final[dict[str, bool | None]] = {"null": None, "true": True, "false": False}
WANTED: Final = "a value (number, string, TRUE, FALSE, NULL or now)"


@functools.cache
def fast_value() -> re.Pattern[str]:
    """A value and the sign after it. Takes as long to compile as many a statement to run: only where there are values."""
    return re.compile(rf"\s*(?:{VALUE})\s*[,)]", re.IGNORECASE | re.DOTALL)


@functools.cache
def careful_value() -> re.Pattern[str]:
    """A value, where a comment may follow."""
    return re.compile(rf"(?:{VALUE})(?![\w.'\"])", re.IGNORECASE | re.DOTALL)


def is_insert(text: str) -> bool:
    """Whether a text begins an INSERT, or explains one."""
    return INSERT.match(text) is not None


def insert(text: str) -> Insert | Explain:
    """The INSERT that a text holds, or explains; a `SyntaxError_` shows where it does not."""
    return InsertScanner(text, LEXIS).whole()


def _odd_value(written: str) -> RowValue:
    """What is not a plain number or string: escapes, constants, now, hexadecimal and scientific numbers. Else a ValueError."""
    if written[0] in "'\"":
        return LEXIS.unquote(written)
    word = written.lower()
    if word in CONSTANTS:
        return CONSTANTS[word]
    if NOW.fullmatch(word):
        return _now(word)
    return int(word, 0) if word.lstrip("+-")[:2] in ("0x", "0b") else _finite(float(word))


def _now(word: str) -> Now:
    parts = OFFSET.findall(word)
    offset = sum((-1 if sign == "-" else 1) * int(count) * NANOSECONDS[unit] for sign, count, unit in parts)
    if abs(offset) >= FAR:
        raise ValueError(word)
    return Now(offset, word.startswith("today"))


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(value)
    return value


CONVERT: Final[tuple[Callable[[str], RowValue], ...]] = (str, int, float, str, str, _odd_value)
"""By the number of the group in VALUE."""


class InsertScanner(Scanner):
    """`INSERT INTO table [USING supertable [(tags)] TAGS (values)] [(columns)] VALUES (…) [,] (…) [table …]`."""

    def whole(self) -> Insert | Explain:
        """The one statement of the text."""
        return Explain(self.statement()) if self._accept("EXPLAIN") else self.statement()

    def statement(self) -> Insert:
        """An INSERT, from its first word to the end of the text."""
        self._expect("INSERT", "INTO")
        blocks = [self._block()]
        while not self._at_end() and self._word() != ";":
            blocks.append(self._block())
        while self._accept(";"):
            pass
        if not self._at_end():
            self._fail("the end of the statement")
        return Insert(tuple(blocks))

    def _block(self) -> InsertBlock:
        table = self._name("a table")
        columns = self._names("a column") if self._at_columns() else None
        using = self._using(table) if self._accept("USING") else None
        if columns is None and self._at_columns():
            columns = self._names("a column")
        self._values_ahead()
        rows, spans = self._rows()
        return InsertBlock(table, rows, columns, using, spans)

    def _at_columns(self) -> bool:
        if self._word() == "(":
            return True
        self._tried.append("(")
        return False

    def _values_ahead(self) -> None:
        if self._word() == "FILE":
            self._unsupported("INSERT … FILE", "load files with: headrace load FILE… INTO database.table")
        if self._word() == "SELECT":
            self._unsupported("INSERT … SELECT", "create a stream with FILL_HISTORY 1")
        self._expect("VALUES")
        if self._word() != "(":
            self._fail("(")

    def _using(self, table: Name) -> SubtableSpec:
        using = self._name("a supertable")
        names = self._names("a tag") if self._at_columns() else None
        self._expect("TAGS")
        if self._word() != "(":
            self._fail("(")
        start = self._place
        values, place = self._row(start)
        self._move(place)
        span = Span(start, place)
        if names is not None and len(names) != len(values):
            raise SyntaxError_(f"{len(names)} tags are named, {len(values)} values given", span=span, sql=self.text)
        tags = tuple(TagValue(self._constant(value, span), span) for value in values)
        return SubtableSpec(table, using, tags, names, if_not_exists=True)

    def _constant(self, value: RowValue, span: Span) -> Scalar:
        if isinstance(value, Now):
            raise NotSupportedError(
                "now as the value of a tag is not supported", hint="write the timestamp", span=span, sql=self.text
            )
        return value

    # Rows

    def _rows(self) -> tuple[tuple[tuple[RowValue, ...], ...], tuple[Span, ...]]:
        """All rows from here on, commas between them or not."""
        rows: list[tuple[RowValue, ...]] = []
        spans: list[Span] = []
        start: int | None = self._place
        while start is not None:
            row, end = self._row(start)
            rows.append(row)
            spans.append(Span(start, end))
            found = NEXT_ROW.match(self.text, end)
            start = found.end() - 1 if found else self._next_row(end)
        return tuple(rows), tuple(spans)

    def _next_row(self, place: int) -> int | None:
        """Where the next row begins if comments stand before it; None where the rows end."""
        self._move(place)
        if self._accept(",") and self._word() != "(":
            self._fail("(")
        return self._place if self._word() == "(" else None

    def _row(self, start: int) -> tuple[tuple[RowValue, ...], int]:
        """The values of the row whose bracket opens at `start`, and where it ends."""
        values: list[RowValue] = []
        text, match, place = self.text, fast_value().match, start + 1
        while True:
            found = match(text, place)
            if found is None:
                value, place = self._careful_value(place)
                values.append(value)
            else:
                values.append(self._value(found))
                place = found.end()
            if text[place - 1] == ")":
                return tuple(values), place

    def _careful_value(self, place: int) -> tuple[RowValue, int]:
        """A value with comments around it, and the place after the comma or bracket; or the error that names what is wrong."""
        self._move(place)
        found = careful_value().match(self.text, self._place)
        if found is None:
            self._refuse_value(self._place)
        value = self._value(found)
        self._move(found.end())
        if self._word() not in (",", ")"):
            self._fail(",", ")")
        return value, self._place + 1

    def _value(self, found: re.Match[str]) -> RowValue:
        group = found.lastindex or 0
        try:
            return CONVERT[group](found[group])
        except ValueError:
            return self._refuse_value(found.start(group))

    def _refuse_value(self, place: int) -> NoReturn:
        self.lexis.require_closed(self.text)
        here = self._here(place)
        word = self.text[here.start : here.end]
        hint = f"strings stand in quotes: '{word}'" if word.isidentifier() else ""
        raise unexpected_token(self.text, here, [WANTED], hint=hint)
