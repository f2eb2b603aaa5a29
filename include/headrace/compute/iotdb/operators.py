"""IoTDB's operators as Spark SQL, independent of the session's settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

from headrace.compute.iotdb.types import EXECUTION_ERROR, FLOATING, NUMERIC, TEXTUAL, operand_error, type_error, type_name
from headrace.compute.terms import ColumnRole, Term, cast, instant_literal, is_instant, literal, string_sql, to_double, to_string
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
INFINITY: Final = "CAST('Infinity' AS DOUBLE)"
ORDERED: Final = (*NUMERIC, TypeKind.TIMESTAMP)


def truth(term: Term) -> str:
    """Return the SQL of a condition. Raise `TypeMismatchError` unless it is BOOLEAN."""
    if term.type is None:
        return "CAST(NULL AS BOOLEAN)"
    if term.type.kind is not TypeKind.BOOL:
        raise operand_error(term.type, (TypeKind.BOOL,))
    return term.sql


def real(term: Term) -> str:
    """Cast a number, or the time of the row in ticks, to DOUBLE. Raise `TypeMismatchError` for any other type."""
    if term.role is ColumnRole.TIME:
        return f"CAST({term.sql} AS DOUBLE)"
    if term.type is not None and term.type.kind not in NUMERIC:
        raise operand_error(term.type, NUMERIC)
    return to_double(term)


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """Return `+ - * / %` of numbers: DOUBLE as Java computes it, also for a divisor of 0 or -0.0."""
    if (instant := shift_instant(sign, left, right)) is not None:
        return instant
    first, second = real(left), real(right)
    if sign not in "/%" or is_nonzero(right):
        return Term(f"({first} {sign} {second})", DOUBLE)
    infinity = f"if(CAST({second} AS STRING) = '-0.0', -{INFINITY}, {INFINITY})" if is_floating(right) else INFINITY
    by_zero = f"{first} * {infinity}" if sign == "/" else "CAST('NaN' AS DOUBLE)"
    return Term(f"if({first} IS NOT NULL AND {second} = 0D, {by_zero}, {first} {sign} nullif({second}, 0D))", DOUBLE)


def is_nonzero(term: Term) -> bool:
    """Return whether a divisor is a constant other than 0."""
    value = term.constant.value if term.constant is not None and not term.constant.relative else None
    return isinstance(value, int | float | Decimal) and value != 0


def shift_instant(sign: str, left: Term, right: Term) -> Term | None:
    """Shift a constant instant, such as `now()`, by a constant duration; return None for other operands."""
    base, ticks = (left, right) if is_instant(left) else (right, left)
    if sign not in "+-" or not is_instant(base) or base.constant is None or ticks.constant is None:
        return None
    if (base is right and sign == "-") or ticks.type != BIGINT:
        return None
    offset, value = ticks.constant.value, base.constant.value
    assert isinstance(offset, int)
    assert isinstance(value, int)
    return instant_literal(value + (offset if sign == "+" else -offset), base.constant.relative)


def instant(term: Term, zone: str, precision: Precision) -> Term:
    """Convert a text constant or a number to an instant, to compare it with one."""
    if is_instant(term) or term.is_null:
        return term
    value = term.constant.value if term.constant is not None else None
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
        return Term(f"({left.sql} {COMPARISONS[sign]} {right.sql})", BOOL)
    if left.type.kind in ORDERED and right.type.kind in ORDERED:
        return Term(compare_numbers(COMPARISONS[sign], left, right), BOOL)
    if left.type.kind in TEXTUAL and right.type.kind in TEXTUAL:
        return Term(f"({left.sql} {COMPARISONS[sign]} {right.sql})", BOOL)
    first, second = match_dates(left, right)
    kind, second_kind = first.type.kind if first.type else None, second.type.kind if second.type else None
    if kind is not second_kind:
        raise mismatch(left, right)
    if kind is TypeKind.BOOL and COMPARISONS[sign] not in ("=", "<>"):
        raise type_error("Unsupported Type", hint="compare BOOLEAN with = or !=", status=301)
    return Term(f"({first.sql} {COMPARISONS[sign]} {second.sql})", BOOL)


def mismatch(left: Term, right: Term) -> TypeMismatchError:
    """Return the error for operands that cannot be compared; it asks for the type of the text or of the left side."""
    if left.type is not None and left.type.kind in TEXTUAL:
        return operand_error(right.type, TEXTUAL)
    if right.type is not None and right.type.kind in TEXTUAL:
        return operand_error(left.type, TEXTUAL)
    expected = (left.type.kind,) if left.type is not None and left.type.kind not in ORDERED else NUMERIC
    return operand_error(right.type, expected)


def match_dates(left: Term, right: Term) -> tuple[Term, Term]:
    """Convert a text constant to a date if the other side is a DATE."""
    kinds = [term.type.kind if term.type else None for term in (left, right)]
    if TypeKind.DATE not in kinds:
        return left, right
    date = DataType(TypeKind.DATE)

    def as_date(term: Term) -> Term:
        is_text = term.constant is not None and isinstance(term.constant.value, str)
        return Term(f"try_cast({term.sql} AS DATE)", date) if is_text else term

    return as_date(left), as_date(right)


def compare_numbers(sign: str, left: Term, right: Term) -> str:
    """Write a comparison of numbers or instants. Spark treats NaN as equal to itself and greater than any number, so exclude it."""
    if not any(is_floating(term) for term in (left, right)):
        return f"({left.sql} {sign} {right.sql})"
    if sign in FLIPPED and is_zero(right) and is_computed(left):
        return compare_with_zero(sign, left)
    if sign in FLIPPED.values() and is_zero(left) and is_computed(right):
        return compare_with_zero(next(flipped for flipped, own in FLIPPED.items() if own == sign), right)
    parts = [f"{as_double(left)} {sign} {as_double(right)}"]
    parts += not_nan(left, right, sign in (">", ">=")) + not_nan(right, left, sign in ("<", "<="))
    return f"({' AND '.join(parts)})"


def is_zero(term: Term) -> bool:
    """Return whether a number is the constant 0."""
    value = term.constant.value if term.constant is not None and not term.constant.relative else None
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and value == 0


def is_computed(term: Term) -> bool:
    """Return whether a number is of type FLOAT or DOUBLE, and not just a column."""
    return is_floating(term) and not term.sql.isidentifier()


def compare_with_zero(sign: str, term: Term) -> str:
    """Write a comparison of a computed number with 0. As in Java, -0.0 is less than 0; stored values compare as in SQL."""
    x = to_double(term)
    # Only the text of a zero shows its sign in Spark.
    is_negative = f"CAST({x} AS STRING) = '-0.0'"
    match sign:
        case "=":
            return f"({x} = 0D AND NOT {is_negative})"
        case "<>":
            return f"({x} <> 0D OR {is_negative})"
        case ">=":
            return f"({x} >= 0D AND NOT isnan({x}) AND NOT {is_negative})"
    return f"({x} < 0D OR {is_negative})"


def not_nan(term: Term, other: Term, greater: bool) -> list[str]:
    """Return the condition that excludes NaN, if a comparison needs one; compared with NULL the result stays NULL.

    NaN is unequal to a constant, like in the server's filters.
    """
    if not is_floating(term) or term.constant is not None or (other.constant is not None and not greater):
        return []
    condition = f"NOT isnan({term.sql})"
    return [condition if other.constant is not None else f"({other.sql} IS NULL OR {condition})"]


def is_floating(term: Term) -> bool:
    """Return whether a number is of type FLOAT or DOUBLE."""
    return term.type is not None and term.type.kind in FLOATING


def as_double(term: Term) -> str:
    """Return a number or an instant as DOUBLE."""
    return to_double(term) if not is_instant(term) else f"CAST({term.sql} AS DOUBLE)"


def negative(term: Term) -> Term:
    """Negate a number, keeping its type; a constant remains a constant."""
    value = term.constant.value if term.constant and not term.constant.relative else None
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and not is_instant(term):
        return literal(-value)
    if term.type is None or term.type.kind not in NUMERIC:
        raise operand_error(term.type, NUMERIC)
    if term.type.kind in FLOATING:
        return Term(f"(-{term.sql})", term.type)
    return Term(f"try_subtract({'0L' if term.type == BIGINT else '0'}, {term.sql})", term.type)


def positive(term: Term) -> Term:
    """Return a number unchanged. Raise `TypeMismatchError` for any other type."""
    real(term)
    return term


def string(term: Term) -> str:
    """Return the SQL of a text operand. Raise `TypeMismatchError` for any other type."""
    if term.type is not None and term.type.kind not in TEXTUAL:
        raise operand_error(term.type, TEXTUAL)
    return to_string(term)


def like(subject: Term, pattern: Term, *, negated: bool) -> Term:
    """Return `LIKE`, in which a backslash escapes `%`, `_` and itself; before other characters it means what it does in REGEXP."""
    value = unescape_like(str(pattern.constant.value)) if pattern.constant else ""
    operator, sql = ("RLIKE", like_regex(value)) if REGEX_ESCAPE.search(value) else ("LIKE", value)
    condition = f"({string(subject)} {operator} {string_sql(sql)})"
    return Term(f"(NOT {condition})" if negated else condition, BOOL)


def regexp(subject: Term, pattern: Term, *, negated: bool) -> Term:
    """Return `REGEXP`: whether a regular expression matches anywhere in the text."""
    value = pattern.constant.value if pattern.constant else None
    if isinstance(value, str):
        check_regexp(value)
    condition = f"({string(subject)} RLIKE {pattern.sql})"
    return Term(f"(NOT {condition})" if negated else condition, BOOL)


def check_regexp(value: str) -> None:
    r"""Raise `TypeMismatchError` for an invalid pattern. Java has classes such as `\p{L}`, which Python lacks."""
    try:
        re.compile(re.sub(r"\\[pP]\{\w+\}", r"\\w", value))
    except re.error as error:
        raise type_error(f"Illegal regex expression: {error} in {value!r}", hint="correct the pattern") from None


def null_test(subject: Term, *, negated: bool) -> Term:
    """Return `IS NULL`; NaN is a value."""
    return Term(f"({subject.sql} IS {'NOT ' if negated else ''}NULL)", BOOL)


def common_type(types: Sequence[DataType | None]) -> DataType | None:
    """Return the type of a CASE: DOUBLE if its results are numeric, else the type that all share."""
    kinds = {type_.kind: type_ for type_ in types if type_ is not None}
    if not kinds:
        return None
    for kind in (TypeKind.VARCHAR, TypeKind.BOOL, TypeKind.NCHAR, TypeKind.VARBINARY):
        if kind in kinds and len(kinds) > 1:
            raise type_error(
                f"CASE expression: {type_name(kinds[kind])} and other types cannot exist at the same time",
                hint="cast the results to one type, as in CAST(x AS TEXT)",
            )
        if kind in kinds:
            return kinds[kind]
    return DOUBLE


def convert(term: Term, type_: DataType) -> str:
    """Convert a term to the result of `common_type`."""
    if term.type is None:
        return f"CAST(NULL AS {spark_type(type_)})"
    if type_ == DOUBLE and term.type.kind is TypeKind.DATE:
        return f"CAST(date_format({term.sql}, 'yyyyMMdd') AS DOUBLE)"
    return as_double(term) if type_ == DOUBLE else cast(term, type_)


def choice(subject: Term, choice: Term) -> Term:
    """Convert a constant in the list of IN to the type of the subject, as the server does; it reads the constant as text."""
    value = choice.constant.value if choice.constant is not None and not choice.constant.relative else None
    if subject.type is None or value is None or is_instant(choice):
        return choice
    written = str(value).lower() if isinstance(value, bool) else str(value)
    kind = subject.type.kind
    if kind in TEXTUAL:
        return literal(written)
    if kind not in READERS:
        return choice
    try:
        constant = literal(READERS[kind](written))
    except ValueError:
        raise type_error(
            f'"{written}" cannot be cast to [{type_name(subject.type)}]', f"write a {type_name(subject.type)}", EXECUTION_ERROR
        ) from None
    return Term(cast(constant, subject.type), subject.type) if kind in FLOATING else constant


def read_boolean(written: str) -> bool:
    """Read `true` or `false`. Raise `ValueError` for any other text."""
    if written.lower() not in ("true", "false"):
        raise ValueError(written)
    return written.lower() == "true"


READERS: Final[dict[TypeKind, Callable[[str], bool | int | float]]] = {
    TypeKind.BOOL: read_boolean,
    TypeKind.INT: int,
    TypeKind.BIGINT: int,
    TypeKind.FLOAT: float,
    TypeKind.DOUBLE: float,
}

Unary = Callable[[Term], Term]
Binary = Callable[[Term, Term], Term]


def conjunction(left: Term, right: Term) -> Term:
    """Return `AND`, in three-valued logic."""
    return Term(f"({truth(left)} AND {truth(right)})", BOOL)


def disjunction(left: Term, right: Term) -> Term:
    """Return `OR`, in three-valued logic."""
    return Term(f"({truth(left)} OR {truth(right)})", BOOL)


def negation(term: Term) -> Term:
    """Return `NOT`; NULL stays NULL."""
    return Term(f"(NOT {truth(term)})", BOOL)


def compute(sign: str) -> Binary:
    """Return an arithmetic operator."""
    return lambda left, right: arithmetic(sign, left, right)


def compare(sign: str) -> Binary:
    """Return a comparison operator."""
    return lambda left, right: comparison(sign, left, right)


BINARY: Final[dict[str, Binary]] = {
    "and": conjunction,
    "&": conjunction,
    "or": disjunction,
    "|": disjunction,
    "like": lambda left, right: like(left, right, negated=False),
    "not like": lambda left, right: like(left, right, negated=True),
    "match": lambda left, right: regexp(left, right, negated=False),
    "nmatch": lambda left, right: regexp(left, right, negated=True),
    **{sign: compute(sign) for sign in "+-*/%"},
    **{sign: compare(sign) for sign in COMPARISONS},
}
UNARY: Final[dict[str, Unary]] = {
    "not": negation,
    "!": negation,
    "unary-": negative,
    "-": negative,
    "unary+": positive,
    "+": positive,
    "is null": lambda term: null_test(term, negated=False),
    "is not null": lambda term: null_test(term, negated=True),
}
