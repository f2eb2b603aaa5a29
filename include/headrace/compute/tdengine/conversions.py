"""How the TDengine language converts values: `CAST`, implicit conversions, and the common type of several values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.functions.arrow import ArrowScalarRule, scalar_term
from headrace.compute.nodes import NULL, TRUE, Node, both, call, case, double, if_, integer, string
from headrace.compute.tdengine.decimals import DECIMAL_DIGITS, constant_number, decimal_of
from headrace.compute.terms import Term, cast, integer_literal, to_double, to_string
from headrace.compute.types import is_text, spark_type
from headrace.errors import TypeMismatchError
from headrace.model.types import BIGINT, DOUBLE, FLOATS, TIMESTAMP, UBIGINT, UNSIGNED, VARCHAR, DataType, TypeKind

if TYPE_CHECKING:
    import pyarrow as pa

NUMBER_TEXT: Final = r"^\s*([+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)"
SIGNIFICANT_DIGITS: Final = {TypeKind.FLOAT: 6, TypeKind.DOUBLE: 15}
"""How many digits a number has as text."""


def check_number(term: Term) -> None:
    """Raise `TypeMismatchError` for bytes, which are no number."""
    if term.type is not None and term.type.kind in (TypeKind.VARBINARY, TypeKind.GEOMETRY):
        raise TypeMismatchError(f"a number is needed, not {term.type}", hint="cast it to VARCHAR first")


def to_real(term: Term) -> Node:
    """Convert a term to DOUBLE. Text counts as the number it begins with, or 0. Raise `TypeMismatchError` for bytes."""
    check_number(term)
    if term.type is not None and is_text(term.type):
        number = call("regexp_extract", term.node, string(NUMBER_TEXT), integer(1))
        return if_(term.node.is_null(), NULL, call("coalesce", number.try_cast("double"), double(0)))
    return to_double(term)


def to_whole(term: Term) -> Node:
    """Convert a term to BIGINT, NULL if out of range. Fractions are truncated, those of DECIMAL rounded.

    Raises:
        TypeMismatchError: It has bytes.
    """
    check_number(term)
    if term.type is None:
        return NULL.cast("bigint")
    if is_text(term.type):
        return to_real(term).try_cast("bigint")
    if term.type.kind is TypeKind.DECIMAL:
        return call("round", term.node, integer(0)).try_cast("bigint")
    if term.type.kind in (*FLOATS, TypeKind.UBIGINT):
        return term.node.try_cast("bigint")
    return cast(term, BIGINT)


def to_bits(term: Term) -> Node:
    """Convert a term to BIGINT for a bitwise operator: BIGINT UNSIGNED to the number that has the same bits."""
    if term.type is None or term.type.kind is not TypeKind.UBIGINT:
        return to_whole(term)
    half, whole = integer_literal(2**63).node, string(str(2**64)).cast(spark_type(UBIGINT))
    return if_(term.node >= half, term.node - whole, term.node).try_cast("bigint")


def truth(term: Term) -> Node:
    """Convert a term to a condition. Numbers are true unless they are 0."""
    if term.type is None:
        return NULL.cast("boolean")
    if term.type.kind is TypeKind.BOOL:
        return term.node
    return call("<>", to_real(term), double(0))


def text_to_bool(term: Term) -> Node:
    """Convert text to BOOLEAN: `true` in any case, or a number that is not 0."""
    is_true = call("lower", term.node).equals(string("true"))
    return case([(term.node.is_null(), NULL), (is_true, TRUE)], call("<>", to_real(term), double(0)))


def to_text(term: Term) -> Node:
    """Convert a term to text: FLOAT and DOUBLE as C does, with 6 and 15 digits, such as 0.1, 5 and 1e+15.

    Python does so too. Spark would round the shortest text of a number once more.
    """
    if term.type is None or term.type.kind not in FLOATS:
        return to_string(term)
    digits = SIGNIFICANT_DIGITS[term.type.kind]
    rule = ArrowScalarRule(f"headrace_text_{digits}", VARCHAR, partial(number_texts, digits))
    return scalar_term(rule, (Term(term.node.cast("double"), DOUBLE),)).node


def number_texts(digits: int, numbers: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.array([None if number is None else f"{number:.{digits}g}" for number in numbers.to_pylist()], pa.string())


def common_type(types: Sequence[DataType | None]) -> DataType | None:
    """Return the type that holds the values of all types: text, else an instant, else DOUBLE, else DECIMAL if need be."""
    distinct = list(dict.fromkeys(type_ for type_ in types if type_ is not None))
    if len(distinct) <= 1:
        return distinct[0] if distinct else None
    if any(is_text(type_) for type_ in distinct):
        return next((type_ for type_ in distinct if type_.kind is TypeKind.NCHAR), VARCHAR)
    if any(type_.kind is TypeKind.TIMESTAMP for type_ in distinct):
        return TIMESTAMP
    if all(type_.kind in UNSIGNED for type_ in distinct):
        return UBIGINT if UBIGINT in distinct else BIGINT
    decimals = [decimal for type_ in distinct if (decimal := decimal_of(type_)) is not None]
    if len(decimals) < len(distinct):
        return DOUBLE
    if UBIGINT not in distinct and all(type_.kind is not TypeKind.DECIMAL for type_ in distinct):
        return BIGINT
    scale = max(decimal.scale or 0 for decimal in decimals)
    digits = max((decimal.length or 0) - (decimal.scale or 0) for decimal in decimals) + scale
    return DataType(TypeKind.DECIMAL, digits, scale) if digits <= DECIMAL_DIGITS else DOUBLE


def convert(term: Term, type_: DataType) -> Node:
    """Convert a term to a type returned by `common_type`."""
    if term.type is None:
        return NULL.cast(spark_type(type_))
    if is_text(type_):
        return to_text(term)
    if type_ == DOUBLE:
        return to_real(term)
    return cast(term, type_)


def convert_to(term: Term, type_: DataType, expression_context: ExpressionContext) -> Term:
    """Cast a term to a declared type. Fractions and long text are truncated, and an invalid value becomes NULL."""
    if term.type is None:
        return Term(NULL.cast(spark_type(type_)), type_)
    if term.type.kind is TypeKind.VARBINARY and type_.kind not in (TypeKind.VARBINARY, TypeKind.VARCHAR):
        raise TypeMismatchError(f"{term.type} cannot be cast to {type_}")
    if type_.kind in (TypeKind.VARCHAR, TypeKind.NCHAR):
        text = to_text(term)
        # Clients, files and other engines take it for granted that a text is UTF-8.
        text = call("make_valid_utf8", text) if term.type.kind is TypeKind.VARBINARY else text
        return Term(truncate_text(text, type_), type_)
    if type_.kind is TypeKind.BOOL:
        return Term(as_bool(term), type_)
    if type_.kind is TypeKind.TIMESTAMP:
        return Term(as_timestamp(term, expression_context), TIMESTAMP)
    if type_.is_integer:
        return Term(as_integer(term, type_), type_)
    if type_.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return Term(to_real(term).cast(spark_type(type_)), type_)
    if type_.kind is TypeKind.DECIMAL:
        return Term(exact_value(term).try_cast(spark_type(type_)), type_)
    if type_.kind is TypeKind.VARBINARY and (is_text(term.type) or term.type.kind is TypeKind.VARBINARY):
        return Term(cast(term, type_), type_)
    raise TypeMismatchError(f"{term.type} cannot be cast to {type_}")


def exact_value(term: Term) -> Node:
    """Return what is cast to a DECIMAL: a constant by its digits as written."""
    if term.type is not None and is_text(term.type):
        # Spark takes minutes for a text such as 1e-99999999.
        return if_(call("=", term.node.try_cast("double"), double(0)), string("0"), term.node)
    number = constant_number(term)
    return term.node if number is None else string(format(number, "f"))


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
