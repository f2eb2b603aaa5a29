"""TDengine's operators, with results that do not depend on the settings of the Spark session."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Final

from headrace.compute.nodes import FALSE, NULL, Node, both, call, double, either, if_, string
from headrace.compute.nodes import negated as inverted
from headrace.compute.tdengine.comparisons import COMPARISONS, comparison
from headrace.compute.tdengine.conversions import to_bits, to_real, to_text, to_whole, truth
from headrace.compute.tdengine.decimals import arithmetic_type, decimal_arithmetic, opposite
from headrace.compute.tdengine.patterns import PatternError, like_regex, posix_regex
from headrace.compute.terms import Term, cast, instant_literal, is_instant, literal, shift_instant
from headrace.compute.types import is_text
from headrace.errors import NotSupportedError, TypeMismatchError
from headrace.model.instants import parse_instant
from headrace.model.time import Precision
from headrace.model.types import BIGINT, BOOL, DOUBLE, TIMESTAMP, DataType, TypeKind


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
    if isinstance(term.constant_value, float | Decimal):
        return instant_literal(int(term.constant_value))
    return Term(to_whole(term), TIMESTAMP, term.constant)


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """Return `+ - * / %` of numbers: DECIMAL if one is and none is DOUBLE, else DOUBLE; NULL if the divisor is 0.

    Instants move by whole numbers of ticks.
    """
    if sign in "+-" and (is_instant(left) or is_instant(right)):
        check_instants(sign, left, right)
        if is_ticks(left) and is_ticks(right):
            return add_ticks(sign, left, right)
    for term in (left, right):
        if term.type is not None and term.type.kind in (TypeKind.VARBINARY, TypeKind.GEOMETRY, TypeKind.JSON):
            raise TypeMismatchError(f"{sign} takes numbers, not {term.type}")
    if (type_ := arithmetic_type(sign, left, right)) is not None:
        return decimal_arithmetic(sign, left, right, type_)
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


def bitwise(sign: str, left: Term, right: Term) -> Term:
    return Term(call(sign, to_bits(left), to_bits(right)), BIGINT)


def negate(term: Term) -> Term:
    """Return minus a term: a constant for a constant, DECIMAL for DECIMAL, else DOUBLE."""
    value = term.constant_value
    if isinstance(value, Decimal):
        return literal(value.copy_negate())
    if isinstance(value, int | float) and not isinstance(value, bool) and not is_instant(term):
        return literal(-value)
    if term.type is not None and term.type.kind is TypeKind.DECIMAL:
        return Term(opposite(term), term.type)
    return Term(-to_real(term), DOUBLE)


def like(subject: Term, pattern: Term, *, negated: bool) -> Term:
    r"""Return `LIKE`, which ignores case: `%` matches any characters, `_` one (of VARCHAR, one byte). A backslash escapes these."""
    text, value = pattern_subject("LIKE", subject), pattern.constant_value
    is_national = subject.type is not None and subject.type.kind is TypeKind.NCHAR
    if isinstance(value, str):
        in_bytes = subject.type is not None and subject.type.kind is TypeKind.VARCHAR and "_" in value.replace("\\_", "")
        regex = like_regex(value, in_bytes=in_bytes, ignores_case="iu" if is_national else "i")
        text = call("decode", text.cast("binary"), string("ISO-8859-1")) if in_bytes else text
        test = call("rlike", text, string(regex))
    else:
        # A backslash before any other character is an ordinary one.
        test = call("ilike", text, call("regexp_replace", to_text(pattern), string(r"\\(?![%_])"), string(r"\\\\")))
    return Term(inverted(test) if negated else test, BOOL)


def match(subject: Term, pattern: Term, *, negated: bool) -> Term:
    """Return `MATCH`: whether a POSIX extended regular expression occurs in the text. The empty one occurs nowhere."""
    text, value = pattern_subject("MATCH", subject), pattern.constant_value
    if pattern.is_null:
        return Term(NULL.cast("boolean"), BOOL)
    if not isinstance(value, str):
        raise NotSupportedError("MATCH with a pattern that is not constant is not supported", hint="write the pattern in quotes")
    try:
        regex = posix_regex(value)
    except PatternError as error:
        raise TypeMismatchError(f"{value!r} is not a regular expression: {error}", hint="MATCH takes POSIX syntax") from None
    test = call("rlike", text, string(regex)) if value else if_(text.is_null(), NULL, FALSE)
    return Term(inverted(test) if negated else test, BOOL)


def pattern_subject(operator: str, subject: Term) -> Node:
    """Return a term as text, or raise `TypeMismatchError` for binary data."""
    if subject.type is not None and subject.type.kind is TypeKind.VARBINARY:
        raise TypeMismatchError(f"{operator} takes text, not {subject.type}")
    return to_text(subject)


def member(subject: Term, key: Term) -> Term:
    """Return `->`: a member of a JSON object as text, NULL if it is missing."""
    if subject.type is not None and subject.type.kind is not TypeKind.JSON:
        raise TypeMismatchError(f"-> takes JSON, not {subject.type}", hint="only tags of type JSON have members")
    if not isinstance(key.constant_value, str):
        raise TypeMismatchError("-> takes the name of a member as a constant string", hint="as in tag->'name'")
    members = call("from_json", subject.node, string("map<string,string>"))
    return Term(call("try_element_at", members, string(key.constant_value)), DataType(TypeKind.JSON, is_member=True))


def contains(subject: Term, key: Term) -> Term:
    """Return `CONTAINS`: whether a JSON object has a member."""
    if subject.type is not None and subject.type.kind is not TypeKind.JSON:
        raise TypeMismatchError(f"CONTAINS takes JSON, not {subject.type}", hint="only tags of type JSON have members")
    return Term(call("coalesce", call("has_member", subject.node, key.node), FALSE), BOOL)


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
