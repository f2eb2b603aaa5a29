"""How the IoTDB language converts values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.model.types import BOOL, DOUBLE, TEXTS, DataType, TypeKind
from headrace.verify.expressions import Compiler
from headrace.verify.values import FLOATS, Value, duck_type, unsupported

INTEGERS: Final = (TypeKind.INT, TypeKind.BIGINT)
NUMBERS: Final = (*INTEGERS, *FLOATS)


def double(value: Value) -> str:
    if value.type is not None and value.type.kind not in (*NUMBERS, TypeKind.TIMESTAMP):
        raise unsupported(f"arithmetic with {value.type}")
    return f"CAST({value.sql} AS DOUBLE)"


def to_condition(value: Value) -> str:
    if value.type not in (BOOL, None):
        raise unsupported(f"a condition of type {value.type}")
    return value.sql


def unify(values: Sequence[Value]) -> tuple[DataType, list[str]]:
    """Return the values of a CASE in one type: numbers are DOUBLE."""
    types = {value.type for value in values if value.type is not None}
    if all(type_.kind in NUMBERS for type_ in types):
        return DOUBLE, [double(value) for value in values]
    if len(types) > 1:
        raise unsupported("a CASE of several types")
    return next(iter(types)), [value.sql for value in values]


def cast(_: Compiler, value: Value, type_: DataType) -> Value:
    """Return CAST, of the conversions that cannot fail for a row."""
    source, target = value.type.kind if value.type else None, type_.kind
    if source is None or source is target:
        return Value(f"CAST({value.sql} AS {target.value})" if source is None else value.sql, type_)
    sql = f"CAST({value.sql} AS {duck_type(type_)})"
    match target:
        case TypeKind.BOOL if source in (*NUMBERS, TypeKind.TIMESTAMP):
            return Value(f"({value.sql} <> 0)", BOOL)
        case TypeKind.BOOL if source is TypeKind.DATE:
            # No date has the number 0.
            return Value(f"(CASE WHEN {value.sql} IS NOT NULL THEN true END)", BOOL)
        case TypeKind.FLOAT | TypeKind.DOUBLE if source in (*NUMBERS, TypeKind.BOOL):
            return Value(sql, type_)
        case TypeKind.INT | TypeKind.BIGINT if source in (TypeKind.BOOL, TypeKind.INT):
            return Value(sql, type_)
        case TypeKind.INT | TypeKind.BIGINT if source in FLOATS:
            whole = f"CASE WHEN isnan({value.sql}) THEN 0 ELSE floor({double(value)} + 0.5) END"
            return Value(f"CAST({whole} AS {duck_type(type_)})", type_)
        case _ if source in (TypeKind.BOOL, *INTEGERS) and target in TEXTS:
            return Value(sql, type_)
    raise unsupported(f"CAST of {value.type} to {type_}")
