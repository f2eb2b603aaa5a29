"""The parser of INSERT of the IoTDB language: many rows of one device."""

from __future__ import annotations

import math
import re
from typing import Final, cast

from headrace.model.expressions import Scalar
from headrace.model.spans import Span
from headrace.model.statements import Explain
from headrace.model.time import NANOSECONDS
from headrace.model.tree_statements import TreeInsert
from headrace.model.values import Now, RowValue
from headrace.sql.iotdb.parser import InsertHeader, Parser
from headrace.sql.iotdb.status import semantic_error
from headrace.sql.iotdb.words import INSTANT, LEXICAL_RULES, UNITS, TreeLexis, canonical_instant
from headrace.sql.lexical_rules import QUOTED_NAME
from headrace.sql.numbers import finite
from headrace.sql.rows import MAX_NOW_OFFSET, RowScanner

BLANKS: Final = rf"(?:\s+|{TreeLexis.COMMENT})*+"
INSERT: Final = re.compile(rf"{BLANKS}(EXPLAIN\b{BLANKS})?INSERT\b", re.IGNORECASE | re.DOTALL)
VALUES: Final = re.compile(
    rf"(?>{LEXICAL_RULES.string}|{QUOTED_NAME}|{TreeLexis.COMMENT}|[^'\"`])*?\){BLANKS}(?:ALIGNED\b{BLANKS})?VALUES\b(?={BLANKS}\()",
    re.IGNORECASE | re.DOTALL,
)
"""Matches everything up to the keyword before the rows."""

DURATION: Final = r"(?:[0-9]{1,20}(?:ms|us|ns|[wdhms]))+"
NOW_TEXT: Final = rf"now\s*\(\s*\)(?:\s*[+-]\s*{DURATION}\b)*"
NUMBER: Final = r"[+-]?(?:[0-9]{1,40}\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?"
OTHER_VALUE: Final = rf"{LEXICAL_RULES.string}|x'[^']*'|{INSTANT}|{NOW_TEXT}|[a-z]\w*|{NUMBER}"
VALUE: Final = rf"([+-]?[0-9]{{1,40}})|([+-]?[0-9]{{1,40}}\.[0-9]*)|'([^']*)'|\"([^\"]*)\"|({OTHER_VALUE})"
OFFSET: Final = re.compile(rf"([+-])\s*({DURATION})", re.IGNORECASE)
PART: Final = re.compile(r"([0-9]{1,20})(ms|us|ns|[wdhms])", re.IGNORECASE)
CONSTANTS: Final[dict[str, Scalar]] = {"null": None, "true": True, "false": False, "nan": math.nan}


class InstantText(str):
    """An instant that the statement has without quotes."""

    __slots__ = ()


def is_insert(text: str) -> bool:
    return INSERT.match(text) is not None


def insert(text: str) -> TreeInsert | Explain:
    """Parse an INSERT or an EXPLAIN of one."""
    values = VALUES.match(text)
    parser = Parser(text, values.end() if values else None)
    header = parser.insert_header()
    if values is None:
        parser.expect_rows()
        raise AssertionError("expect_rows always raises here")
    statement = InsertScanner(text, LEXICAL_RULES).parse_rows(header, values.end())
    return Explain(statement) if _is_explained(text) else statement


def _is_explained(text: str) -> bool:
    begin = INSERT.match(text)
    return begin is not None and begin[1] is not None


def _parse_other_value(written: str) -> RowValue:
    """Parse a value other than a plain number or string. Raise `ValueError` if it is invalid."""
    if written[0] in "'\"":
        return LEXICAL_RULES.unquote(written)
    word = written.lower()
    if word in CONSTANTS:
        return CONSTANTS[word]
    if word.startswith("x'"):
        return bytes.fromhex(written[2:-1])
    if word.startswith("now"):
        return _parse_now(word)
    if re.fullmatch(INSTANT, written):
        text = canonical_instant(written)
        if text is None:
            raise ValueError(written)
        return InstantText(text)
    return finite(word)


def _parse_now(word: str) -> Now:
    """Parse `now()` plus or minus durations. Raise `ValueError` if it is out of range."""
    if "(" not in word:
        raise ValueError(word)
    offset = 0
    for sign, duration in OFFSET.findall(word):
        length = sum(int(count) * NANOSECONDS[UNITS[unit.lower()]] for count, unit in PART.findall(duration))
        offset += -length if sign == "-" else length
    if abs(offset) >= MAX_NOW_OFFSET:
        raise ValueError(word)
    return Now(offset)


class InsertScanner(RowScanner):
    """Parses the rows after VALUES: `(value, …), …`."""

    VALUE = VALUE
    CONVERT = (str, int, float, str, str, _parse_other_value)
    EXPECTED_VALUE = "a value (number, string, instant, TRUE, FALSE, NULL, NaN, X'…' or now())"

    def parse_rows(self, header: InsertHeader, offset: int) -> TreeInsert:
        self._move_to(offset)
        rows, spans = self._parse_rows()
        self._expect_end()
        self._check(header, rows, spans)
        times, values = _split_times(rows, header.time_at)
        if header.time_at is not None:
            for time, span in zip(times, spans, strict=True):
                self._check_time(time, span)
        moments = cast("tuple[int | str | Now | None, ...]", times)
        return TreeInsert(header.device, header.measurements, moments, values, header.aligned, header.device.span, spans)

    def _check(self, header: InsertHeader, rows: tuple[tuple[RowValue, ...], ...], spans: tuple[Span, ...]) -> None:
        if header.time_at is None and len(rows) > 1:
            raise semantic_error(
                "need timestamps when insert multi rows", hint="name the column time", span=spans[1], sql=self.text
            )
        timed = 0 if header.time_at is None else 1
        size = len(header.measurements)
        for row, span in zip(rows, spans, strict=True):
            if len(row) != size + timed:
                text = f"the measurementList's size {size} is not consistent with the valueList's size {len(row) - timed}"
                raise semantic_error(text, hint="give each row one value for each column", span=span, sql=self.text)

    def _check_time(self, time: RowValue, span: Span) -> None:
        if type(time) not in (int, InstantText, Now):
            hint = "write a whole number, now(), or an instant without quotes: 2024-01-01T00:00:00"
            raise semantic_error(f"Can not parse {time!r} to time", hint=hint, span=span, sql=self.text)


def _split_times(
    rows: tuple[tuple[RowValue, ...], ...], time_at: int | None
) -> tuple[tuple[RowValue, ...], tuple[tuple[RowValue, ...], ...]]:
    """Split each row into its time and its values; the time is None without a time column."""
    if time_at is None:
        return tuple(None for _ in rows), rows
    return tuple(row[time_at] for row in rows), tuple(row[:time_at] + row[time_at + 1 :] for row in rows)
