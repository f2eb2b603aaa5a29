"""TDengine's operators and `CAST`, with results that do not depend on the settings of the Spark session."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.nodes import FALSE, NULL, TRUE, Node, both, call, case, double, either, if_, integer, spark_sql, string
from headrace.compute.nodes import negated as inverted
from headrace.compute.terms import (
    Term,
    cast,
    instant_literal,
    integer_literal,
    is_instant,
    literal,
    shift_instant,
    to_double,
    to_string,
)
from headrace.compute.types import is_text, spark_type
from headrace.errors import TypeMismatchError
from headrace.model.instants import parse_instant
from headrace.model.time import Precision
from headrace.model.types import BIGINT, BOOL, DOUBLE, TIMESTAMP, UNSIGNED, VARCHAR, DataType, TypeKind

COMPARISONS: Final = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
NUMBER_TEXT: Final = r"^\\s*([+-]?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+)?)"


def timestamp(term: Term, zone: str, precision: Precision) -> Term:
    """Convert a constant text, a number or a timestamp to a timestamp."""
    if is_instant(term) or term.is_null:
        return term
    if term.type is not None and is_text(term.type):
        value = term.constant_value
        if not isinstance(value, str):
            raise TypeMismatchError(
                "a string column cannot be compared with a timestamp", hint="cast it: CAST(column AS TIMESTAMP)"
            )
        instant = parse_instant(value, zone, precision)
        if instant is None:
            raise TypeMismatchError(f"{value!r} is not a timestamp", hint="write it as '2024-01-31 12:00:00.000' or as epoch ticks")
        return instant_literal(instant)
    if isinstance(term.constant_value, float):
        return instant_literal(int(term.constant_value))
    return Term(cast(term, BIGINT), TIMESTAMP, term.constant)


def to_real(term: Term) -> Node:
    """Convert a term to DOUBLE. Text counts as the number it begins with, or 0."""
    if term.type is not None and is_text(term.type):
        number = spark_sql("regexp_extract({}, '{}', 1)", term.node, NUMBER_TEXT)
        return if_(term.node.is_null(), NULL, call("coalesce", number.try_cast("double"), double(0)))
    return to_double(term)


def to_whole(term: Term) -> Node:
    """Convert a term to BIGINT, truncating fractions. Text counts as the number it begins with."""
    if term.type is None:
        return NULL.cast("bigint")
    if is_text(term.type):
        return to_real(term).try_cast("bigint")
    if term.type.kind in (TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.DECIMAL, TypeKind.UBIGINT):
        return term.node.try_cast("bigint")
    return cast(term, BIGINT)


def truth(term: Term) -> Node:
    """Convert a term to a condition. Numbers are true unless they are 0."""
    if term.type is None:
        return NULL.cast("boolean")
    if term.type.kind is TypeKind.BOOL:
        return term.node
    return call("<>", to_real(term), double(0))


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """Return `+ - * / %` of numbers as DOUBLE, NULL if the divisor is 0. Instants move by whole numbers of ticks."""
    if sign in "+-" and (is_instant(left) or is_instant(right)):
        check_instants(sign, left, right)
        if is_ticks(left) and is_ticks(right):
            return add_ticks(sign, left, right)
    for term in (left, right):
        if term.type is not None and term.type.kind in (TypeKind.VARBINARY, TypeKind.GEOMETRY, TypeKind.JSON):
            raise TypeMismatchError(f"{sign} takes numbers, not {term.type}")
    divisor = call("nullif", to_real(right), double(0)) if sign in "/%" else to_real(right)
    return Term(call(sign, to_real(left), divisor), DOUBLE)


def check_instants(sign: str, left: Term, right: Term) -> None:
    """Raise `TypeMismatchError` if both operands are instants."""
    if is_instant(left) and is_instant(right):
        if sign == "+":
            raise TypeMismatchError("two timestamps cannot be added", hint="add a duration, as in ts + 1h")
        raise TypeMismatchError("two timestamps cannot be subtracted", hint="use timediff(a, b)")


def is_ticks(term: Term) -> bool:
    """Return whether a term is a whole number, which counts ticks, or an instant."""
    return term.type is None or term.type.is_integer or term.type.kind in (TypeKind.BOOL, TypeKind.TIMESTAMP)


def add_ticks(sign: str, left: Term, right: Term) -> Term:
    """Return an instant moved by ticks; ticks less an instant are a number."""
    base, ticks = (left, right) if is_instant(left) else (right, left)
    if base is right and sign == "-":
        return Term(to_whole(left) - cast(right, BIGINT), BIGINT)
    offset = ticks.constant_value
    moved = shift_instant(base, offset if sign == "+" else -offset) if isinstance(offset, int) else None
    return moved or Term(call(sign, base.node, to_whole(ticks)), TIMESTAMP)


def to_comparable(left: Term, right: Term) -> tuple[Node, Node]:
    """Convert two terms (timestamps already matched) to types that Spark compares without a cast that could fail."""
    if left.type is None or right.type is None:
        return left.node, right.node
    first, second = left.type.kind, right.type.kind
    if is_text(left.type) and is_text(right.type):
        return left.node, right.node
    if TypeKind.VARBINARY in (first, second):
        return cast(left, DataType(TypeKind.VARBINARY)), cast(right, DataType(TypeKind.VARBINARY))
    if is_text(left.type) or is_text(right.type):
        return match_text(left, right)
    if (first is TypeKind.BOOL) != (second is TypeKind.BOOL):
        return cast(left, DataType(TypeKind.INT)) if first is TypeKind.BOOL else left.node, (
            cast(right, DataType(TypeKind.INT)) if second is TypeKind.BOOL else right.node
        )
    return left.node, right.node


def match_text(left: Term, right: Term) -> tuple[Node, Node]:
    other = right if left.type is not None and is_text(left.type) else left
    if other.type is not None and other.type.kind is TypeKind.BOOL:
        return tuple(text_to_bool(term) if term is not other else term.node for term in (left, right))  # type: ignore[return-value]
    return to_real(left), to_real(right)


def text_to_bool(term: Term) -> Node:
    """Convert text to BOOLEAN: `true` in any case, or a number that is not 0."""
    is_true = call("lower", term.node).equals(string("true"))
    return case([(term.node.is_null(), NULL), (is_true, TRUE)], call("<>", to_real(term), double(0)))


def comparison(sign: str, left: Term, right: Term) -> Term:
    """Return a comparison."""
    first, second = to_comparable(left, right)
    return Term(call(COMPARISONS[sign], first, second), BOOL)


def bitwise(sign: str, left: Term, right: Term) -> Term:
    return Term(call(sign, to_whole(left), to_whole(right)), BIGINT)


def negate(term: Term) -> Term:
    """Return minus a term: a constant for a constant, DOUBLE otherwise."""
    value = term.constant_value
    if isinstance(value, int | float) and not isinstance(value, bool) and not is_instant(term):
        return literal(-value)
    return Term(-to_real(term), DOUBLE)


def like(subject: Term, pattern: Term, *, negated: bool) -> Term:
    """Return `LIKE`: `%` matches any characters, `_` one. A backslash escapes them."""
    value = pattern.constant_value
    escaped = string(re.sub(r"\\(?![%_\\])", r"\\\\", value)) if isinstance(value, str) else pattern.node
    return Term(spark_sql("({} {} {})", to_string(subject), "NOT LIKE" if negated else "LIKE", escaped), BOOL)


def match(subject: Term, pattern: Term, *, negated: bool) -> Term:
    """Return `MATCH`: whether a regular expression occurs in the text."""
    value = pattern.constant_value
    if isinstance(value, str):
        try:
            re.compile(value)
        except re.error as error:
            raise TypeMismatchError(f"{value!r} is not a regular expression: {error}") from None
    test = spark_sql("({} RLIKE {})", to_string(subject), pattern.node)
    return Term(inverted(test) if negated else test, BOOL)


def member(subject: Term, key: Term) -> Term:
    """Return `->`: a member of a JSON object as text, NULL if it is missing."""
    if subject.type is not None and subject.type.kind is not TypeKind.JSON:
        raise TypeMismatchError(f"-> takes JSON, not {subject.type}", hint="only tags of type JSON have members")
    if not isinstance(key.constant_value, str):
        raise TypeMismatchError("-> takes the name of a member as a constant string", hint="as in tag->'name'")
    path = "$['" + key.constant_value.replace("'", "\\'") + "']"
    return Term(call("get_json_object", subject.node, string(path)), DataType(TypeKind.JSON))


def contains(subject: Term, key: Term) -> Term:
    """Return `CONTAINS`: whether a JSON object has a member."""
    if subject.type is not None and subject.type.kind is not TypeKind.JSON:
        raise TypeMismatchError(f"CONTAINS takes JSON, not {subject.type}", hint="only tags of type JSON have members")
    return Term(call("coalesce", call("array_contains", call("json_object_keys", subject.node), key.node), FALSE), BOOL)


def common_type(types: Sequence[DataType | None]) -> DataType | None:
    """Return the type that holds the values of all types: text before numbers, DOUBLE before integers."""
    distinct = list(dict.fromkeys(type_ for type_ in types if type_ is not None))
    if len(distinct) <= 1:
        return distinct[0] if distinct else None
    if any(is_text(type_) for type_ in distinct):
        return next((type_ for type_ in distinct if type_.kind is TypeKind.NCHAR), VARCHAR)
    if any(type_.kind is TypeKind.TIMESTAMP for type_ in distinct):
        return TIMESTAMP
    if all(type_.is_integer or type_.kind is TypeKind.BOOL for type_ in distinct):
        return BIGINT
    return DOUBLE


def convert(term: Term, type_: DataType) -> Node:
    """Convert a term to a type returned by `common_type`."""
    if term.type is None:
        return NULL.cast(spark_type(type_))
    if is_text(type_):
        return to_string(term)
    if type_ == DOUBLE:
        return to_real(term)
    return cast(term, type_)


def null_test(subject: Term, *, negated: bool) -> Term:
    """Return `IS [NOT] NULL`."""
    return Term(subject.node.is_not_null() if negated else subject.node.is_null(), BOOL)


Binary = Callable[[Term, Term], Term]
BINARY: Final[dict[str, Binary]] = {
    "and": lambda left, right: Term(both(truth(left), truth(right)), BOOL),
    "or": lambda left, right: Term(either(truth(left), truth(right)), BOOL),
    "like": partial(like, negated=False),
    "not like": partial(like, negated=True),
    "match": partial(match, negated=False),
    "nmatch": partial(match, negated=True),
    "->": member,
    "contains": contains,
    "&": partial(bitwise, "&"),
    "|": partial(bitwise, "|"),
    **{sign: partial(arithmetic, sign) for sign in "+-*/%"},
    **{sign: partial(comparison, sign) for sign in COMPARISONS},
}
UNARY: Final[dict[str, Callable[[Term], Term]]] = {
    "not": lambda term: Term(inverted(truth(term)), BOOL),
    "unary-": negate,
    "-": negate,
    "is null": partial(null_test, negated=False),
    "is not null": partial(null_test, negated=True),
}


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
