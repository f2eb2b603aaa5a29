"""What a column stores of a computed value: what `CAST` returns, or an error if the column cannot hold the value."""

from __future__ import annotations

from typing import Final

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.nodes import FALSE, NULL, TRUE, Node, Value, bigint, both, call, case, double, if_, integer, string
from headrace.compute.tdengine.conversions import NUMBER_TEXT, convert_to
from headrace.compute.terms import Term
from headrace.compute.types import double_to_number, is_text, spark_type
from headrace.model.types import FLOATS, MAX_LENGTHS, TIMESTAMP, DataType, TypeKind
from headrace.storage.values.scalars import tick_range

ONLY_NUMBER: Final = rf"{NUMBER_TEXT}\s*$"
DIGITS: Final = DataType(TypeKind.DECIMAL, 38, 10)


def assign(term: Term, type_: DataType, column: str, context: ExpressionContext) -> Term:
    """Convert a term for a column, as `CAST` does; a value that the column cannot hold is an error when it is computed.

    Raises:
        TypeMismatchError: No value of the term's type can be converted.
    """
    if term.type is None:
        return convert_to(term, type_, context)
    if is_same_type(term.type, type_):
        return term
    message = string(f" is not valid for {column}, which is {type_}")
    return Term(call("assigned", fitting(term, type_, context), term.node, message), type_)


def is_same_type(source: DataType, column: DataType) -> bool:
    """Return whether a column holds every value of a type as it is."""
    if source.kind is not column.kind:
        return False
    if source.kind is TypeKind.DECIMAL:
        return source == column
    length = MAX_LENGTHS.get(source.kind) if source.length is None else source.length
    return column.length is None or (length is not None and length <= column.length)


def fitting(term: Term, type_: DataType, context: ExpressionContext) -> Node:
    """Convert a term, to NULL if the value does not fit."""
    assert term.type is not None
    match type_.kind:
        case TypeKind.VARCHAR | TypeKind.NCHAR as kind:
            text = convert_to(term, DataType(kind), context).node
            return within_length(text, type_, "char_length" if kind is TypeKind.NCHAR else "octet_length")
        case TypeKind.VARBINARY:
            return within_length(convert_to(term, type_, context).node, type_, "octet_length")
        case TypeKind.TIMESTAMP:
            ticks, (low, high) = instant(term, context), tick_range(context.precision)
            return if_(both(ticks >= bigint(low), ticks <= bigint(high)), ticks, NULL)
        case _ if is_text(term.type) and (type_.is_number or type_.kind is TypeKind.BOOL):
            return parsed(term.node, type_)
        case TypeKind.UBIGINT if term.type.kind in FLOATS:
            number = double_to_number(term.node.cast("double"), type_)
            return if_(number >= integer(0), number, NULL)
        case TypeKind.UBIGINT if term.type.kind is TypeKind.DECIMAL:
            return in_range(call("round", term.node), type_)
    return finite(convert_to(term, type_, context).node, type_)


def instant(term: Term, context: ExpressionContext) -> Node:
    """Return ticks; text of digits has them, too, as in INSERT."""
    ticks = convert_to(term, TIMESTAMP, context).node
    if term.type is None or not is_text(term.type):
        return ticks
    digits = if_(call("matches", term.node, string("^-?[0-9]+$")), term.node.try_cast("bigint"), NULL)
    return call("coalesce", digits, ticks)


def within_length(value: Node, type_: DataType, measure: str) -> Node:
    return value if type_.length is None else if_(call("<=", call(measure, value), integer(type_.length)), value, NULL)


def parsed(text: Node, type_: DataType) -> Node:
    """Return the number that a text is, or its truth; NULL if it is none. `CAST` takes the number that it begins with, or 0."""
    number = if_(call("matches", text, string(ONLY_NUMBER)), call("trim", text), NULL)
    if type_.kind is TypeKind.BOOL:
        word = call("lower", call("trim", text))
        words = [(call("in", word, string(name), string(name[0])), value) for name, value in (("true", TRUE), ("false", FALSE))]
        return case(words, call("<>", number.try_cast("double"), double(0)))
    if type_.is_integer:
        # A DOUBLE would lose digits of a long number.
        digits = number.try_cast(spark_type(DIGITS))
        return in_range(if_(digits < integer(0), call("ceil", digits), call("floor", digits)), type_)
    if type_.kind is TypeKind.DECIMAL:
        return number.try_cast(spark_type(type_))
    return finite(number.try_cast("double").cast(spark_type(type_)), type_)


def in_range(whole: Node, type_: DataType) -> Node:
    """Convert a DECIMAL without a fraction to an integer type, to NULL if it is out of its range."""
    low, high = (Value(limit, "decimal(20,0)") for limit in type_.integer_range())
    return if_(call("between", whole, low, high), whole.try_cast(spark_type(type_)), NULL)


def finite(value: Node, type_: DataType) -> Node:
    """Return a number, NULL if FLOAT cannot hold it."""
    if type_.kind is not TypeKind.FLOAT:
        return value
    return if_(call("abs", value).equals(string("Infinity").cast("float")), NULL, value)
