"""Typed DuckDB SQL expressions and conversions between types.

Instants are BIGINT ticks of their database's precision; all other values have the DuckDB type of their declared type.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from headrace.errors import NotSupportedError
from headrace.model.expressions import Scalar
from headrace.model.types import (
    BIGINT,
    BOOL,
    DOUBLE,
    INTEGER_BITS,
    TEXTS,
    TIMESTAMP,
    UBIGINT,
    UNSIGNED,
    VARCHAR,
    DataType,
    TypeKind,
)

NUMBER_AT_START: Final = r"^\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"

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
        return self.type is not None and self.type.kind in TEXTS

    @property
    def is_instant(self) -> bool:
        """True for TIMESTAMP."""
        return self.type == TIMESTAMP

    def is_kind(self, *kinds: TypeKind) -> bool:
        """Return True if the type is of one of these kinds."""
        return self.type is not None and self.type.kind in kinds


def unsupported(feature: str) -> NotSupportedError:
    """Return the error for something that verify cannot recompute."""
    return NotSupportedError(f"verify does not support {feature}", hint="leave it out of the query to verify the rest")


def duck_type(type_: DataType | None) -> str:
    """Return DuckDB's name of a type."""
    if type_ is None:
        return "INTEGER"
    if type_.kind is TypeKind.DECIMAL:
        return f"DECIMAL({type_.length or 38}, {type_.scale or 0})"
    if type_.kind in TEXTS:
        return "VARCHAR"
    return _NAMES.get(type_.kind, type_.kind.value)


def quoted(text: str) -> str:
    """Return a string as an SQL literal."""
    parts = text.split("\0")
    literals = " || chr(0) || ".join("'" + part.replace("'", "''") + "'" for part in parts)
    return f"({literals})" if len(parts) > 1 else literals


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
            return Value(f"CAST('{float(value)!r}' AS DOUBLE)", DOUBLE, True, float(value))
        case bytes():
            return Value("'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB", DataType(TypeKind.VARBINARY), True, value)
        case str():
            return Value(quoted(value), VARCHAR, True, value)


def instant(ticks: int) -> Value:
    """Return a constant instant."""
    return Value(f"CAST('{ticks}' AS BIGINT)", TIMESTAMP, True, ticks)


def cast(value: Value, type_: DataType) -> str:
    """Convert a value to a type that can hold it."""
    return value.sql if value.type == type_ else f"CAST({value.sql} AS {duck_type(type_)})"


def to_double(value: Value) -> str:
    """Convert to DOUBLE; text to the number it begins with, or 0."""
    if value.is_text:
        number = f"TRY_CAST(regexp_extract({value.sql}, {quoted(NUMBER_AT_START)}, 1) AS DOUBLE)"
        return f"CASE WHEN {value.sql} IS NOT NULL THEN coalesce({number}, 0) END"
    return cast(value, DOUBLE)


def to_bigint(value: Value) -> str:
    """Convert to BIGINT: fractions are truncated, invalid values become NULL."""
    if value.is_kind(TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.DECIMAL) or value.is_text:
        return f"TRY_CAST(trunc({to_double(value)}) AS BIGINT)"
    return f"TRY_CAST({value.sql} AS BIGINT)"


def to_text(value: Value) -> str:
    """Convert to VARCHAR."""
    if value.is_kind(TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.DECIMAL, TypeKind.VARBINARY):
        raise unsupported(f"{value.type} as text")
    return value.sql if value.is_text else f"CAST({value.sql} AS VARCHAR)"


def to_condition(value: Value) -> str:
    """Convert to a condition; numbers other than 0 are true."""
    if value.type is None:
        return "CAST(NULL AS BOOLEAN)"
    return value.sql if value.type == BOOL else f"({to_double(value)} <> 0)"


def to_bool(value: Value) -> str:
    """Convert to BOOL; of text, 'true' and numbers other than 0 are true."""
    if value.is_text:
        return f"(lower({value.sql}) = 'true' OR {to_double(value)} <> 0)"
    return to_condition(value)


def common_type(types: list[DataType | None]) -> DataType | None:
    """Return the type that can hold values of all types: text, else instants, else integers, else DOUBLE."""
    distinct = list(dict.fromkeys(type_ for type_ in types if type_ is not None))
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    if any(type_.kind in TEXTS for type_ in distinct):
        return VARCHAR
    if TIMESTAMP in distinct:
        return TIMESTAMP
    return BIGINT if all(type_.is_integer or type_ == BOOL for type_ in distinct) else DOUBLE


def convert(value: Value, type_: DataType) -> str:
    """Convert a value to a type that `common_type` returned."""
    if value.type is None:
        return f"CAST(NULL AS {duck_type(type_)})"
    if type_.kind in TEXTS:
        return to_text(value)
    return to_double(value) if type_ == DOUBLE else cast(value, type_)


def cast_or_null(value: Value, type_: DataType) -> str:
    """Compile CAST, except of text to TIMESTAMP, which needs a time zone; an invalid value becomes NULL."""
    if value.type is None:
        return f"CAST(NULL AS {duck_type(type_)})"
    match type_.kind:
        case TypeKind.VARCHAR | TypeKind.NCHAR:
            return truncate_text(value, type_)
        case TypeKind.BOOL:
            return to_bool(value)
        case TypeKind.TIMESTAMP:
            return to_bigint(value)
        case TypeKind.FLOAT | TypeKind.DOUBLE:
            return f"CAST({to_double(value)} AS {duck_type(type_)})"
        case kind if kind in INTEGER_BITS:
            return cast_integer(value, type_)
        case _:
            raise unsupported(f"CAST of {value.type} to {type_}")


def cast_integer(value: Value, type_: DataType) -> str:
    """Cast to an integer type; a value out of range becomes NULL."""
    if value.is_kind(TypeKind.UBIGINT) and type_.kind in UNSIGNED:
        return f"TRY_CAST({value.sql} AS {duck_type(type_)})"
    return f"TRY_CAST({to_bigint(value)} AS {duck_type(type_)})"


def truncate_text(value: Value, type_: DataType) -> str:
    """Truncate text to its declared length: NCHAR in characters, VARCHAR in bytes, of which only complete characters remain."""
    if type_.length is None:
        return to_text(value)
    if type_.kind is TypeKind.NCHAR:
        return f"left({to_text(value)}, {type_.length})"
    sql = to_text(value)
    prefixes = f"list_transform(range(0, {type_.length} + 1), lambda i: left({sql}, i))"
    longest = f"list_max(list_filter({prefixes}, lambda p: strlen(p) <= {type_.length}))"
    return f"CASE WHEN strlen({sql}) <= {type_.length} THEN {sql} ELSE {longest} END"


def floored_mod(sql: str, divisor: int | str) -> str:
    """Return the remainder of a floored division, which is never negative."""
    return f"((({sql}) % {divisor} + {divisor}) % {divisor})"
