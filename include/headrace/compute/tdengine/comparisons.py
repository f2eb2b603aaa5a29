"""Comparisons of the TDengine language: a constant takes the type of what it is compared with."""

from __future__ import annotations

import struct
from typing import Final

from headrace.compute.nodes import Node, Value, call, double
from headrace.compute.tdengine.conversions import text_to_bool, to_real
from headrace.compute.tdengine.decimals import compare_with_constant, constant_number
from headrace.compute.terms import Term, cast, literal
from headrace.compute.types import is_text
from headrace.errors import TypeMismatchError
from headrace.model.types import BOOL, DataType, TypeKind
from headrace.storage.values.scalars import InvalidValueError, to_bytes

COMPARISONS: Final = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
EPSILON: Final = 2.0**-23
"""A FLOAT and a DOUBLE are equal if they differ by less."""
VARBINARY: Final = DataType(TypeKind.VARBINARY)


def comparison(sign: str, left: Term, right: Term) -> Term:
    """Return a comparison of terms, of which both are timestamps or neither is."""
    sign = COMPARISONS[sign]
    if right.constant is None and left.constant is not None:
        left, right, sign = right, left, MIRRORED[sign]
    kind = left.type.kind if left.type is not None else None
    number = constant_number(right)
    if kind is TypeKind.DECIMAL and number is not None:
        return Term(compare_with_constant(sign, left, number), BOOL)
    if kind is TypeKind.FLOAT and number is not None:
        right = literal(to_float32(float(number)))
    elif right.type is not None and {kind, right.type.kind} == {TypeKind.FLOAT, TypeKind.DOUBLE} and right.constant is None:
        return Term(compare_nearly(sign, to_real(left) - to_real(right)), BOOL)
    first, second = to_comparable(left, right)
    return Term(call(sign, first, second), BOOL)


def to_float32(value: float) -> float:
    """Return the FLOAT nearest to a number."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def compare_nearly(sign: str, difference: Node) -> Node:
    """Compare a FLOAT and a DOUBLE, of which the one is rarely exactly the other."""
    match sign:
        case "=" | "<>":
            return call("<" if sign == "=" else ">=", call("abs", difference), double(EPSILON))
        case "<" | ">=":
            return call("<=" if sign == "<" else ">", difference, double(-EPSILON))
    return call("<" if sign == "<=" else ">=", difference, double(EPSILON))


def to_comparable(left: Term, right: Term) -> tuple[Node, Node]:
    """Convert two terms to types that Spark compares without a cast that could fail."""
    if left.type is None or right.type is None:
        return left.node, right.node
    first, second = left.type.kind, right.type.kind
    if TypeKind.VARBINARY in (first, second):
        return as_bytes(left), as_bytes(right)
    if is_text(left.type) and is_text(right.type):
        return left.node, right.node
    if is_text(left.type) or is_text(right.type):
        return match_text(left, right)
    if (first is TypeKind.BOOL) != (second is TypeKind.BOOL):
        return as_number(left), as_number(right)
    return left.node, right.node


def as_bytes(term: Term) -> Node:
    r"""Convert text to VARBINARY; a constant may have bytes as `\x…`."""
    if term.type is None or not (is_text(term.type) or term.type.kind is TypeKind.VARBINARY):
        raise TypeMismatchError(f"VARBINARY cannot be compared with {term.type}", hint=r"write bytes as '\x0aff'")
    if not isinstance(term.constant_value, str):
        return cast(term, VARBINARY)
    try:
        return Value(to_bytes(term.constant_value), "binary")
    except InvalidValueError as error:
        raise TypeMismatchError(f"{term.constant_value!r} is no VARBINARY", hint=f"write {error}") from None


def as_number(term: Term) -> Node:
    return cast(term, DataType(TypeKind.INT)) if term.type == BOOL else term.node


def match_text(left: Term, right: Term) -> tuple[Node, Node]:
    """Convert a text and a value of another type: to BOOL if that is one, else to DOUBLE."""
    if BOOL not in (left.type, right.type):
        return to_real(left), to_real(right)
    first, second = (term.node if term.type == BOOL else text_to_bool(term) for term in (left, right))
    return first, second
