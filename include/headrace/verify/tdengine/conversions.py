"""How the TDengine language converts values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from headrace.model.instants import parse_instant
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
from headrace.verify.expressions import Compiler
from headrace.verify.tdengine.decimals import arithmetic_type, exact_arithmetic
from headrace.verify.values import FLOATS, Value, constant, duck_type, float_sql, instant, quoted, unsupported

NUMBER_AT_START: Final = r"^\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
FRACTIONS: Final = (*FLOATS, TypeKind.DECIMAL)


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
    if value.is_kind(TypeKind.DECIMAL):
        return f"TRY_CAST(round({value.sql}, 0) AS BIGINT)"
    if value.is_kind(*FRACTIONS, *TEXTS):
        return f"TRY_CAST(trunc({to_double(value)}) AS BIGINT)"
    return f"TRY_CAST({value.sql} AS BIGINT)"


def to_bits(value: Value) -> str:
    """Convert to BIGINT for a bitwise operator: BIGINT UNSIGNED to the number that has the same bits."""
    if not value.is_kind(TypeKind.UBIGINT):
        return to_bigint(value)
    wide = f"CAST({value.sql} AS HUGEINT)"
    return f"CAST(CASE WHEN {wide} >= {2**63} THEN {wide} - {2**64} ELSE {wide} END AS BIGINT)"


def to_text(value: Value) -> str:
    if value.is_kind(TypeKind.VARBINARY):
        raise unsupported(f"{value.type} as text")
    if value.is_kind(*FLOATS):
        digits = 6 if value.is_kind(TypeKind.FLOAT) else 15
        return f"printf('%.{digits}g', {to_double(value)})"
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


def to_instant(compiler: Compiler, value: Value, *, lenient: bool = False) -> Value:
    """Convert a value to a timestamp: text must be constant, numbers are ticks."""
    if value.is_instant or value.type is None:
        return value
    if value.is_text:
        if not isinstance(value.constant, str):
            raise unsupported("text of a column as a timestamp")
        ticks = parse_instant(value.constant, compiler.timezone, compiler.precision)
        if ticks is None and not lenient:
            raise unsupported(f"the timestamp {value.constant!r}")
        return Value("CAST(NULL AS BIGINT)", TIMESTAMP) if ticks is None else instant(ticks)
    if isinstance(value.constant, int | float | Decimal):
        return instant(int(value.constant))
    return Value(to_bigint(value), TIMESTAMP)


def common_type(types: Sequence[DataType | None]) -> DataType | None:
    """Return the type that can hold values of all types: text, else instants, else integers, else DECIMAL, else DOUBLE."""
    distinct = list(dict.fromkeys(type_ for type_ in types if type_ is not None))
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    if any(type_.kind in TEXTS for type_ in distinct):
        return VARCHAR
    if TIMESTAMP in distinct:
        return TIMESTAMP
    if not all(type_.is_integer or type_.kind in (TypeKind.BOOL, TypeKind.DECIMAL) for type_ in distinct):
        return DOUBLE
    if all(type_.kind in UNSIGNED for type_ in distinct):
        return UBIGINT if UBIGINT in distinct else BIGINT
    if UBIGINT not in distinct and not any(type_.kind is TypeKind.DECIMAL for type_ in distinct):
        return BIGINT
    scale = max(type_.scale or 0 for type_ in distinct)
    digits = max(_digits(type_) - (type_.scale or 0) for type_ in distinct) + scale
    return DataType(TypeKind.DECIMAL, digits, scale) if digits <= 38 else DOUBLE


def _digits(type_: DataType) -> int:
    """Return how many digits a type has as a DECIMAL."""
    if type_.kind is TypeKind.DECIMAL:
        return type_.length or 38
    return {8: 3, 16: 5, 32: 10, 64: 20}[INTEGER_BITS[type_.kind]] if type_.is_integer else 1


def as_written(value: Value, type_: DataType) -> str:
    """Return a constant in the type that it is compared with, a number for DECIMAL with all its digits."""
    match value.constant:
        case None | bool() | bytes():
            return value.sql
        case str(text) if type_.kind is TypeKind.VARBINARY:
            content = bytes.fromhex(text[2:]) if text.lower().startswith("\\x") else text.encode()
            return constant(content).sql
        case written:
            number = re.match(NUMBER_AT_START, str(written))
            digits = Decimal(number[1] if number else 0)
    if type_.kind is TypeKind.DECIMAL:
        whole, scale = max(digits.adjusted() + 1, 1), max(0, -int(digits.as_tuple().exponent))
        if whole + scale > 38:
            raise unsupported(f"a DECIMAL compared with {digits}")
        return f"CAST('{digits:f}' AS DECIMAL({whole + scale}, {scale}))"
    return float_sql(float(digits))


def decimal_arithmetic(sign: str, left: Value, right: Value) -> Value:
    """Compile `+ - * / %` of DECIMAL and other numbers."""
    if not all(value.type is not None and (value.type.is_integer or value.is_kind(TypeKind.DECIMAL)) for value in (left, right)):
        divisor = f"nullif({to_double(right)}, 0)" if sign in "/%" else to_double(right)
        return Value(f"({to_double(left)} {sign} {divisor})", DOUBLE)
    assert left.type is not None
    assert right.type is not None
    first, second = ((_digits(type_), type_.scale or 0) for type_ in (left.type, right.type))
    return exact_arithmetic(sign, left, right, arithmetic_type(sign, first, second))


def convert(value: Value, type_: DataType) -> str:
    """Convert a value to a type that `common_type` returned."""
    if value.type is None:
        return f"CAST(NULL AS {duck_type(type_)})"
    if type_.kind in TEXTS:
        return to_text(value)
    return to_double(value) if type_ == DOUBLE else cast(value, type_)


def unify(values: Sequence[Value]) -> tuple[DataType | None, list[str]]:
    type_ = common_type([value.type for value in values])
    return type_, [] if type_ is None else [convert(value, type_) for value in values]


def compile_cast(compiler: Compiler, value: Value, type_: DataType) -> Value:
    """Compile CAST; an invalid value becomes NULL."""
    if type_.kind is TypeKind.TIMESTAMP and value.is_text:
        return to_instant(compiler, value, lenient=True)
    return Value(_cast_or_null(value, type_), type_)


def _cast_or_null(value: Value, type_: DataType) -> str:
    if value.type is None:
        return f"CAST(NULL AS {duck_type(type_)})"
    match type_.kind:
        case TypeKind.VARCHAR | TypeKind.NCHAR:
            return _truncated(to_text(value), type_)
        case TypeKind.BOOL:
            return to_bool(value)
        case TypeKind.TIMESTAMP:
            return to_bigint(value)
        case TypeKind.FLOAT | TypeKind.DOUBLE:
            return f"CAST({to_double(value)} AS {duck_type(type_)})"
        case kind if kind in INTEGER_BITS:
            is_unsigned = value.is_kind(TypeKind.UBIGINT) and kind in UNSIGNED
            return f"TRY_CAST({value.sql if is_unsigned else to_bigint(value)} AS {duck_type(type_)})"
        case TypeKind.DECIMAL if value.is_constant:
            return f"TRY_CAST({as_written(value, type_)} AS {duck_type(type_)})"
        case _:
            raise unsupported(f"CAST of {value.type} to {type_}")


def _truncated(sql: str, type_: DataType) -> str:
    """Truncate text to its declared length: NCHAR in characters, VARCHAR in bytes, of which only complete characters remain."""
    if type_.length is None:
        return sql
    if type_.kind is TypeKind.NCHAR:
        return f"left({sql}, {type_.length})"
    prefixes = f"list_transform(range(0, {type_.length} + 1), lambda i: left({sql}, i))"
    longest = f"list_max(list_filter({prefixes}, lambda p: strlen(p) <= {type_.length}))"
    return f"CASE WHEN strlen({sql}) <= {type_.length} THEN {sql} ELSE {longest} END"
