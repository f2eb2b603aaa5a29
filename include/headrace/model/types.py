"""Column types of both languages, as one small set of kinds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class TypeKind(StrEnum):
    """The types of columns and tags, without length or scale."""

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


SIGNED = (TypeKind.TINYINT, TypeKind.SMALLINT, TypeKind.INT, TypeKind.BIGINT)
UNSIGNED = (TypeKind.UTINYINT, TypeKind.USMALLINT, TypeKind.UINT, TypeKind.UBIGINT)
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = (TypeKind.FLOAT, TypeKind.DOUBLE)
NUMBERS = (*INTEGERS, *FLOATS, TypeKind.DECIMAL)
STRINGS = (TypeKind.VARCHAR, TypeKind.NCHAR)
TEXTS = (*STRINGS, TypeKind.JSON, TypeKind.GEOMETRY)
MAX_LENGTHS = {TypeKind.VARCHAR: 65_517, TypeKind.VARBINARY: 65_517, TypeKind.NCHAR: 16_379}
"""The greatest lengths of columns: bytes, for NCHAR characters. Computed values without a length are not longer."""
INTEGER_BITS = {
    TypeKind.TINYINT: 8,
    TypeKind.SMALLINT: 16,
    TypeKind.INT: 32,
    TypeKind.BIGINT: 64,
    TypeKind.UTINYINT: 8,
    TypeKind.USMALLINT: 16,
    TypeKind.UINT: 32,
    TypeKind.UBIGINT: 64,
}


@dataclass(frozen=True, slots=True)
class DataType:
    """A kind with its length (strings, bytes: VARCHAR in bytes, NCHAR in characters) or precision and scale (DECIMAL).

    Values of JSON are objects, unless the type `is_member`: what `->` returns is text, also of a member that is an object.
    """

    kind: TypeKind
    length: int | None = None
    scale: int | None = None
    is_member: bool = field(default=False, compare=False, kw_only=True)

    def __str__(self) -> str:
        if self.length is None:
            return self.kind.value
        inside = str(self.length) if self.scale is None else f"{self.length}, {self.scale}"
        return f"{self.kind.value}({inside})"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers."""
        return self.kind in INTEGERS

    @property
    def is_number(self) -> bool:
        """True for integers, floats and decimals."""
        return self.kind in NUMBERS

    @property
    def is_string(self) -> bool:
        """True for types whose values are text."""
        return self.kind in STRINGS

    def integer_range(self) -> tuple[int, int]:
        """Return the least and greatest value of an integer type, both inclusive."""
        bits = INTEGER_BITS[self.kind]
        return (0, 2**bits - 1) if self.kind in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


BOOL: Final = DataType(TypeKind.BOOL)
BIGINT: Final = DataType(TypeKind.BIGINT)
UBIGINT: Final = DataType(TypeKind.UBIGINT)
DOUBLE: Final = DataType(TypeKind.DOUBLE)
TIMESTAMP: Final = DataType(TypeKind.TIMESTAMP)
VARCHAR: Final = DataType(TypeKind.VARCHAR)
