"""Typed DuckDB SQL expressions.

Instants are BIGINT ticks of their database's precision; all other values have the DuckDB type of their declared type.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from headrace.errors import NotSupportedError
from headrace.model.expressions import Scalar
from headrace.model.types import BIGINT, BOOL, DOUBLE, TEXTS, TIMESTAMP, UBIGINT, VARCHAR, DataType, TypeKind

FLOATS: Final = (TypeKind.FLOAT, TypeKind.DOUBLE)
FLOAT_LIMIT: Final = 2.0**128 - 2.0**103
"""From here on, the nearest FLOAT is infinite."""
_NAMES: Final = {
    TypeKind.BOOL: "BOOLEAN",
    TypeKind.UTINYINT: "UTINYINT",
    TypeKind.USMALLINT: "USMALLINT",
    TypeKind.UINT: "UINTEGER",
    TypeKind.UBIGINT: "UBIGINT",
    TypeKind.INT: "INTEGER",
    TypeKind.FLOAT: "FLOAT",
    TypeKind.TIMESTAMP: "BIGINT",
    TypeKind.VARBINARY: "BLOB",
}


@dataclass(frozen=True, slots=True)
class Value:
    """The SQL of an expression and its declared type (None for a bare NULL).

    `is_constant` marks a constant, whose value is `constant`.
    """

    sql: str
    type: DataType | None
    is_constant: bool = False
    constant: Scalar = None

    @property
    def is_text(self) -> bool:
        """True for VARCHAR and NCHAR."""
        return self.is_kind(*TEXTS)

    @property
    def is_instant(self) -> bool:
        return self.type == TIMESTAMP

    def is_kind(self, *kinds: TypeKind) -> bool:
        """Return True if the type is of one of these kinds."""
        return self.type is not None and self.type.kind in kinds


def unsupported(feature: str) -> NotSupportedError:
    """Return the error for something that verify cannot recompute."""
    return NotSupportedError(f"verify does not support {feature}", hint="leave it out of the query to verify the rest")


def duck_type(type_: DataType | None) -> str:
    if type_ is None:
        return "INTEGER"
    if type_.kind is TypeKind.DECIMAL:
        return f"DECIMAL({type_.length or 38}, {type_.scale or 0})"
    if type_.kind in TEXTS:
        return "VARCHAR"
    return _NAMES.get(type_.kind, type_.kind.value)


def quoted(text: str) -> str:
    parts = text.split("\0")
    literals = " || chr(0) || ".join("'" + part.replace("'", "''") + "'" for part in parts)
    return f"({literals})" if len(parts) > 1 else literals


def quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def constant(value: Scalar) -> Value:
    """Return a literal: integers are BIGINT (UNSIGNED if too large), other numbers DOUBLE."""
    match value:
        case None:
            return Value("NULL", None, True)
        case bool():
            return Value("true" if value else "false", BOOL, True, value)
        case int():
            type_ = BIGINT if -(2**63) <= value < 2**63 else UBIGINT
            return Value(f"CAST('{value}' AS {duck_type(type_)})", type_, True, value)
        case float() | Decimal():
            return Value(f"CAST('{float(value)!r}' AS DOUBLE)", DOUBLE, True, value)
        case bytes():
            return Value("'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB", DataType(TypeKind.VARBINARY), True, value)
        case str():
            return Value(quoted(value), VARCHAR, True, value)


def instant(ticks: int) -> Value:
    return Value(f"CAST('{ticks}' AS BIGINT)", TIMESTAMP, True, ticks)


def float_sql(number: float) -> str:
    """Return the FLOAT nearest to a number, which may be infinite."""
    limit = "inf" if number > 0 else "-inf"
    return f"CAST('{limit if abs(number) >= FLOAT_LIMIT else repr(number)}' AS FLOAT)"


def floored_mod(sql: str, divisor: int | str) -> str:
    """Return the remainder of a floored division, which is never negative."""
    return f"((({sql}) % {divisor} + {divisor}) % {divisor})"
