"""IoTDB's operators, independent of the session's settings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Final

from headrace.compute.iotdb.types import EXECUTION_ERROR, FLOATING, NUMERIC, TEXTUAL, operand_error, type_error, type_name
from headrace.compute.nodes import NULL, Column, Node, bigint, both, call, double, either, if_, integer, string
from headrace.compute.nodes import negated as inverted
from headrace.compute.tdengine.comparisons import to_float32
from headrace.compute.tdengine.decimals import constant_number
from headrace.compute.tdengine.operators import null_test
from headrace.compute.terms import ColumnRole, Term, cast, instant_literal, is_instant, literal, shift_instant, to_double, to_string
from headrace.compute.types import spark_type
from headrace.errors import TypeMismatchError
from headrace.model.instants import parse_instant
from headrace.model.time import Precision
from headrace.model.types import BIGINT, BOOL, DOUBLE, TIMESTAMP, DataType, TypeKind
from headrace.sql.iotdb.names import like_regex, unescape_like

COMPARISONS: Final = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
FLIPPED: Final = {"=": "=", "<>": "<>", ">=": "<=", "<": ">"}
"""Comparisons of a number with 0 that depend on the sign of a zero, with those that mean the same from right to left."""
REGEX_ESCAPE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\(?![%_\\])")
"""A backslash in a LIKE pattern that escapes neither a wildcard nor a backslash."""
INFINITY: Final = double(math.inf)
ORDERED: Final = (*NUMERIC, TypeKind.TIMESTAMP)


def truth(term: Term) -> Node:
    """Return a condition. Raise `TypeMismatchError` unless it is BOOLEAN."""
    if term.type is None:
        return NULL.cast("boolean")
    if term.type.kind is not TypeKind.BOOL:
        raise operand_error(term.type, (TypeKind.BOOL,))
    return term.node


def real(term: Term) -> Node:
    """Cast a number, or the time of the row in ticks, to DOUBLE. Raise `TypeMismatchError` for any other type."""
    if term.role is ColumnRole.TIME:
        return term.node.cast("double")
    if term.type is not None and term.type.kind not in NUMERIC:
        raise operand_error(term.type, NUMERIC)
    return to_double(term)


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """Return `+ - * / %` of numbers: DOUBLE as Java computes it, also for a divisor of 0 or -0.0."""
    if (instant := shifted(sign, left, right)) is not None:
        return instant
    first, second = real(left), real(right)
    if sign not in "/%" or is_nonzero(right):
        return Term(call(sign, first, second), DOUBLE)
    infinity = if_(call("is_negative_zero", second), double(-math.inf), INFINITY) if is_floating(right) else INFINITY
    by_zero = first * infinity if sign == "/" else double(math.nan)
    is_zero = both(first.is_not_null(), second.equals(double(0)))
    return Term(if_(is_zero, by_zero, call(sign, first, call("nullif", second, double(0)))), DOUBLE)


def is_nonzero(term: Term) -> bool:
    return isinstance(term.constant_value, int | float | Decimal) and term.constant_value != 0


def shifted(sign: str, left: Term, right: Term) -> Term | None:
    """Shift a constant instant, such as `now()`, by a constant duration; return None for other operands."""
    base, ticks = (left, right) if is_instant(left) else (right, left)
    offset = ticks.constant_value
    if sign not in "+-" or (base is right and sign == "-") or ticks.type != BIGINT or not isinstance(offset, int):
        return None
    return shift_instant(base, offset if sign == "+" else -offset)


def instant(term: Term, zone: str, precision: Precision) -> Term:
    """Convert a text constant or a number to an instant, to compare it with one."""
    if is_instant(term) or term.is_null:
        return term
    value = term.constant_value
    if isinstance(value, str):
        ticks = parse_instant(value, zone, precision)
        if ticks is None:
            raise type_error(f"Input time format {value} error.", hint="write it as 2024-01-31T12:00:00.000 or as epoch ticks")
        return instant_literal(ticks)
    if term.type is None or term.type.kind not in NUMERIC:
        raise operand_error(term.type, ORDERED)
    if isinstance(value, int) or term.type.kind in (TypeKind.INT, TypeKind.BIGINT):
        return Term(cast(term, BIGINT), TIMESTAMP, term.constant)
    return term


def comparison(sign: str, left: Term, right: Term) -> Term:
    """Return a comparison. NaN compares false, as in Java; integers compare exactly, other numbers as DOUBLE."""
    if left.type is None or right.type is None:
        return Term(call(COMPARISONS[sign], left.node, right.node), BOOL)
    if left.type.kind in ORDERED and right.type.kind in ORDERED:
        return Term(compare_numbers(COMPARISONS[sign], as_float(left, right), as_float(right, left)), BOOL)
    if left.type.kind in TEXTUAL and right.type.kind in TEXTUAL:
        return Term(call(COMPARISONS[sign], left.node, right.node), BOOL)
    first, second = match_dates(left, right)
    kind, second_kind = first.type.kind if first.type else None, second.type.kind if second.type else None
    if kind is not second_kind:
        raise mismatch(left, right)
    if kind is TypeKind.BOOL and COMPARISONS[sign] not in ("=", "<>"):
        raise type_error("Unsupported Type", hint="compare BOOLEAN with = or !=", status=301)
    return Term(call(COMPARISONS[sign], first.node, second.node), BOOL)


def as_float(term: Term, other: Term) -> Term:
    """Return a constant number that is compared with a stored FLOAT as the nearest FLOAT, any other term unchanged."""
    number = constant_number(term)
    is_narrowed = other.type is not None and other.type.kind is TypeKind.FLOAT and isinstance(other.node, Column)
    if number is None or not is_narrowed or term.type is None or term.type.kind not in NUMERIC:
        return term
    return literal(to_float32(float(number)))


def mismatch(left: Term, right: Term) -> TypeMismatchError:
    """Return the error for operands that cannot be compared; it asks for the type of the text or of the left side."""
    if left.type is not None and left.type.kind in TEXTUAL:
        return operand_error(right.type, TEXTUAL)
    if right.type is not None and right.type.kind in TEXTUAL:
        return operand_error(left.type, TEXTUAL)
    expected = (left.type.kind,) if left.type is not None and left.type.kind not in ORDERED else NUMERIC
    return operand_error(right.type, expected)


def match_dates(left: Term, right: Term) -> tuple[Term, Term]:
    kinds = [term.type.kind if term.type else None for term in (left, right)]
    if TypeKind.DATE not in kinds:
        return left, right
    date = DataType(TypeKind.DATE)

    def as_date(term: Term) -> Term:
        return Term(term.node.try_cast("date"), date) if isinstance(term.constant_value, str) else term

    return as_date(left), as_date(right)


def compare_numbers(sign: str, left: Term, right: Term) -> Node:
    """Return a comparison of numbers or instants. Spark treats NaN as equal to itself and greater than any number: exclude it."""
    if not any(is_floating(term) for term in (left, right)):
        return call(sign, left.node, right.node)
    if sign in FLIPPED and is_zero(right) and is_computed(left):
        return compare_with_zero(sign, left)
    if sign in FLIPPED.values() and is_zero(left) and is_computed(right):
        return compare_with_zero(next(flipped for flipped, own in FLIPPED.items() if own == sign), right)
    parts = [call(sign, as_double(left), as_double(right))]
    parts += not_nan(left, right, sign in (">", ">=")) + not_nan(right, left, sign in ("<", "<="))
    return both(*parts)


def is_zero(term: Term) -> bool:
    """Return whether a number is the constant 0."""
    value = term.constant_value
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and value == 0


def is_computed(term: Term) -> bool:
    return is_floating(term) and not isinstance(term.node, Column)


def compare_with_zero(sign: str, term: Term) -> Node:
    """Return a comparison of a computed number with 0. As in Java, -0.0 is less than 0; stored values compare as in SQL."""
    x = to_double(term)
    compared, is_negative = call(sign, x, double(0)), call("is_negative_zero", x)
    match sign:
        case "=":
            return both(compared, inverted(is_negative))
        case ">=":
            return both(compared, inverted(call("isnan", x)), inverted(is_negative))
    return either(compared, is_negative)


def not_nan(term: Term, other: Term, greater: bool) -> list[Node]:
    """Return the condition that excludes NaN, if a comparison needs one; compared with NULL the result stays NULL.

    NaN is unequal to a constant, like in the server's filters.
    """
    if not is_floating(term) or term.constant is not None or (other.constant is not None and not greater):
        return []
    condition = inverted(call("isnan", term.node))
    return [condition if other.constant is not None else either(other.node.is_null(), condition)]


def is_floating(term: Term) -> bool:
    """Return whether a number is of type FLOAT or DOUBLE."""
    return term.type is not None and term.type.kind in FLOATING


def as_double(term: Term) -> Node:
    return to_double(term) if not is_instant(term) else term.node.cast("double")


def negative(term: Term) -> Term:
    """Negate a number, keeping its type; a constant remains a constant."""
    value = term.constant_value
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and not is_instant(term):
        return literal(-value)
    if term.type is None or term.type.kind not in NUMERIC:
        raise operand_error(term.type, NUMERIC)
    if term.type.kind in FLOATING:
        return Term(-term.node, term.type)
    return Term(call("try_subtract", bigint(0) if term.type == BIGINT else integer(0), term.node), term.type)


def positive(term: Term) -> Term:
    """Return a number unchanged. Raise `TypeMismatchError` for any other type."""
    real(term)
    return term


def text(term: Term) -> Node:
    """Return a text operand. Raise `TypeMismatchError` for any other type."""
    if term.type is not None and term.type.kind not in TEXTUAL:
        raise operand_error(term.type, TEXTUAL)
    return to_string(term)


def like(subject: Term, pattern: Term, *, negated: bool) -> Term:
    """Return `LIKE`, in which a backslash escapes `%`, `_` and itself; before other characters it means what it does in REGEXP."""
    value = unescape_like(str(pattern.constant.value)) if pattern.constant else ""
    operator, sql = ("matches", like_regex(value)) if REGEX_ESCAPE.search(value) else ("like", value)
    condition = call(operator, text(subject), string(sql))
    return Term(inverted(condition) if negated else condition, BOOL)


def regexp(subject: Term, pattern: Term, *, negated: bool) -> Term:
    """Return `REGEXP`: whether a regular expression matches anywhere in the text."""
    value = pattern.constant_value
    if isinstance(value, str):
        check_regexp(value)
    condition = call("matches", text(subject), pattern.node)
    return Term(inverted(condition) if negated else condition, BOOL)


def check_regexp(value: str) -> None:
    r"""Raise `TypeMismatchError` for an invalid pattern. Java has classes such as `\p{L}`, which Python lacks."""
    try:
        re.compile(re.sub(r"\\[pP]\{\w+\}", r"\\w", value))
    except (re.error, OverflowError, RecursionError) as error:
        raise type_error(f"Illegal regex expression: {error} in {value!r}", hint="correct the pattern") from None


def common_type(types: Sequence[DataType | None]) -> DataType | None:
    """Return the type of a CASE: DOUBLE if its results are numeric, else the type that all share."""
    kinds = {type_.kind: type_ for type_ in types if type_ is not None}
    if not kinds:
        return None
    for kind in (TypeKind.VARCHAR, TypeKind.BOOL, TypeKind.NCHAR, TypeKind.VARBINARY):
        if kind in kinds and len(kinds) > 1:
            message = f"CASE expression: {type_name(kinds[kind])} and other types cannot exist at the same time"
            raise type_error(message, hint="cast the results to one type, as in CAST(x AS TEXT)")
        if kind in kinds:
            return kinds[kind]
    return DOUBLE


def convert(term: Term, type_: DataType) -> Node:
    """Convert a term to the result of `common_type`."""
    if term.type is None:
        return NULL.cast(spark_type(type_))
    if type_ == DOUBLE and term.type.kind is TypeKind.DATE:
        return call("date_format", term.node, string("yyyyMMdd")).cast("double")
    return as_double(term) if type_ == DOUBLE else cast(term, type_)


def choice(subject: Term, choice: Term) -> Term:
    """Convert a constant in the list of IN to the type of the subject, as the server does; it reads the constant as text."""
    value = choice.constant_value
    if subject.type is None or value is None or is_instant(choice):
        return choice
    written = str(value).lower() if isinstance(value, bool) else str(value)
    kind = subject.type.kind
    if kind in TEXTUAL:
        return literal(written)
    if kind not in READERS:
        return choice
    try:
        return literal(READERS[kind](written))
    except ValueError:
        raise type_error(
            f'"{written}" cannot be cast to [{type_name(subject.type)}]', f"write a {type_name(subject.type)}", EXECUTION_ERROR
        ) from None


def read_boolean(written: str) -> bool:
    """Read `true` or `false`. Raise `ValueError` for any other text."""
    if written.lower() not in ("true", "false"):
        raise ValueError(written)
    return written.lower() == "true"


READERS: Final[dict[TypeKind, Callable[[str], bool | int | float]]] = {
    TypeKind.BOOL: read_boolean,
    TypeKind.INT: int,
    TypeKind.BIGINT: int,
    TypeKind.FLOAT: lambda written: to_float32(float(written)),
    TypeKind.DOUBLE: float,
}

Unary = Callable[[Term], Term]
Binary = Callable[[Term, Term], Term]


def conjunction(left: Term, right: Term) -> Term:
    return Term(both(truth(left), truth(right)), BOOL)


def disjunction(left: Term, right: Term) -> Term:
    return Term(either(truth(left), truth(right)), BOOL)


def negation(term: Term) -> Term:
    """Return `NOT`; NULL stays NULL."""
    return Term(inverted(truth(term)), BOOL)


BINARY: Final[dict[str, Binary]] = {
    "and": conjunction,
    "&": conjunction,
    "or": disjunction,
    "|": disjunction,
    "like": partial(like, negated=False),
    "not like": partial(like, negated=True),
    "match": partial(regexp, negated=False),
    "nmatch": partial(regexp, negated=True),
    **{sign: partial(arithmetic, sign) for sign in "+-*/%"},
    **{sign: partial(comparison, sign) for sign in COMPARISONS},
}
UNARY: Final[dict[str, Unary]] = {
    "not": negation,
    "!": negation,
    "unary-": negative,
    "-": negative,
    "unary+": positive,
    "+": positive,
    "is null": partial(null_test, negated=False),
    "is not null": partial(null_test, negated=True),
}
