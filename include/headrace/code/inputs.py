"""Types of the arguments and values of functions, and rows in these types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from headrace.compute.functions.arrow import STATE
from headrace.errors import TypeMismatchError
from headrace.model.types import STRINGS, DataType, TypeKind
from headrace.udf import Parameters, Type

if TYPE_CHECKING:
    import pyarrow as pa

TYPES: Final = {
    Type.BOOLEAN: TypeKind.BOOL,
    Type.INT32: TypeKind.INT,
    Type.INT64: TypeKind.BIGINT,
    Type.FLOAT: TypeKind.FLOAT,
    Type.DOUBLE: TypeKind.DOUBLE,
    Type.TEXT: TypeKind.VARCHAR,
    Type.STRING: TypeKind.NCHAR,
    Type.BLOB: TypeKind.VARBINARY,
    Type.DATE: TypeKind.DATE,
    Type.TIMESTAMP: TypeKind.TIMESTAMP,
}
LIBRARY_TYPES: Final = {
    **dict.fromkeys((TypeKind.TINYINT, TypeKind.SMALLINT, TypeKind.INT, TypeKind.UTINYINT, TypeKind.USMALLINT), Type.INT32),
    **dict.fromkeys((TypeKind.BIGINT, TypeKind.UINT), Type.INT64),
    **dict.fromkeys((TypeKind.DOUBLE, TypeKind.UBIGINT, TypeKind.DECIMAL), Type.DOUBLE),
    **dict.fromkeys(STRINGS, Type.TEXT),
    TypeKind.FLOAT: Type.FLOAT,
    TypeKind.BOOL: Type.BOOLEAN,
    TypeKind.TIMESTAMP: Type.TIMESTAMP,
}
"""The narrowest type of the library that has all values of a type, or DOUBLE if none has."""
INPUT_TYPES: Final = LIBRARY_TYPES | {kind: type_ for type_, kind in TYPES.items()}
"""The types of inputs of users' functions."""


def input_types(function: str, types: Sequence[DataType], accepted: Mapping[TypeKind, Type] = INPUT_TYPES) -> list[Type]:
    """Return the types of the inputs of a call. Raise `TypeMismatchError` if one is not accepted."""
    for number, type_ in enumerate(types, 1):
        if type_.kind not in accepted:
            message = f"argument {number} of {function} is {type_}, which functions do not take"
            raise TypeMismatchError(message, hint="cast it to another type")
    return [accepted[type_.kind] for type_ in types]


def in_types(parameters: Parameters, rows: pa.Table) -> pa.Table:
    """Return rows of groups with the inputs in the types of a call, without those that have neither a value nor a state."""
    import pyarrow as pa
    import pyarrow.compute as pc

    inputs = [name for name in rows.column_names if name.startswith("x")]
    types = dict(zip(inputs, (data_type.arrow for data_type in parameters.get_data_types()), strict=True)) | {"time": pa.int64()}
    columns = {name: rows[name].cast(types.get(name, rows[name].type)) for name in rows.column_names}
    if not inputs:
        return pa.table(columns)
    values = [columns[name].is_valid() for name in (*inputs, STATE) if name in columns]
    return pa.table(columns).filter(reduce(pc.or_, values))
