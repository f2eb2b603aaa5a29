"""TDengine's operators as Spark SQL: what types they take, and results that do not depend on the session's settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from headrace.compute.terms import Term, cast, double, literal, moment, same_instant, string, text
from headrace.compute.types import is_text, spark_type
from headrace.errors import TypeMismatchError
from headrace.model.instants import parse_instant
from headrace.model.time import Precision
from headrace.model.types import BIGINT, BOOL, DOUBLE, TIMESTAMP, VARCHAR, DataType, TypeKind

COMPARISONS: Final = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
NUMBER_TEXT: Final = r"^\\s*([+-]?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+)?)"


def timestamp(term: Term, zone: str, precision: Precision) -> Term:
    """A constant text, a number or a timestamp, as a timestamp."""
    if same_instant(term) or term.is_null:
        return term
    if term.type is not None and is_text(term.type):
        value = term.constant.value if term.constant else None
        if not isinstance(value, str):
            raise TypeMismatchError(
                "a string column cannot be compared with a timestamp", hint="cast it: CAST(column AS TIMESTAMP)"
            )
        found = parse_instant(value, zone, precision)
        if found is None:
            raise TypeMismatchError(f"{value!r} is not a timestamp", hint="write it as '2024-01-31 12:00:00.000' or as epoch ticks")
        return moment(found)
    constant = term.constant
    if constant is not None and isinstance(constant.value, float):
        return moment(int(constant.value))
    return Term(cast(term, BIGINT), TIMESTAMP, term.constant)


def real(term: Term) -> str:
    """A term as DOUBLE; text counts as the number it begins with, or 0."""
    if term.type is not None and is_text(term.type):
        number = f"regexp_extract({term.sql}, '{NUMBER_TEXT}', 1)"
        return f"if({term.sql} IS NULL, NULL, coalesce(try_cast({number} AS DOUBLE), 0D))"
    return double(term)


def whole(term: Term) -> str:
    """A term as BIGINT; fractions are cut off, text counts as the number it begins with."""
    if term.type is None:
        return "CAST(NULL AS BIGINT)"
    if is_text(term.type):
        return f"try_cast({real(term)} AS BIGINT)"
    if term.type.kind in (TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.DECIMAL, TypeKind.UBIGINT):
        return f"try_cast({term.sql} AS BIGINT)"
    return cast(term, BIGINT)


def truth(term: Term) -> str:
    """A term as a condition: numbers are true where they are not 0."""
    if term.type is None:
        return "CAST(NULL AS BOOLEAN)"
    if term.type.kind is TypeKind.BOOL:
        return term.sql
    return f"({real(term)} <> 0D)"


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """`+ - * / %` of numbers: DOUBLE, NULL where the divisor is 0."""
    if sign in "+-" and (same_instant(left) or same_instant(right)):
        return shifted(sign, left, right)
    for term in (left, right):
        if term.type is not None and term.type.kind in (TypeKind.VARBINARY, TypeKind.GEOMETRY, TypeKind.JSON):
            raise TypeMismatchError(f"{sign} takes numbers, not {term.type}")
    divisor = f"nullif({real(right)}, 0D)" if sign in "/%" else real(right)
    return Term(f"({real(left)} {sign} {divisor})", DOUBLE)


def shifted(sign: str, left: Term, right: Term) -> Term:
    """An instant moved by ticks is an instant; the difference of two is their distance in ticks."""
    if same_instant(left) and same_instant(right):
        if sign == "+":
            raise TypeMismatchError("two timestamps cannot be added", hint="add a duration, as in ts + 1h")
        return Term(f"({left.sql} - {right.sql})", BIGINT)
    base, moved = (left, right) if same_instant(left) else (right, left)
    if base is right and sign == "-":
        raise TypeMismatchError("a timestamp cannot be taken from a number")
    if base.constant and moved.constant and isinstance(moved.constant.value, int) and isinstance(base.constant.value, int):
        value = base.constant.value + (moved.constant.value if sign == "+" else -moved.constant.value)
        return moment(value, base.constant.relative)
    return Term(f"({base.sql} {sign} {whole(moved)})", TIMESTAMP)


def comparable(left: Term, right: Term) -> tuple[str, str]:
    """Two terms (timestamps already matched) brought to types that Spark compares without a cast that could fail."""
    if left.type is None or right.type is None:
        return left.sql, right.sql
    first, second = left.type.kind, right.type.kind
    if is_text(left.type) and is_text(right.type):
        return left.sql, right.sql
    if TypeKind.VARBINARY in (first, second):
        return cast(left, DataType(TypeKind.VARBINARY)), cast(right, DataType(TypeKind.VARBINARY))
    if is_text(left.type) or is_text(right.type):
        return text_against(left, right)
    if (first is TypeKind.BOOL) != (second is TypeKind.BOOL):
        return cast(left, DataType(TypeKind.INT)) if first is TypeKind.BOOL else left.sql, (
            cast(right, DataType(TypeKind.INT)) if second is TypeKind.BOOL else right.sql
        )
    return left.sql, right.sql


def text_against(left: Term, right: Term) -> tuple[str, str]:
    """Text compared with a number or a truth value."""
    other = right if left.type is not None and is_text(left.type) else left
    if other.type is not None and other.type.kind is TypeKind.BOOL:
        return tuple(bool_of_text(term) if term is not other else term.sql for term in (left, right))  # type: ignore[return-value]
    return real(left), real(right)


def bool_of_text(term: Term) -> str:
    return f"CASE WHEN {term.sql} IS NULL THEN NULL WHEN lower({term.sql}) = 'true' THEN true ELSE {real(term)} <> 0D END"


def comparison(sign: str, left: Term, right: Term) -> Term:
    first, second = comparable(left, right)
    return Term(f"({first} {COMPARISONS[sign]} {second})", BOOL)


def bits(sign: str, left: Term, right: Term) -> Term:
    return Term(f"({whole(left)} {sign} {whole(right)})", BIGINT)


def negative(term: Term) -> Term:
    """Minus: of a constant a constant, of everything else DOUBLE."""
    value = term.constant.value if term.constant and not term.constant.relative else None
    if isinstance(value, int | float) and not isinstance(value, bool) and not same_instant(term):
        return literal(-value)
    return Term(f"(-{real(term)})", DOUBLE)


def like(subject: Term, pattern: Term, *, negated: bool) -> Term:
    """`LIKE`: `%` any characters, `_` one; a backslash takes their meaning away."""
    value = pattern.constant.value if pattern.constant else None
    shown = text(re.sub(r"\\(?![%_\\])", r"\\\\", value)) if isinstance(value, str) else pattern.sql
    return Term(f"({string(subject)} {'NOT ' if negated else ''}LIKE {shown})", BOOL)


def match(subject: Term, pattern: Term, *, negated: bool) -> Term:
    """`MATCH`: whether a regular expression is found in the text."""
    value = pattern.constant.value if pattern.constant else None
    if isinstance(value, str):
        try:
            re.compile(value)
        except re.error as error:
            raise TypeMismatchError(f"{value!r} is not a regular expression: {error}") from None
    found = f"({string(subject)} RLIKE {pattern.sql})"
    return Term(f"(NOT {found})" if negated else found, BOOL)


def member(subject: Term, key: Term) -> Term:
    """`->`: a member of a JSON object, as text; NULL where it is missing."""
    if subject.type is not None and subject.type.kind is not TypeKind.JSON:
        raise TypeMismatchError(f"-> takes JSON, not {subject.type}", hint="only tags of type JSON have members")
    if not key.constant or not isinstance(key.constant.value, str):
        raise TypeMismatchError("-> takes the name of a member as a constant string", hint="as in tag->'name'")
    path = "$['" + key.constant.value.replace("'", "\\'") + "']"
    return Term(f"get_json_object({subject.sql}, {text(path)})", DataType(TypeKind.JSON))


def contains(subject: Term, key: Term) -> Term:
    """`CONTAINS`: whether a JSON object has a member."""
    if subject.type is not None and subject.type.kind is not TypeKind.JSON:
        raise TypeMismatchError(f"CONTAINS takes JSON, not {subject.type}", hint="only tags of type JSON have members")
    return Term(f"coalesce(array_contains(json_object_keys({subject.sql}), {key.sql}), false)", BOOL)


def common(types: Sequence[DataType | None]) -> DataType | None:
    """The type that holds values of all of them: text beats numbers, DOUBLE beats integers."""
    known = list(dict.fromkeys(type_ for type_ in types if type_ is not None))
    if len(known) <= 1:
        return known[0] if known else None
    if any(is_text(type_) for type_ in known):
        return next((type_ for type_ in known if type_.kind is TypeKind.NCHAR), VARCHAR)
    if any(type_.kind is TypeKind.TIMESTAMP for type_ in known):
        return TIMESTAMP
    if all(type_.is_integer or type_.kind is TypeKind.BOOL for type_ in known):
        return BIGINT
    return DOUBLE


def converted(term: Term, type_: DataType) -> str:
    """A term as a type found by `common`."""
    if term.type is None:
        return f"CAST(NULL AS {spark_type(type_)})"
    if is_text(type_):
        return string(term)
    if type_ == DOUBLE:
        return real(term)
    return cast(term, type_)


def null_test(subject: Term, *, negated: bool) -> Term:
    return Term(f"({subject.sql} IS {'NOT ' if negated else ''}NULL)", BOOL)


Binary = Callable[[Term, Term], Term]
BINARY: Final[dict[str, Binary]] = {
    "and": lambda left, right: Term(f"({truth(left)} AND {truth(right)})", BOOL),
    "or": lambda left, right: Term(f"({truth(left)} OR {truth(right)})", BOOL),
    "like": lambda left, right: like(left, right, negated=False),
    "not like": lambda left, right: like(left, right, negated=True),
    "match": lambda left, right: match(left, right, negated=False),
    "nmatch": lambda left, right: match(left, right, negated=True),
    "->": member,
    "contains": contains,
    "&": lambda left, right: bits("&", left, right),
    "|": lambda left, right: bits("|", left, right),
    **{sign: (lambda left, right, sign=sign: arithmetic(sign, left, right)) for sign in "+-*/%"},  # type: ignore[misc]
    **{sign: (lambda left, right, sign=sign: comparison(sign, left, right)) for sign in COMPARISONS},  # type: ignore[misc]
}
UNARY: Final[dict[str, Callable[[Term], Term]]] = {
    "not": lambda term: Term(f"(NOT {truth(term)})", BOOL),
    "unary-": negative,
    "-": negative,
    "is null": lambda term: null_test(term, negated=False),
    "is not null": lambda term: null_test(term, negated=True),
}
