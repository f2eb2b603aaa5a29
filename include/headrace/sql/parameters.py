"""Parameters: values written into a statement as literals in place of each `?` (PEP 249, `qmark`)."""

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
from headrace.sql import expression_sql, instant_sql, lexical_rules_of
from headrace.sql.tokens import Token, tokenize

DATA_STATEMENTS: Final = frozenset({("INSERT",), ("ALTER",), ("CREATE", "TABLE")})
"""Statements whose values are data for typed columns, not expressions."""


@dataclass(frozen=True, slots=True)
class Template:
    """A statement split at its `?`: `parts` is the text between parameters, `spans` the places of `?` in `sql`.

    With `is_data`, values are data for columns, see `DATA_STATEMENTS`.
    """

    sql: str
    dialect: str
    parts: tuple[str, ...]
    spans: tuple[Span, ...]
    is_data: bool

    def render(self, parameters: Sequence[Any], row: int | None = None) -> str:
        """Write one value for each `?`; `row` is the index of the values among many rows, for messages.

        Raise `ProgrammingError` for a wrong number of values, or one without literals, and `DataError` for an infinite number.
        """
        self.check_count(parameters, row)
        literals = [self.literal(value, index, row) for index, value in enumerate(parameters)]
        return "".join(part for pair in zip(self.parts, (*literals, ""), strict=True) for part in pair)

    def check_count(self, parameters: Sequence[Any], row: int | None) -> None:
        """Raise `ProgrammingError` if the parameters are not a sequence of the right length."""
        count = len(self.spans)
        if isinstance(parameters, str | bytes | Mapping) or not isinstance(parameters, Sequence):
            raise ProgrammingError(
                f"parameters are a {type(parameters).__name__}, not a sequence", hint="pass a tuple or a list", sql=self.sql
            )
        if len(parameters) != count:
            first_unbound = self.spans[len(parameters)] if len(parameters) < count else None
            raise ProgrammingError(
                f"{row_prefix(row)}the statement has {count} parameter{'' if count == 1 else 's'}, {len(parameters)} given",
                hint="pass one value for each ?, except those inside quotes or comments",
                span=first_unbound or Span(len(self.sql), len(self.sql)),
                sql=self.sql,
            )

    def literal(self, value: Any, index: int, row: int | None) -> str:
        """Write one value, raising errors with the span of its `?`."""
        try:
            return literal_sql(value, self.dialect, is_data=self.is_data)
        except (TypeError, ValueError) as error:
            kind = DataError if isinstance(error, ValueError) else ProgrammingError
            raise kind(
                f"{row_prefix(row)}parameter {index + 1}: {error}",
                hint="pass None for NULL" if isinstance(error, ValueError) else "convert it to a type that SQL has",
                span=self.spans[index],
                sql=self.sql,
            ) from None


def row_prefix(row: int | None) -> str:
    """Return the beginning of a message about one of many rows."""
    return "" if row is None else f"row {row + 1}: "


def split_template(sql: str, dialect: str) -> Template:
    """Split a statement at its `?`, ignoring those in strings, comments and quoted names."""
    tokens = tokenize(sql, lexical_rules_of(dialect))
    return split_at_marks(sql, Span(0, len(sql)), tokens, dialect, is_data(tokens))


def split_at_marks(sql: str, part: Span, tokens: Sequence[Token], dialect: str, is_data: bool) -> Template:
    marks = tuple(Span(token.start, token.end) for token in tokens if token.word == "?")
    starts = (part.start, *(mark.end for mark in marks))
    ends = (*(mark.start for mark in marks), part.end)
    parts = tuple(sql[start:end] for start, end in zip(starts, ends, strict=True))
    return Template(sql, dialect, parts, marks, is_data)


def is_data(tokens: Sequence[Token]) -> bool:
    words = [token.word for token in tokens if token.word != "EXPLAIN"]
    if "SELECT" in words:
        return False
    return (words[0],) in DATA_STATEMENTS or tuple(words[:2]) in DATA_STATEMENTS


def render_many(sql: str, rows: Iterable[Sequence[Any]], dialect: str) -> str | None:
    """Write an INSERT with the values of many rows as one statement. None if it is no INSERT or there are no rows."""
    tokens = tokenize(sql, lexical_rules_of(dialect))
    while len(tokens) > 1 and tokens[-2].word == ";":
        tokens = [*tokens[:-2], tokens[-1]]
    if [token.word for token in tokens[:2]] != ["INSERT", "INTO"] or not is_data(tokens):
        return None
    part = tokens[repeated_start(tokens[:-1]) : -1]
    if not part:
        return None
    span = Span(part[0].start, part[-1].end)
    repeated = split_at_marks(sql, span, part, dialect, is_data=True)
    groups = [repeated.render(row, number) for number, row in enumerate(rows)]
    return f"{sql[: span.start]}{' '.join(groups)}" if groups else None


def repeated_start(tokens: Sequence[Token]) -> int:
    """Return the token where the part of an INSERT begins that rows repeat: its only values if all `?` are there, or after INTO."""
    opens = [index + 1 for index, (word, sign) in enumerate(pairwise(tokens)) if word.word == "VALUES" and sign.word == "("]
    if len(opens) != 1:
        return 2
    closes = [index for index, token in enumerate(tokens) if token.word == ")" and index > opens[0]]
    has_marks_before = any(token.word == "?" for token in tokens[: opens[0]])
    return 2 if has_marks_before or closes != [len(tokens) - 1] else opens[0]


def literal_sql(value: Any, dialect: str, *, is_data: bool = False) -> str:
    """Write a value as a literal of a dialect: None, bool, number, text, bytes, date, datetime, or a NumPy or pandas scalar.

    With `is_data`, it is a value for a column, and written as text if that keeps all digits. Raise `TypeError` for other types, and
    `ValueError` for numbers that are not finite.
    """
    writer = next((writer for kinds, writer in WRITERS if isinstance(value, kinds)), None)
    if writer is not None:
        return writer(value, dialect, is_data)
    if type(value).__module__ == "numpy":
        return numpy_sql(value, dialect, is_data)
    raise TypeError(f"values of type {type(value).__name__} have no literal")


def float_sql(value: float, _: str, __: bool) -> str:
    """Write a float, or raise `ValueError` if it is not finite."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    return pad_negative(repr(float(value)))


def decimal_sql(value: Decimal, dialect: str, is_data: bool) -> str:
    """Write a decimal, or raise `ValueError` if it is not finite."""
    if not value.is_finite():
        raise ValueError(f"{value} is not a finite number")
    digits = format(value, "f")
    return expression_sql(Literal(digits), dialect) if is_data else pad_negative(digits)


def pad_negative(number: str) -> str:
    """Put a blank before a negative number, because a minus before it would begin a comment."""
    return f" {number}" if number.startswith("-") else number


def time_sql(value: datetime, dialect: str, is_data: bool) -> str:
    """Write a datetime: an aware one as an instant, a naive one in the time zone of the database."""
    if value != value:  # NaT of pandas
        return "NULL"
    zoned = value if value.tzinfo is None else value.astimezone(UTC)
    return instant_sql(zoned.isoformat(sep=" "), dialect, is_data=is_data)


def numpy_sql(value: Any, dialect: str, is_data: bool) -> str:
    """Write a NumPy scalar, or raise `TypeError`."""
    if type(value).__name__ == "datetime64":
        return "NULL" if str(value) == "NaT" else instant_sql(str(value).replace("T", " "), dialect, is_data=is_data)
    if not hasattr(value, "item") or getattr(value, "shape", ()) != ():
        raise TypeError(f"values of type {type(value).__name__} have no literal")
    return literal_sql(value.item(), dialect, is_data=is_data)


Writer = Callable[[Any, str, bool], str]
WRITERS: Final[tuple[tuple[tuple[type, ...], Writer], ...]] = (
    ((type(None), bool, str), lambda value, dialect, _: expression_sql(Literal(value), dialect)),
    ((int,), lambda value, _, __: pad_negative(str(int(value)))),
    ((float,), float_sql),
    ((Decimal,), decimal_sql),
    ((bytes, bytearray, memoryview), lambda value, dialect, _: expression_sql(Literal(bytes(value)), dialect)),
    ((datetime,), time_sql),
    ((date,), lambda value, dialect, is_data: instant_sql(value.isoformat(), dialect, is_data=is_data)),
)
"""Writers by type. The order matters: a bool is also an int, and a datetime also a date."""
