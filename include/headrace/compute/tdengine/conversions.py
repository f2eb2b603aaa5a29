"""TDengine's `CAST` as Spark SQL that never fails."""

from __future__ import annotations

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.nodes import NULL, Node, both, call, double, if_, integer
from headrace.compute.tdengine.operators import text_to_bool, to_real, to_whole
from headrace.compute.terms import Term, cast, integer_literal, to_string
from headrace.compute.types import is_text, spark_type
from headrace.errors import TypeMismatchError
from headrace.model.types import TIMESTAMP, UNSIGNED, DataType, TypeKind


def convert_to(term: Term, type_: DataType, expression_context: ExpressionContext) -> Term:
    """Cast a term to a declared type. Fractions and long text are truncated, and an invalid value becomes NULL."""
    if term.type is None:
        return Term(NULL.cast(spark_type(type_)), type_)
    if term.type.kind is TypeKind.VARBINARY and type_.kind not in (TypeKind.VARBINARY, TypeKind.VARCHAR):
        raise TypeMismatchError(f"{term.type} cannot be cast to {type_}")
    if type_.kind in (TypeKind.VARCHAR, TypeKind.NCHAR):
        return Term(truncate_text(to_string(term), type_), type_)
    if type_.kind is TypeKind.BOOL:
        return Term(as_bool(term), type_)
    if type_.kind is TypeKind.TIMESTAMP:
        return Term(as_timestamp(term, expression_context), TIMESTAMP)
    if type_.is_integer:
        return Term(as_integer(term, type_), type_)
    if type_.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return Term(to_real(term).cast(spark_type(type_)), type_)
    if type_.kind is TypeKind.DECIMAL:
        return Term(term.node.try_cast(spark_type(type_)), type_)
    if type_.kind is TypeKind.VARBINARY and (is_text(term.type) or term.type.kind is TypeKind.VARBINARY):
        return Term(cast(term, type_), type_)
    raise TypeMismatchError(f"{term.type} cannot be cast to {type_}")


def truncate_text(sql: Node, type_: DataType) -> Node:
    """Truncate text to the length of its type: NCHAR in characters, VARCHAR in bytes, of which only complete characters remain."""
    if type_.length is None:
        return sql
    if type_.kind is TypeKind.NCHAR:
        return call("left", sql, integer(type_.length))
    return call("left_bytes", sql, integer(type_.length))


def as_bool(term: Term) -> Node:
    if term.type is not None and is_text(term.type):
        return text_to_bool(term)
    return (
        cast(term, DataType(TypeKind.BOOL))
        if term.type and term.type.kind is TypeKind.BOOL
        else call("<>", to_real(term), double(0))
    )


def as_timestamp(term: Term, expression_context: ExpressionContext) -> Node:
    """Convert a term to ticks. Numbers are ticks; text is parsed in the zone of the statement."""
    if term.type is not None and is_text(term.type):
        return expression_context.text_to_ticks(term.node)
    return to_whole(term)


def as_integer(term: Term, type_: DataType) -> Node:
    """Convert a term to an integer type, NULL if out of range."""
    if term.type is not None and term.type.kind is type_.kind:
        return term.node
    value = to_whole(term).try_cast(spark_type(type_))
    if type_.kind not in UNSIGNED:
        return value
    # Unsigned types are stored in wider signed ones, which do not enforce their range.
    minimum, maximum = type_.integer_range()
    return if_(both(value >= integer_literal(minimum).node, value <= integer_literal(maximum).node), value, NULL)
