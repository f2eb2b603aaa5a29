"""Expressions on their way into DuckDB: an SQL text with its declared type, and what turns one type into another.

Instants are BIGINT ticks of their database's precision. Everything else has the DuckDB type of its declared type.
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
    """DuckDB's SQL of an expression and its declared type (None of a bare NULL); `known` and `constant` of a constant."""

    sql: str
    type: DataType | None
    known: bool = False
    constant: Scalar = None

    @property
    def is_text(self) -> bool:
        return self.type is not None and self.type.kind in TEXTS

    @property
    def is_instant(self) -> bool:
        return self.type == TIMESTAMP

    def of_kind(self, *kinds: TypeKind) -> bool:
        return self.type is not None and self.type.kind in kinds


def unknown(what: str) -> NotSupportedError:
    """What verify cannot recompute: it says so, and lets nothing pass."""
    return NotSupportedError(f"verify does not know {what}", hint="leave it out of the query to verify the rest")


def duck_type(type_: DataType | None) -> str:
    """DuckDB's name of a type."""
    if type_ is None:
        return "INTEGER"
    if type_.kind is TypeKind.DECIMAL:
        return f"DECIMAL({type_.length or 38}, {type_.scale or 0})"
    if type_.kind in TEXTS:
        return "VARCHAR"
    return _NAMES.get(type_.kind, type_.kind.value)


def quoted(text: str) -> str:
    """A string as a literal."""
    parts = text.split("\0")
    shown = " || chr(0) || ".join("'" + part.replace("'", "''") + "'" for part in parts)
    return f"({shown})" if len(parts) > 1 else shown


def constant(value: Scalar) -> Value:
    """A literal: whole numbers are BIGINT (UNSIGNED where they must), other numbers DOUBLE."""
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
    """A constant instant."""
    return Value(f"CAST('{ticks}' AS BIGINT)", TIMESTAMP, True, ticks)


def cast(value: Value, type_: DataType) -> str:
    """The text of a value as a type that can hold it."""
    return value.sql if value.type == type_ else f"CAST({value.sql} AS {duck_type(type_)})"


def real(value: Value) -> str:
    """As DOUBLE: text is the number it begins with, or 0."""
    if value.is_text:
        found = f"TRY_CAST(regexp_extract({value.sql}, {quoted(NUMBER_AT_START)}, 1) AS DOUBLE)"
        return f"CASE WHEN {value.sql} IS NOT NULL THEN coalesce({found}, 0) END"
    return cast(value, DOUBLE)


def whole(value: Value) -> str:
    """As BIGINT: fractions are cut off, an invalid value becomes NULL."""
    if value.of_kind(TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.DECIMAL) or value.is_text:
        return f"TRY_CAST(trunc({real(value)}) AS BIGINT)"
    return f"TRY_CAST({value.sql} AS BIGINT)"


def text(value: Value) -> str:
    """As VARCHAR."""
    if value.of_kind(TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.DECIMAL, TypeKind.VARBINARY):
        raise unknown(f"{value.type} as text")
    return value.sql if value.is_text else f"CAST({value.sql} AS VARCHAR)"


def truth(value: Value) -> str:
    """As a condition: numbers hold where they are not 0."""
    if value.type is None:
        return "CAST(NULL AS BOOLEAN)"
    return value.sql if value.type == BOOL else f"({real(value)} <> 0)"


def boolean(value: Value) -> str:
    """As BOOL: of text, 'true' or a number that is not 0."""
    if value.is_text:
        return f"(lower({value.sql}) = 'true' OR {real(value)} <> 0)"
    return truth(value)


def common(types: list[DataType | None]) -> DataType | None:
    """The type that holds values of all: text before instants before whole numbers before DOUBLE."""
    kinds = list(dict.fromkeys(type_ for type_ in types if type_ is not None))
    if len(kinds) < 2:
        return kinds[0] if kinds else None
    if any(type_.kind in TEXTS for type_ in kinds):
        return VARCHAR
    if TIMESTAMP in kinds:
        return TIMESTAMP
    return BIGINT if all(type_.is_integer or type_ == BOOL for type_ in kinds) else DOUBLE


def converted(value: Value, type_: DataType) -> str:
    """A value as a type that `common` has found."""
    if value.type is None:
        return f"CAST(NULL AS {duck_type(type_)})"
    if type_.kind in TEXTS:
        return text(value)
    return real(value) if type_ == DOUBLE else cast(value, type_)


def as_type(value: Value, type_: DataType) -> str:
    """`CAST`, but to TIMESTAMP out of text, which needs a zone: an invalid value becomes NULL."""
    if value.type is None:
        return f"CAST(NULL AS {duck_type(type_)})"
    match type_.kind:
        case TypeKind.VARCHAR | TypeKind.NCHAR:
            return shortened(value, type_)
        case TypeKind.BOOL:
            return boolean(value)
        case TypeKind.TIMESTAMP:
            return whole(value)
        case TypeKind.FLOAT | TypeKind.DOUBLE:
            return f"CAST({real(value)} AS {duck_type(type_)})"
        case kind if kind in INTEGER_BITS:
            return as_integer(value, type_)
        case _:
            raise unknown(f"CAST of {value.type} to {type_}")


def as_integer(value: Value, type_: DataType) -> str:
    if value.of_kind(TypeKind.UBIGINT) and type_.kind in UNSIGNED:
        return f"TRY_CAST({value.sql} AS {duck_type(type_)})"
    return f"TRY_CAST({whole(value)} AS {duck_type(type_)})"


def shortened(value: Value, type_: DataType) -> str:
    """Text cut to its length: NCHAR in characters, VARCHAR in bytes, of which only whole characters stay."""
    if type_.length is None:
        return text(value)
    if type_.kind is TypeKind.NCHAR:
        return f"left({text(value)}, {type_.length})"
    sql = text(value)
    prefixes = f"list_transform(range(0, {type_.length} + 1), lambda i: left({sql}, i))"
    longest = f"list_max(list_filter({prefixes}, lambda p: strlen(p) <= {type_.length}))"
    return f"CASE WHEN strlen({sql}) <= {type_.length} THEN {sql} ELSE {longest} END"


def floored(sql: str, divisor: int | str) -> str:
    """The remainder of whole numbers that is never negative."""
    return f"((({sql}) % {divisor} + {divisor}) % {divisor})"
