"""IoTDB's `CAST`. A value that cannot be converted is an error of the query, as in the server."""

from __future__ import annotations

from typing import Final

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.iotdb.types import BLOB, BOOLEAN, DATE, FLOATING, INT32, INT64, TEXT, TEXTUAL
from headrace.compute.nodes import NULL, Node, call, double, if_, integer, string
from headrace.compute.terms import Term, cast, to_string
from headrace.compute.types import spark_type
from headrace.model.types import DataType, TypeKind

MAX_INT64: Final = 9.223372036854775e18


def convert_to(term: Term, type_: DataType, _: ExpressionContext) -> Term:
    """Convert a term to a type. Instants convert as ticks, dates as numbers such as 20240131."""
    if term.type is None:
        return Term(NULL.cast(spark_type(type_)), type_)
    if term.type.kind is type_.kind:
        return Term(term.node, type_)
    kind = type_.kind
    if term.type.kind is TypeKind.VARBINARY:
        term = Term(as_text(term), TEXT)
    if kind in TEXTUAL:
        return Term(as_text(term), type_)
    if kind is TypeKind.BOOL:
        return Term(as_boolean(term), BOOLEAN)
    if kind in (TypeKind.INT, TypeKind.BIGINT, TypeKind.TIMESTAMP):
        return Term(as_integer(term, type_), type_)
    if kind in FLOATING:
        return Term(as_floating(term, type_), type_)
    if kind is TypeKind.DATE:
        return Term(as_date(term), DATE)
    return Term(as_text(term).cast("binary"), BLOB)


def raise_if_null(sql: Node, source: Node, type_: DataType, message: Node) -> Node:
    """Wrap a conversion so that it raises `message` if a value cannot be converted."""
    return call("coalesce", sql, if_(source.is_null(), NULL, raise_error(message, type_)))


def raise_error(message: Node, type_: DataType) -> Node:
    """Return a value of a type that fails the query when it is evaluated."""
    return call("raise_error", message).cast(spark_type(type_))


def quoted_input(sql: Node) -> Node:
    return call("concat", string('301: For input string: "'), sql, string('"'))


def as_text(term: Term) -> Node:
    """Convert to TEXT; a date becomes its digits, such as 20240131, and bytes that are no text their hexadecimal digits."""
    if term.type is not None and term.type.kind is TypeKind.DATE:
        return call("date_format", term.node, string("yyyyMMdd"))
    if term.type is not None and term.type.kind is TypeKind.VARBINARY:
        text = term.node.cast("string")
        return if_(call("is_valid_utf8", text), text, call("concat", string("0x"), call("lower", call("hex", term.node))))
    return to_string(term)


def as_boolean(term: Term) -> Node:
    """Return whether a number, an instant or a date is not 0; of text only `true` and `false` in any case."""
    assert term.type is not None
    if term.type.kind not in TEXTUAL:
        return call("<>", as_number(term), integer(0))
    message = call("concat", string("301: Invalid text input for boolean type: "), term.node)
    return raise_if_null(call("parse_boolean", term.node), term.node, BOOLEAN, message)


def as_integer(term: Term, type_: DataType) -> Node:
    """Return a whole number; fractions are rounded, halves up, and NaN is 0."""
    assert term.type is not None
    target = INT32 if type_.kind is TypeKind.INT else INT64
    name, kind = spark_type(target), term.type.kind
    if kind is TypeKind.BOOL:
        return term.node.cast(name)
    if kind in (TypeKind.INT, TypeKind.DATE) or (kind in (TypeKind.BIGINT, TypeKind.TIMESTAMP) and target is INT64):
        return as_number(term).cast(name)
    if kind in TEXTUAL:
        number = if_(call("matches", term.node, string("^[+-]?[0-9]+$")), term.node.try_cast(name), NULL)
        return raise_if_null(number, term.node, target, quoted_input(term.node))
    source = {TypeKind.BIGINT: "long", TypeKind.TIMESTAMP: "long"}.get(kind, kind.value.lower())
    value = (
        term.node
        if kind not in FLOATING
        else if_(call("isnan", term.node), double(0), call("floor", within_bigint(term) + double(0.5)))
    )
    message = out_of_range(source, term.node, "integer" if target is INT32 else "long")
    return raise_if_null(value.try_cast(name), term.node, target, message)


def out_of_range(kind: str, source: Node, target: str) -> Node:
    return call("concat", string(f"301: {kind} value "), source, string(f" is out of range of {target} value."))


def within_bigint(term: Term) -> Node:
    """Return a number, or NULL if it is outside the range of BIGINT."""
    value = term.node.cast("double")
    return if_(call("abs", value) <= double(MAX_INT64), value, NULL)


def as_number(term: Term) -> Node:
    return call("date_format", term.node, string("yyyyMMdd")).cast("int") if term.type == DATE else term.node


def as_floating(term: Term, type_: DataType) -> Node:
    """Convert to FLOAT or DOUBLE. Text that is not a number, and a number out of range, raise an error when the query runs."""
    assert term.type is not None
    name = spark_type(type_)
    if term.type.kind in TEXTUAL:
        number = raise_if_null(call("trim", term.node).try_cast(name), term.node, type_, quoted_input(term.node))
        return raise_if_infinite(number, term.node, type_, "Text")
    number = as_number(term).cast(name)
    is_narrowed = term.type.kind is TypeKind.DOUBLE and type_.kind is TypeKind.FLOAT
    return raise_if_infinite(number, term.node, type_, "Double") if is_narrowed else number


def raise_if_infinite(number: Node, source: Node, type_: DataType, kind: str) -> Node:
    """Wrap a conversion so that it raises an error if the value is out of the range of FLOAT or DOUBLE."""
    infinite = call("abs", number).equals(string("Infinity").cast(spark_type(type_)))
    return if_(infinite, raise_error(out_of_range(kind, source, type_.kind.value.lower()), type_), number)


def as_date(term: Term) -> Node:
    text = term.node if term.type is not None and term.type.kind in TEXTUAL else cast(Term(term.node, term.type), INT64)
    digits = call("regexp_replace", text.cast("string"), string("[-/.]"), string(""))
    value = call("try_to_timestamp", digits, string("yyyyMMdd")).cast("date")
    return raise_if_null(value, term.node, DATE, call("concat", string("301: Invalid date format: "), term.node.cast("string")))
