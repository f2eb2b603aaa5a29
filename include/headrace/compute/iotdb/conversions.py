"""IoTDB's `CAST`. A value that cannot be converted is an error of the query, as in the server."""

from __future__ import annotations

from typing import Final

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.iotdb.types import BLOB, BOOLEAN, DATE, FLOATING, INT32, INT64, TEXT, TEXTUAL
from headrace.compute.nodes import NULL, Node, call, double, if_, integer, spark_sql, string, string_sql
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
    problem = spark_sql("CAST(raise_error({}) AS {})", message, spark_type(type_))
    return call("coalesce", sql, if_(source.is_null(), NULL, problem))


def quoted_input(sql: Node) -> Node:
    return spark_sql("concat('301: For input string: \"', {}, '\"')", sql)


def as_text(term: Term) -> Node:
    """Convert to TEXT; a date becomes its digits, such as 20240131, and bytes that are no text their hexadecimal digits."""
    if term.type is not None and term.type.kind is TypeKind.DATE:
        return spark_sql("date_format({}, 'yyyyMMdd')", term.node)
    if term.type is not None and term.type.kind is TypeKind.VARBINARY:
        text = term.node.cast("string")
        return spark_sql("if(is_valid_utf8({text}), {text}, concat('0x', lower(hex({bytes}))))", text=text, bytes=term.node)
    return to_string(term)


def as_boolean(term: Term) -> Node:
    """Return whether a number, an instant or a date is not 0; of text only `true` and `false` in any case."""
    assert term.type is not None
    if term.type.kind not in TEXTUAL:
        return call("<>", as_number(term), integer(0))
    value = spark_sql("CASE lower({}) WHEN 'true' THEN true WHEN 'false' THEN false END", term.node)
    return raise_if_null(
        value, term.node, BOOLEAN, spark_sql("concat('301: Invalid text input for boolean type: ', {})", term.node)
    )


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
        number = spark_sql("if({} RLIKE '^[+-]?[0-9]+$', try_cast({} AS {}), NULL)", term.node, term.node, name)
        return raise_if_null(number, term.node, target, quoted_input(term.node))
    source = {TypeKind.BIGINT: "long", TypeKind.TIMESTAMP: "long"}.get(kind, kind.value.lower())
    value = (
        term.node
        if kind not in FLOATING
        else if_(call("isnan", term.node), double(0), call("floor", within_bigint(term) + double(0.5)))
    )
    message = spark_sql(
        "concat('301: {} value ', {}, ' is out of range of {} value.')", source, term.node, "integer" if target is INT32 else "long"
    )
    return raise_if_null(value.try_cast(name), term.node, target, message)


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
    message = spark_sql("concat('301: {} value ', {}, ' is out of range of {} value.')", kind, source, type_.kind.value.lower())
    infinite = spark_sql("abs({}) = CAST('Infinity' AS {})", number, spark_type(type_))
    return spark_sql("if({}, CAST(raise_error({}) AS {}), {})", infinite, message, spark_type(type_), number)


def as_date(term: Term) -> Node:
    text = term.node if term.type is not None and term.type.kind in TEXTUAL else cast(Term(term.node, term.type), INT64)
    digits = spark_sql("regexp_replace(CAST({} AS STRING), '[-/.]', '')", text)
    value = spark_sql("CAST(try_to_timestamp({}, 'yyyyMMdd') AS DATE)", digits)
    return raise_if_null(
        value, term.node, DATE, spark_sql("concat({}, CAST({} AS STRING))", string_sql("301: Invalid date format: "), term.node)
    )
