"""Values for the `?` of a statement, written into it as literals of its dialect (PEP 249, `qmark`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from headrace.errors import DataError, ProgrammingError
from headrace.model.expressions import Literal
from headrace.model.spans import Span
from headrace.sql import expression_sql, lexis_of
from headrace.sql.tokens import Token, tokenize

DATA_STATEMENTS: Final = frozenset({("INSERT",), ("ALTER",), ("CREATE", "TABLE")})
"""Statements whose values are data for columns of known types, not expressions."""


@dataclass(frozen=True, slots=True)
class Template:
    """A statement cut at its `?`: `parts` has one more element than there are parameters.

    `sql` and `spans` say where each `?` is. `is_data` means that values are data, see `DATA_STATEMENTS`.
    """

    sql: str
    dialect: str
    parts: tuple[str, ...]
    spans: tuple[Span, ...]
    is_data: bool

    def render(self, parameters: Sequence[Any], row: int | None = None) -> str:
        """Write one value for each `?`.

        Raises:
            ProgrammingError: there are too few or too many values, or one is of a type that no literal has.
            DataError: a value is no number of SQL (nan, inf).
        """
        self.check_count(parameters, row)
        written = [self.literal(value, place, row) for place, value in enumerate(parameters)]
        return "".join(part for pair in zip(self.parts, (*written, ""), strict=True) for part in pair)

    def check_count(self, parameters: Sequence[Any], row: int | None) -> None:
        count = len(self.spans)
        if isinstance(parameters, str | bytes | Mapping) or not isinstance(parameters, Sequence):
            raise ProgrammingError(
                f"parameters are a {type(parameters).__name__}, not a sequence", hint="pass a tuple or a list", sql=self.sql
            )
        if len(parameters) != count:
            first_unbound = self.spans[len(parameters)] if len(parameters) < count else None
            raise ProgrammingError(
                f"{in_row(row)}the statement has {count} parameter{'' if count == 1 else 's'}, {len(parameters)} given",
                hint="pass one value for each ?; a ? within quotes or a comment is none",
                span=first_unbound or Span(len(self.sql), len(self.sql)),
                sql=self.sql,
            )

    def literal(self, value: Any, place: int, row: int | None) -> str:
        try:
            return literal_sql(value, self.dialect, is_data=self.is_data)
        except (TypeError, ValueError) as error:
            kind = DataError if isinstance(error, ValueError) else ProgrammingError
            raise kind(
                f"{in_row(row)}parameter {place + 1}: {error}",
                hint="NULL is None" if isinstance(error, ValueError) else "convert it to a type that SQL has",
                span=self.spans[place],
                sql=self.sql,
            ) from None


def in_row(row: int | None) -> str:
    return "" if row is None else f"row {row + 1}: "


def template(sql: str, dialect: str) -> Template:
    """Find the `?` of a statement; those in strings, comments and quoted names are none."""
    tokens = tokenize(sql, lexis_of(dialect))
    return cut(sql, Span(0, len(sql)), tokens, dialect, is_data(tokens))


def cut(sql: str, part: Span, tokens: Sequence[Token], dialect: str, is_data: bool) -> Template:
    """Cut a part of a text at the `?` among its tokens."""
    marks = tuple(Span(token.start, token.end) for token in tokens if token.word == "?")
    starts = (part.start, *(mark.end for mark in marks))
    ends = (*(mark.start for mark in marks), part.end)
    parts = tuple(sql[start:end] for start, end in zip(starts, ends, strict=True))
    return Template(sql, dialect, parts, marks, is_data)


def is_data(tokens: Sequence[Token]) -> bool:
    words = [token.word for token in tokens if token.word != "EXPLAIN"]
    return (words[0],) in DATA_STATEMENTS or tuple(words[:2]) in DATA_STATEMENTS


def render_many(sql: str, rows: Iterable[Sequence[Any]], dialect: str) -> str | None:
    """Write an INSERT with the values of many rows as one statement; None for any other statement, or if there is no row."""
    tokens = tokenize(sql, lexis_of(dialect))
    while len(tokens) > 1 and tokens[-2].word == ";":
        tokens = [*tokens[:-2], tokens[-1]]
    if [token.word for token in tokens[:2]] != ["INSERT", "INTO"]:
        return None
    part = tokens[repeated_from(tokens[:-1]) : -1]
    if not part:
        return None
    span = Span(part[0].start, part[-1].end)
    repeated = cut(sql, span, part, dialect, is_data=True)
    written = [repeated.render(row, number) for number, row in enumerate(rows)]
    return f"{sql[: span.start]}{' '.join(written)}" if written else None


def repeated_from(tokens: Sequence[Token]) -> int:
    """Where the part of an INSERT begins that each row repeats: its only group of values, else the whole after INTO."""
    opens = [place + 1 for place, (word, sign) in enumerate(pairwise(tokens)) if word.word == "VALUES" and sign.word == "("]
    if len(opens) != 1:
        return 2
    closes = [place for place, token in enumerate(tokens) if token.word == ")" and place > opens[0]]
    has_marks_before = any(token.word == "?" for token in tokens[: opens[0]])
    return 2 if has_marks_before or closes != [len(tokens) - 1] else opens[0]


def literal_sql(value: Any, dialect: str, *, is_data: bool = False) -> str:
    """Write a value as a literal.

    Args:
        value: None, bool, int, float, Decimal, str, bytes, date, datetime, or a scalar of NumPy or pandas.
        dialect: The language of the statement.
        is_data: Whether the literal is a value for a column. Such values are written as text if that keeps all their digits.

    Raises:
        TypeError: there is no literal for its type.
        ValueError: it is no finite number.
    """
    writer = next((writer for kinds, writer in WRITERS if isinstance(value, kinds)), None)
    if writer is not None:
        return writer(value, dialect, is_data)
    if type(value).__module__ == "numpy":
        return numpy_sql(value, dialect, is_data)
    raise TypeError(f"there is no literal for the type {type(value).__name__}")


def plain_sql(value: Any, dialect: str, _: bool) -> str:
    return expression_sql(Literal(value), dialect)


def bytes_sql(value: bytes | bytearray | memoryview, dialect: str, _: bool) -> str:
    return expression_sql(Literal(bytes(value)), dialect)


def integer_sql(value: int, _: str, __: bool) -> str:
    return spaced(str(int(value)))


def float_sql(value: float, _: str, __: bool) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number of SQL")
    return spaced(repr(float(value)))


def decimal_sql(value: Decimal, dialect: str, is_data: bool) -> str:
    if not value.is_finite():
        raise ValueError(f"{value} is no number of SQL")
    digits = format(value, "f")
    return expression_sql(Literal(digits), dialect) if is_data else spaced(digits)


def spaced(number: str) -> str:
    """Keep a negative number apart from a minus before it: two of them begin a comment."""
    return f" {number}" if number.startswith("-") else number


def time_sql(value: datetime, dialect: str, is_data: bool) -> str:
    """An aware one as an instant; a naive one is in the time zone of the database."""
    if value != value:  # NaT of pandas
        return "NULL"
    shown = value if value.tzinfo is None else value.astimezone(UTC)
    return text_time_sql(shown.isoformat(sep=" "), dialect, is_data)


def date_sql(value: date, dialect: str, is_data: bool) -> str:
    return text_time_sql(value.isoformat(), dialect, is_data)


def text_time_sql(text: str, dialect: str, is_data: bool) -> str:
    literal = expression_sql(Literal(text), dialect)
    return literal if is_data else f"TIMESTAMP {literal}"


def numpy_sql(value: Any, dialect: str, is_data: bool) -> str:
    if type(value).__name__ == "datetime64":
        return "NULL" if str(value) == "NaT" else text_time_sql(str(value).replace("T", " "), dialect, is_data)
    if not hasattr(value, "item") or getattr(value, "shape", ()) != ():
        raise TypeError(f"there is no literal for the type {type(value).__name__}")
    return literal_sql(value.item(), dialect, is_data=is_data)


Writer = Callable[[Any, str, bool], str]
WRITERS: Final[tuple[tuple[tuple[type, ...], Writer], ...]] = (
    ((type(None), bool, str), plain_sql),
    ((int,), integer_sql),
    ((float,), float_sql),
    ((Decimal,), decimal_sql),
    ((bytes, bytearray, memoryview), bytes_sql),
    ((datetime,), time_sql),
    ((date,), date_sql),
)
"""By type; a bool is an int, and a datetime a date, so the order matters."""
