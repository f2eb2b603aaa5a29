"""IoTDB's type names, and its errors for wrong types, with hints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.errors import TypeMismatchError
from headrace.model.tree_types import TREE_TYPE_NAMES
from headrace.model.types import BIGINT, BOOL, VARCHAR, DataType, TypeKind

SEMANTIC_ERROR: Final = 701
EXECUTION_ERROR: Final = 301

BOOLEAN, INT64, TEXT = BOOL, BIGINT, VARCHAR
INT32: Final = DataType(TypeKind.INT)
FLOAT: Final = DataType(TypeKind.FLOAT)
STRING: Final = DataType(TypeKind.NCHAR)
BLOB: Final = DataType(TypeKind.VARBINARY)
DATE: Final = DataType(TypeKind.DATE)

NAMES: Final = TREE_TYPE_NAMES

NUMERIC: Final = (TypeKind.INT, TypeKind.BIGINT, TypeKind.FLOAT, TypeKind.DOUBLE)
TEXTUAL: Final = (TypeKind.VARCHAR, TypeKind.NCHAR)
FLOATING: Final = (TypeKind.FLOAT, TypeKind.DOUBLE)
EVERY: Final = frozenset(NAMES)


def type_name(type_: DataType | None) -> str:
    """Return IoTDB's name of a type, `null` for None."""
    return "null" if type_ is None else NAMES.get(type_.kind, str(type_))


def type_list(kinds: Iterable[TypeKind]) -> str:
    """Write a list of type names in the server's format."""
    return f"[{', '.join(NAMES[kind] for kind in kinds)}]"


def type_error(text: str, hint: str = "", status: int = SEMANTIC_ERROR) -> TypeMismatchError:
    """Return an error whose message begins with IoTDB's status code."""
    return TypeMismatchError(text, hint=hint).with_status(status)


def operand_error(actual: DataType | None, expected: Iterable[TypeKind]) -> TypeMismatchError:
    """Return the error for an operand of a wrong type; it suggests a cast."""
    kinds = tuple(expected)
    names = type_list(kinds)
    return type_error(
        f"Invalid input expression data type. actual data type: {type_name(actual)}, expected data type(s): {names}.",
        hint=f"cast it, as in CAST(x AS {NAMES[kinds[-1] if TypeKind.DOUBLE in kinds else kinds[0]]}), or use another operator",
    )
