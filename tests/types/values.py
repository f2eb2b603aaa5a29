"""Every type of column: what SQL calls it, three values in their order, and what is known of its comparisons."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

FIRST: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LEAP_DAY: Final = dt.datetime(2024, 2, 29, 12, 30, 0, 1000, tzinfo=dt.UTC)
LAST: Final = dt.datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC)
FLOAT_MAX: Final = 3.4028234663852886e38
DOUBLE_MAX: Final = 1.7976931348623157e308
CHOICES: Final = (0, 1, 2, None)
"""A row has the first, the second or the third value of each type, or NULL."""


@dataclass(frozen=True)
class ColumnType:
    """A type with three values that ascend, each as SQL writes it and as Python reads it.

    Attributes:
        name: The column.
        sql: The type in a statement.
        is_ordered: Whether values can be compared by `<`.
    """

    name: str
    sql: str
    literals: tuple[str, str, str]
    values: tuple[Any, Any, Any]
    is_ordered: bool = True

    def literal(self, choice: int | None) -> str:
        return "NULL" if choice is None else self.literals[choice]

    def quoted(self, choice: int | None) -> str:
        """Return a value as text in quotes."""
        literal = self.literal(choice)
        return literal if choice is None or "'" in literal else f"'{literal}'"

    def value(self, choice: int | None) -> Any:
        return None if choice is None else self.values[choice]


def integers(name: str, sql: str, bits: int, ordinary: int = 7, signed: bool = True) -> ColumnType:
    """Return a type of whole numbers with its least and greatest value."""
    values = (-(2 ** (bits - 1)), ordinary, 2 ** (bits - 1) - 1) if signed else (0, ordinary, 2**bits - 1)
    least, middle, greatest = map(str, values)
    return ColumnType(name, sql, (least, middle, greatest), values)


def row(types: Sequence[ColumnType], choice: int | None) -> dict[str, Any]:
    """Return the values of a row by column."""
    return {type_.name: type_.value(choice) for type_ in types}


TDENGINE: Final = (
    ColumnType("bo", "BOOL", ("false", "true", "true"), (False, True, True)),
    integers("i8", "TINYINT", 8),
    integers("i16", "SMALLINT", 16),
    integers("i32", "INT", 32),
    integers("i64", "BIGINT", 64, 2**53 + 1),
    integers("u8", "TINYINT UNSIGNED", 8, signed=False),
    integers("u16", "SMALLINT UNSIGNED", 16, signed=False),
    integers("u32", "INT UNSIGNED", 32, signed=False),
    integers("u64", "BIGINT UNSIGNED", 64, 2**63, signed=False),
    ColumnType("f", "FLOAT", ("-3.4028235e38", "0.1", "16777216"), (-FLOAT_MAX, 0.10000000149011612, 16777216.0)),
    ColumnType("d", "DOUBLE", ("-1.7976931348623157e308", "5e-324", "0.1"), (-DOUBLE_MAX, 5e-324, 0.1)),
    ColumnType(
        "p",
        "DECIMAL(20, 4)",
        ("-9999999999999999.9999", "0.1", "1234567890123456.7891"),
        (Decimal("-9999999999999999.9999"), Decimal("0.1000"), Decimal("1234567890123456.7891")),
    ),
    ColumnType(
        "q",
        "DECIMAL(38, 10)",
        ("-9999999999999999999999999999.9999999999", "0.0000000001", "9999999999999999999999999999.9999999999"),
        (
            Decimal("-9999999999999999999999999999.9999999999"),
            Decimal("1e-10"),
            Decimal("9999999999999999999999999999.9999999999"),
        ),
    ),
    ColumnType("s", "VARCHAR(10)", ("''", "'a_%''\"'", "'ääääa'"), ("", "a_%'\"", "ääääa")),
    ColumnType("n", "NCHAR(4)", ("''", r"'a\\b'", "'𝄞ä'' '"), ("", "a\\b", "𝄞ä' ")),
    ColumnType("b", "VARBINARY(4)", ("''", "'ab'", r"'\x98f400ff'"), (b"", b"ab", b"\x98\xf4\x00\xff")),
    ColumnType(
        "t",
        "TIMESTAMP",
        ("'1970-01-01 00:00:00'", "'2024-02-29 12:30:00.001'", "'9999-12-31 23:59:59.999'"),
        (FIRST, LEAP_DAY, LAST),
    ),
    ColumnType(
        "g",
        "GEOMETRY(60)",
        ("'LINESTRING(1.0 1.0, 2.0 2.0)'", "'POINT(1.0 2.0)'", "'POLYGON((1.0 1.0, 2.0 2.0, 1.0 2.0, 1.0 1.0))'"),
        ("LINESTRING(1.0 1.0, 2.0 2.0)", "POINT(1.0 2.0)", "POLYGON((1.0 1.0, 2.0 2.0, 1.0 2.0, 1.0 1.0))"),
        is_ordered=False,
    ),
)
TREE: Final = (
    ColumnType("bo", "BOOLEAN", ("false", "true", "true"), (False, True, True)),
    integers("i32", "INT32", 32),
    integers("i64", "INT64", 64, 2**53 + 1),
    ColumnType("f", "FLOAT", ("-3.4028235e38", "0.1", "16777216"), (-FLOAT_MAX, 0.10000000149011612, 16777216.0)),
    ColumnType("d", "DOUBLE", ("-1.7976931348623157e308", "5e-324", "0.1"), (-DOUBLE_MAX, 5e-324, 0.1)),
    ColumnType("s", "TEXT", ("''", "'a_%''\"'", r"'ä\b'"), ("", "a_%'\"", "ä\\b")),
    ColumnType("n", "STRING", ("''", "'b'", "'𝄞'"), ("", "b", "𝄞")),
    ColumnType("b", "BLOB", ("X''", "X'00ff98'", "X'6162'"), (b"", b"\x00\xff\x98", b"ab")),
    ColumnType("t", "TIMESTAMP", ("0", "1709209800001", "253402300799999"), (FIRST, LEAP_DAY, LAST)),
    ColumnType(
        "da",
        "DATE",
        ("'1970-01-01'", "'2024-02-29'", "'9999-12-31'"),
        (dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)),
    ),
)
