"""IoTDB's names of data types."""

from __future__ import annotations

from typing import Final

from headrace.model.types import DataType, TypeKind

TREE_TYPES: Final[dict[str, DataType]] = {
    "BOOLEAN": DataType(TypeKind.BOOL),
    "INT32": DataType(TypeKind.INT),
    "INT64": DataType(TypeKind.BIGINT),
    "FLOAT": DataType(TypeKind.FLOAT),
    "DOUBLE": DataType(TypeKind.DOUBLE),
    "TEXT": DataType(TypeKind.VARCHAR),
    "TIMESTAMP": DataType(TypeKind.TIMESTAMP),
    "DATE": DataType(TypeKind.DATE),
    "BLOB": DataType(TypeKind.VARBINARY),
    "STRING": DataType(TypeKind.NCHAR),
}
"""Types by IoTDB's names, in the order of its type codes."""

WIDER_KINDS: Final[dict[TypeKind, tuple[TypeKind, ...]]] = {
    TypeKind.INT: (TypeKind.BIGINT, TypeKind.FLOAT, TypeKind.DOUBLE),
    TypeKind.BIGINT: (TypeKind.DOUBLE,),
    TypeKind.FLOAT: (TypeKind.DOUBLE,),
}
"""Types of series that INTO may write values of a type to, beside its own."""

NUMBER_ENCODINGS: Final = frozenset({"PLAIN", "RLE", "TS_2DIFF", "GORILLA", "CHIMP", "SPRINTZ", "RLBE"})
INTEGER_ENCODINGS: Final = NUMBER_ENCODINGS | {"ZIGZAG"}
FLOAT_ENCODINGS: Final = NUMBER_ENCODINGS | {"GORILLA_V1"}
TEXT_ENCODINGS: Final = frozenset({"PLAIN", "DICTIONARY"})
TREE_ENCODINGS: Final[dict[TypeKind, frozenset[str]]] = {
    TypeKind.BOOL: frozenset({"PLAIN", "RLE"}),
    TypeKind.INT: INTEGER_ENCODINGS,
    TypeKind.BIGINT: INTEGER_ENCODINGS,
    TypeKind.FLOAT: FLOAT_ENCODINGS,
    TypeKind.DOUBLE: FLOAT_ENCODINGS,
    TypeKind.VARCHAR: TEXT_ENCODINGS,
    TypeKind.TIMESTAMP: INTEGER_ENCODINGS,
    TypeKind.DATE: INTEGER_ENCODINGS,
    TypeKind.VARBINARY: frozenset({"PLAIN"}),
    TypeKind.NCHAR: TEXT_ENCODINGS,
}
"""Encodings that IoTDB allows for each type."""

DEFAULT_ENCODINGS: Final = {
    TypeKind.BOOL: "RLE",
    TypeKind.INT: "TS_2DIFF",
    TypeKind.BIGINT: "TS_2DIFF",
    TypeKind.FLOAT: "GORILLA",
    TypeKind.DOUBLE: "GORILLA",
    TypeKind.DATE: "TS_2DIFF",
    TypeKind.TIMESTAMP: "TS_2DIFF",
}
"""The encoding of series that are created without one; that of other types is PLAIN."""
DEFAULT_COMPRESSION: Final = "LZ4"

TREE_TYPE_NAMES: Final[dict[TypeKind, str]] = {type_.kind: name for name, type_ in TREE_TYPES.items()}


def type_name(type_: DataType) -> str:
    """Return IoTDB's name of a type."""
    return TREE_TYPE_NAMES.get(type_.kind, str(type_))


def default_encoding(type_: DataType) -> str:
    """Return the encoding of a series of a type that is created without one."""
    return DEFAULT_ENCODINGS.get(type_.kind, "PLAIN")
