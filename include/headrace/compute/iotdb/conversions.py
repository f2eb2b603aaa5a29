"""IoTDB's `CAST`. A value that cannot be converted is an error of the query, as in the server."""

from __future__ import annotations

from typing import Final

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.iotdb.types import (
    BLOB,
    BOOLEAN,
    DATE,
    FLOATING,
    INT32,
    INT64,
    TEXT,
    TEXTUAL,
)
from headrace.compute.terms import Term, cast, string_sql, to_string
from headrace.compute.types import spark_type
from headrace.model.types import DataType, TypeKind

MAX_INT64: Final = "9.223372036854775E18D"


def convert_to(term: Term, type_: DataType, _: ExpressionContext) -> Term:
    """Convert a term to a type. Instants convert as ticks, dates as numbers such as 20240131."""
    if term.type is None:
        return Term(f"CAST(NULL AS {spark_type(type_)})", type_)
    if term.type.kind is type_.kind:
        return Term(term.sql, type_)
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
    return Term(f"CAST({as_text(term)} AS BINARY)", BLOB)


def raise_if_null(sql: str, source: str, type_: DataType, message: str) -> str:
    """Wrap a conversion so that it raises `message` if a value cannot be converted."""
    problem = f"CAST(raise_error({message}) AS {spark_type(type_)})"
    return f"coalesce({sql}, if({source} IS NULL, NULL, {problem}))"


def quoted_input(sql: str) -> str:
    """Return the message of text that is no number."""
    return f"concat('301: For input string: \"', {sql}, '\"')"


def as_text(term: Term) -> str:
    """Convert to TEXT; a date becomes its digits, such as 20240131."""
    if term.type is not None and term.type.kind is TypeKind.DATE:
        return f"date_format({term.sql}, 'yyyyMMdd')"
    if term.type is not None and term.type.kind is TypeKind.VARBINARY:
        return f"make_valid_utf8(CAST({term.sql} AS STRING))"
    return to_string(term)


def as_boolean(term: Term) -> str:
    """Return whether a number, an instant or a date is not 0; of text only `true` and `false` in any case."""
    assert term.type is not None
    if term.type.kind not in TEXTUAL:
        return f"({as_number(term)} <> 0)"
    value = f"CASE lower({term.sql}) WHEN 'true' THEN true WHEN 'false' THEN false END"
    return raise_if_null(value, term.sql, BOOLEAN, f"concat('301: Invalid text input for boolean type: ', {term.sql})")


def as_integer(term: Term, type_: DataType) -> str:
    """Return a whole number; fractions are rounded, halves up, and NaN is 0."""
    assert term.type is not None
    target = INT32 if type_.kind is TypeKind.INT else INT64
    name, kind = spark_type(target), term.type.kind
    if kind is TypeKind.BOOL:
        return f"CAST({term.sql} AS {name})"
    if kind in (TypeKind.INT, TypeKind.DATE) or (kind in (TypeKind.BIGINT, TypeKind.TIMESTAMP) and target is INT64):
        return f"CAST({as_number(term)} AS {name})"
    if kind in TEXTUAL:
        number = f"if({term.sql} RLIKE '^[+-]?[0-9]+$', try_cast({term.sql} AS {name}), NULL)"
        return raise_if_null(number, term.sql, target, quoted_input(term.sql))
    source = {TypeKind.BIGINT: "long", TypeKind.TIMESTAMP: "long"}.get(kind, kind.value.lower())
    value = term.sql if kind not in FLOATING else f"if(isnan({term.sql}), 0D, floor({within_bigint(term)} + 0.5D))"
    message = f"concat('301: {source} value ', {term.sql}, ' is out of range of {'integer' if target is INT32 else 'long'} value.')"
    return raise_if_null(f"try_cast({value} AS {name})", term.sql, target, message)


def within_bigint(term: Term) -> str:
    """Return a number, or NULL if it is outside the range of BIGINT."""
    value = f"CAST({term.sql} AS DOUBLE)"
    return f"if(abs({value}) <= {MAX_INT64}, {value}, NULL)"


def as_number(term: Term) -> str:
    """Return a number as it is, and a date as the number of its digits, such as 20240131."""
    return f"CAST(date_format({term.sql}, 'yyyyMMdd') AS INT)" if term.type == DATE else term.sql


def as_floating(term: Term, type_: DataType) -> str:
    """Convert to FLOAT or DOUBLE. Text that is not a number, and a number out of range, raise an error when the query runs."""
    assert term.type is not None
    name = spark_type(type_)
    if term.type.kind in TEXTUAL:
        number = raise_if_null(f"try_cast(trim({term.sql}) AS {name})", term.sql, type_, quoted_input(term.sql))
        return raise_if_infinite(number, term.sql, type_, "Text")
    number = f"CAST({as_number(term)} AS {name})"
    is_narrowed = term.type.kind is TypeKind.DOUBLE and type_.kind is TypeKind.FLOAT
    return raise_if_infinite(number, term.sql, type_, "Double") if is_narrowed else number


def raise_if_infinite(number: str, source: str, type_: DataType, kind: str) -> str:
    """Wrap a conversion so that it raises an error if the value is out of the range of FLOAT or DOUBLE."""
    message = f"concat('301: {kind} value ', {source}, ' is out of range of {type_.kind.value.lower()} value.')"
    infinite = f"abs({number}) = CAST('Infinity' AS {spark_type(type_)})"
    return f"if({infinite}, CAST(raise_error({message}) AS {spark_type(type_)}), {number})"


def as_date(term: Term) -> str:
    """Convert a number such as 20240131, or its text, to a date."""
    text = term.sql if term.type is not None and term.type.kind in TEXTUAL else cast(Term(term.sql, term.type), INT64)
    digits = f"regexp_replace(CAST({text} AS STRING), '[-/.]', '')"
    value = f"CAST(try_to_timestamp({digits}, 'yyyyMMdd') AS DATE)"
    return raise_if_null(value, term.sql, DATE, f"concat({string_sql('301: Invalid date format: ')}, CAST({term.sql} AS STRING))")
