"""DECIMAL: the types of results, and comparisons with constants, which are exact."""

from __future__ import annotations

import re
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import Final

from headrace.compute.nodes import FALSE, NULL, TRUE, Node, call, if_, integer, string
from headrace.compute.terms import Term
from headrace.compute.types import spark_type
from headrace.model.decimals import to_decimal
from headrace.model.types import DataType, TypeKind

DECIMAL_DIGITS: Final = 38
NUMBER: Final = re.compile(r"\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
ROUNDED_DIGITS: Final = 34
MIN_SCALE: Final = 6
"""How many digits after the point remain at least if a result has too many digits."""
DIGITS: Final = {
    TypeKind.BOOL: 1,
    TypeKind.TINYINT: 3,
    TypeKind.UTINYINT: 3,
    TypeKind.SMALLINT: 5,
    TypeKind.USMALLINT: 5,
    TypeKind.INT: 10,
    TypeKind.UINT: 10,
    TypeKind.BIGINT: 20,
    TypeKind.UBIGINT: 20,
}


def decimal_type(digits: int, scale: int) -> DataType:
    """Return the type of a result; if it has more digits than a DECIMAL, those after the point are cut to six at least."""
    if digits > DECIMAL_DIGITS:
        scale = max(DECIMAL_DIGITS - (digits - scale), min(scale, MIN_SCALE))
    return DataType(TypeKind.DECIMAL, min(digits, DECIMAL_DIGITS), scale)


def decimal_of(type_: DataType) -> DataType | None:
    """Return the DECIMAL that holds the values of an exact type; None for other types."""
    if type_.kind is TypeKind.DECIMAL:
        return DataType(TypeKind.DECIMAL, type_.length or DECIMAL_DIGITS, type_.scale or 0)
    return DataType(TypeKind.DECIMAL, DIGITS[type_.kind], 0) if type_.kind in DIGITS else None


def result_type(sign: str, left: DataType, right: DataType) -> DataType:
    """Return the type of `left sign right`, both of type DECIMAL."""
    digits, scale, other_digits, other_scale = left.length or 0, left.scale or 0, right.length or 0, right.scale or 0
    whole, other_whole, longer = digits - scale, other_digits - other_scale, max(scale, other_scale)
    match sign:
        case "*":
            return decimal_type(digits + other_digits + 1, scale + other_scale)
        case "/":
            fraction = max(MIN_SCALE, scale + other_digits + 1)
            return decimal_type(whole + other_scale + fraction, fraction)
        case "%":
            return decimal_type(min(whole, other_whole) + longer, longer)
    return decimal_type(max(whole, other_whole) + longer + 1, longer)


def arithmetic_type(sign: str, left: Term, right: Term) -> DataType | None:
    """Return the type of arithmetic of a DECIMAL with another one or with integers; None for other operands."""
    if left.type is None or right.type is None or TypeKind.DECIMAL not in (left.type.kind, right.type.kind):
        return None
    first, second = decimal_of(left.type), decimal_of(right.type)
    return None if first is None or second is None else result_type(sign, first, second)


def as_decimal(term: Term) -> Node:
    """Return a term of an exact type as DECIMAL."""
    assert term.type is not None
    type_ = decimal_of(term.type)
    assert type_ is not None
    return term.node if term.type.kind is TypeKind.DECIMAL else term.node.cast(spark_type(type_))


def decimal_arithmetic(sign: str, left: Term, right: Term, type_: DataType) -> Term:
    """Return `+ - * / %`, NULL if the divisor is 0. A result out of range fails the query."""
    first, second = as_decimal(left), as_decimal(right)
    divisor = call("nullif", second, string("0").cast("decimal(1,0)")) if sign in "/%" else second
    return Term(call(sign, first, divisor).cast(spark_type(type_)), type_)


def opposite(term: Term) -> Node:
    """Return minus a DECIMAL. Spark rounds that of one with more than 34 digits, so its sign is written."""
    assert term.type is not None
    if (term.type.length or DECIMAL_DIGITS) <= ROUNDED_DIGITS:
        return -term.node
    text = term.node.cast("string")
    signed = if_(call("startswith", text, string("-")), call("substring", text, integer(2)), call("concat", string("-"), text))
    return signed.cast(spark_type(term.type))


def constant_number(term: Term) -> Decimal | None:
    """Return a constant as a number, by its digits as written; text counts as the number it begins with, or 0."""
    match term.constant_value:
        case str(text):
            match_ = NUMBER.match(text)
            return to_decimal(match_[1]) if match_ else Decimal(0)
        case bool() | bytes() | None:
            return None
        case float(number):
            return Decimal(repr(number))
        case number:
            return Decimal(number)


def compare_with_constant(sign: str, term: Term, constant: Decimal) -> Node:
    """Compare a DECIMAL with any number: a constant that its type lacks lies between two values of the type."""
    assert term.type is not None
    digits, scale = term.type.length or DECIMAL_DIGITS, term.type.scale or 0
    with localcontext(prec=1000):
        unit = Decimal(1).scaleb(-scale)
        greatest = Decimal(10) ** (digits - scale) - unit
        below = min(constant, greatest).quantize(unit, ROUND_FLOOR) if constant >= -greatest else None

    def value(number: Decimal) -> Node:
        return string(format(number, "f")).cast(spark_type(term.type or DataType(TypeKind.DECIMAL)))

    if below is not None and below == constant:
        return call(sign, term.node, value(below))
    if sign in ("=", "<>"):
        return if_(term.node.is_null(), NULL, FALSE if sign == "=" else TRUE)
    if below is None:
        return term.node < value(-greatest) if sign in ("<", "<=") else term.node >= value(-greatest)
    return term.node <= value(below) if sign in ("<", "<=") else term.node > value(below)
