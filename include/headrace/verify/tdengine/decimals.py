"""Arithmetic of DECIMAL with all digits, also with more than DuckDB has."""

from __future__ import annotations

from contextlib import suppress
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, localcontext
from typing import Any, Final, cast

from duckdb import DuckDBPyConnection, NotImplementedException

from headrace.model.types import DataType, TypeKind
from headrace.verify.values import Value, duck_type

FUNCTION: Final = "exact_decimal"
TRUNC: Final = "trunc"
MAX_DIGITS: Final = 38
MIN_SCALE: Final = 6
"""Digits after the point that remain if a result has too many digits."""


def create_decimal_function(connection: DuckDBPyConnection) -> None:
    text, number = connection.dtype("VARCHAR"), connection.dtype("INTEGER")
    with suppress(NotImplementedException):  # it exists
        connection.create_function(FUNCTION, exact_decimal, [text, text, text, number], text, null_handling=cast(Any, "special"))


def exact_decimal(first: str | None, sign: str, second: str | None, scale: int) -> str | None:
    """Return `first sign second`, rounded to some digits after the point, or the first one cut; NULL if the divisor is 0."""
    if first is None or second is None:
        return None
    with localcontext(prec=200, rounding=ROUND_HALF_UP):
        left, right, unit = Decimal(first), Decimal(second), Decimal(1).scaleb(-scale)
        if sign == TRUNC:
            return format(left.quantize(unit, ROUND_DOWN), "f")
        if sign in "/%" and right == 0:
            return None
        results = {"+": left.__add__, "-": left.__sub__, "*": left.__mul__, "/": left.__truediv__, "%": left.__mod__}
        return format(results[sign](right).quantize(unit), "f")


def arithmetic_type(sign: str, left: tuple[int, int], right: tuple[int, int]) -> DataType:
    """Return the DECIMAL of `left sign right`, by the numbers of digits and of digits after the point."""
    (digits, scale), (other_digits, other_scale) = left, right
    wholes, longer = (digits - scale, other_digits - other_scale), max(scale, other_scale)
    length, result_scale = {
        "*": (digits + other_digits + 1, scale + other_scale),
        "/": (wholes[0] + other_scale + max(6, scale + other_digits + 1), max(6, scale + other_digits + 1)),
        "%": (min(wholes) + longer, longer),
    }.get(sign, (max(wholes) + longer + 1, longer))
    if length > MAX_DIGITS:
        result_scale = max(MAX_DIGITS - (length - result_scale), min(result_scale, MIN_SCALE))
    return DataType(TypeKind.DECIMAL, min(length, MAX_DIGITS), result_scale)


def exact_arithmetic(sign: str, left: Value, right: Value, type_: DataType) -> Value:
    first, second = (f"CAST({value.sql} AS VARCHAR)" for value in (left, right))
    return Value(f"CAST({FUNCTION}({first}, '{sign}', {second}, {type_.scale}) AS {duck_type(type_)})", type_)


def exact_truncation(value: Value, digits: int) -> Value:
    assert value.type is not None
    call = f"{FUNCTION}(CAST({value.sql} AS VARCHAR), '{TRUNC}', '0', {digits})"
    return Value(f"CAST({call} AS {duck_type(value.type)})", value.type)
