"""Spark types of the model's data types. Instants are BIGINT ticks inside Spark; everything else has its stored type."""

from __future__ import annotations

from typing import Final

from headrace.compute.nodes import Node, call, double, if_, string
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
    """Return the Spark type in which values are computed: timestamps are BIGINT ticks."""
    if type_.kind is TypeKind.DECIMAL:
        return f"decimal({type_.length or 38},{type_.scale or 0})"
    return _INTERNAL[type_.kind]


TICK_UNITS: Final = {Precision.MILLISECOND: "millis", Precision.MICROSECOND: "micros"}
"""The units of Spark's functions of instants. Nanoseconds are stored as ticks."""


def to_ticks(node: Node, precision: Precision) -> Node:
    """Convert a stored timestamp to ticks."""
    return call(f"unix_{TICK_UNITS[precision]}", node) if precision in TICK_UNITS else node


def from_ticks(node: Node, precision: Precision) -> Node:
    """Convert ticks to a stored timestamp."""
    return call(f"timestamp_{TICK_UNITS[precision]}", node) if precision in TICK_UNITS else node


def is_text(type_: DataType) -> bool:
    """Return whether values are strings inside Spark."""
    return type_.kind in TEXTS


def double_to_number(node: Node, type_: DataType) -> Node:
    """Convert a DOUBLE to a numeric type, truncating fractions for integers, NULL if out of range."""
    if type_.kind is not TypeKind.UBIGINT:
        return node.try_cast(spark_type(type_))
    # Spark casts a DOUBLE to DECIMAL by its shortest text, which has other digits, and rounds.
    half, type_name = 2**63, spark_type(type_)
    upper = (node - double(half)).try_cast("bigint").cast(type_name) + string(str(half)).cast(type_name)
    return if_(node < double(half), node.try_cast("bigint").cast(type_name), upper.cast(type_name))
