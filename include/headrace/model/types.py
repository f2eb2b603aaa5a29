"""Column types of both languages, as one small set of kinds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    BOOL = "BOOL"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    UTINYINT = "TINYINT UNSIGNED"
    USMALLINT = "SMALLINT UNSIGNED"
    UINT = "INT UNSIGNED"
    UBIGINT = "BIGINT UNSIGNED"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    VARCHAR = "VARCHAR"
    NCHAR = "NCHAR"
    VARBINARY = "VARBINARY"
    GEOMETRY = "GEOMETRY"
    JSON = "JSON"
    TIMESTAMP = "TIMESTAMP"
    DATE = "DATE"


SIGNED = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)
UNSIGNED = (Kind.UTINYINT, Kind.USMALLINT, Kind.UINT, Kind.UBIGINT)
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = (Kind.FLOAT, Kind.DOUBLE)
NUMBERS = (*INTEGERS, *FLOATS, Kind.DECIMAL)
STRINGS = (Kind.VARCHAR, Kind.NCHAR)
TEXTS = (*STRINGS, Kind.JSON, Kind.GEOMETRY)
INTEGER_BITS = {
    Kind.TINYINT: 8,
    Kind.SMALLINT: 16,
    Kind.INT: 32,
    Kind.BIGINT: 64,
    Kind.UTINYINT: 8,
    Kind.USMALLINT: 16,
    Kind.UINT: 32,
    Kind.UBIGINT: 64,
}


@dataclass(frozen=True, slots=True)
class DataType:
    """A kind with its length (strings, bytes: VARCHAR in bytes, NCHAR in characters) or precision and scale (DECIMAL)."""

    kind: Kind
    length: int | None = None
    scale: int | None = None

    def __str__(self) -> str:
        if self.length is None:
            return self.kind.value
        inside = str(self.length) if self.scale is None else f"{self.length}, {self.scale}"
        return f"{self.kind.value}({inside})"

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGERS

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def is_string(self) -> bool:
        return self.kind in STRINGS

    def integer_range(self) -> tuple[int, int]:
        """Least and greatest value of an integer kind, both inclusive."""
        bits = INTEGER_BITS[self.kind]
        return (0, 2**bits - 1) if self.kind in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


BOOL: Final = DataType(Kind.BOOL)
BIGINT: Final = DataType(Kind.BIGINT)
UBIGINT: Final = DataType(Kind.UBIGINT)
DOUBLE: Final = DataType(Kind.DOUBLE)
TIMESTAMP: Final = DataType(Kind.TIMESTAMP)
VARCHAR: Final = DataType(Kind.VARCHAR)
