"""IoTDB's type names, its errors for wrong types, with hints, and checks of the inputs and attributes of functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


def check_inputs(
    function: str, types: Sequence[DataType | None], accepts: Sequence[TypeKind], min_arguments: int, max_arguments: int | None
) -> None:
    """Raise `TypeMismatchError` for a wrong number or type of inputs. NULL has no type and is always accepted."""
    if len(types) < min_arguments or (max_arguments is not None and len(types) > max_arguments):
        expected = (
            str(min_arguments)
            if min_arguments == max_arguments
            else f"[{min_arguments}, {'…' if max_arguments is None else max_arguments}]"
        )
        hint = f"give {function} {expected} series; names and values of attributes are written as 'name'='value'"
        raise type_error(f"the number of the input series is not valid. expected: {expected}. actual: {len(types)}.", hint=hint)
    for index, type_ in enumerate(types):
        if type_ is not None and type_.kind not in accepts:
            raise input_error(index, type_, accepts)


def input_error(index: int, type_: DataType, accepts: Sequence[TypeKind]) -> TypeMismatchError:
    expected = type_list(accepts) if len(accepts) > 1 else NAMES[accepts[0]]
    target = "DOUBLE" if TypeKind.DOUBLE in accepts else NAMES[accepts[0]]
    message = f"the data type of the input series (index: {index}) is not valid. expected: {expected}. actual: {type_name(type_)}."
    return type_error(message, hint=f"cast it, as in CAST(x AS {target})")


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of one call, such as `'k'='3'`."""

    pairs: tuple[tuple[str, str], ...]

    def has(self, name: str) -> bool:
        """Return whether the call has this attribute."""
        return any(name == key for key, _ in self.pairs)

    def text(self, name: str, default: str | None = None) -> str:
        """Return an attribute. Raise `TypeMismatchError` if it is missing and has no default."""
        value = dict(self.pairs).get(name, default)
        if value is None:
            raise type_error(f'attribute "{name}" is required but was not provided.', hint=f"write it in the call: '{name}'='…'")
        return value

    def flag(self, name: str, default: bool) -> bool:
        return self.text(name, str(default)).lower() == "true"

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.text(name, None if default is None else str(default))
        try:
            return int(value)
        except ValueError:
            raise number_error(name, value) from None

    def real(self, name: str, default: float | None = None) -> float:
        value = self.text(name, None if default is None else repr(default))
        try:
            return float(value)
        except ValueError:
            raise number_error(name, value) from None


def number_error(name: str, value: str) -> TypeMismatchError:
    """Return the error for an attribute that must be a number."""
    return type_error(f'For input string: "{value}"', hint=f"the attribute {name} takes a number")
