"""How the kinds of the model live inside Spark: instants are BIGINT ticks, everything else has its stored type."""

from __future__ import annotations

from typing import Final

from headrace.model.time import Precision
from headrace.model.types import TEXTS, DataType, TypeKind

_INTERNAL: Final = {
    TypeKind.BOOL: "boolean",
    TypeKind.TINYINT: "tinyint",
    TypeKind.SMALLINT: "smallint",
    TypeKind.INT: "int",
    TypeKind.BIGINT: "bigint",
    TypeKind.UTINYINT: "smallint",
    TypeKind.USMALLINT: "int",
    TypeKind.UINT: "bigint",
    TypeKind.UBIGINT: "decimal(20,0)",
    TypeKind.FLOAT: "float",
    TypeKind.DOUBLE: "double",
    TypeKind.VARCHAR: "string",
    TypeKind.NCHAR: "string",
    TypeKind.JSON: "string",
    TypeKind.GEOMETRY: "string",
    TypeKind.VARBINARY: "binary",
    TypeKind.TIMESTAMP: "bigint",
    TypeKind.DATE: "date",
}


def spark_type(type_: DataType) -> str:
    """Spark's name of a type as computed with: timestamps are ticks."""
    if type_.kind is TypeKind.DECIMAL:
        return f"decimal({type_.length or 38},{type_.scale or 0})"
    return _INTERNAL[type_.kind]


def to_ticks(sql: str, precision: Precision) -> str:
    """A stored timestamp as ticks."""
    match precision:
        case Precision.MILLISECOND:
            return f"unix_millis({sql})"
        case Precision.MICROSECOND:
            return f"unix_micros({sql})"
        case _:
            return sql


def from_ticks(sql: str, precision: Precision) -> str:
    """Ticks as a stored timestamp."""
    match precision:
        case Precision.MILLISECOND:
            return f"timestamp_millis({sql})"
        case Precision.MICROSECOND:
            return f"timestamp_micros({sql})"
        case _:
            return sql


def is_text(type_: DataType) -> bool:
    """Whether values are strings inside Spark."""
    return type_.kind in TEXTS


def of_double(real_: str, type_: DataType) -> str:
    """A DOUBLE as a number's type; of a whole number fractions are cut off, which the cast to BIGINT UNSIGNED would round."""
    if type_.kind is TypeKind.UBIGINT:
        return f"try_cast({real_} - {real_} % 1D AS {spark_type(type_)})"
    return f"try_cast({real_} AS {spark_type(type_)})"
