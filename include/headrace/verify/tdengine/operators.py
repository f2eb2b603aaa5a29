"""What expressions mean in the TDengine language: its operators, from the definition of each."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from headrace.model.expressions import Call, DurationLiteral, Expression
from headrace.model.types import BIGINT, BOOL, DOUBLE, TIMESTAMP, DataType, TypeKind
from headrace.verify.expressions import COMPARISONS, MIRRORED, Arguments, Compiler, Language, Rule, both_ways, logic
from headrace.verify.tdengine.conversions import (
    as_written,
    compile_cast,
    decimal_arithmetic,
    to_bigint,
    to_bits,
    to_bool,
    to_condition,
    to_double,
    to_instant,
    to_text,
    unify,
)
from headrace.verify.tdengine.functions import FUNCTIONS
from headrace.verify.tdengine.patterns import like_regex, posix_regex
from headrace.verify.values import Value, constant, instant, quoted, unsupported
from headrace.verify.zones import Clock

OF_ITS_TYPE: Final = (TypeKind.FLOAT, TypeKind.DECIMAL, TypeKind.VARBINARY)
"""Types that constants take which values of these types are compared with."""
TESTS: Final = (*COMPARISONS, *(f"{word}{test}" for test in ("like", "in", "between") for word in ("", "not ")), "match", "nmatch")


def select_value(compiler: Compiler, node: Expression) -> Value:
    """Compile an item of a select list, where a comparison with NULL is false."""
    value = compiler.value(node)
    if isinstance(node, Call) and node.function in TESTS:
        return Value(f"coalesce({value.sql}, false)", BOOL)
    return value


def _literal(compiler: Compiler, node: Expression) -> Value | None:
    match node:
        case DurationLiteral(value=duration):
            return constant(None) if duration.is_calendar else constant(duration.ticks(compiler.precision))
        case Call(function="now" | "today"):
            raise unsupported("the current time, which changes: write the instant itself")
    return None


def _compare(compiler: Compiler, sign: str, left: Value, right: Value) -> str:
    sign = COMPARISONS[sign]
    if left.is_constant and not right.is_constant:
        left, right, sign = right, left, MIRRORED[sign]
    if left.is_kind(TypeKind.FLOAT) and right.is_kind(TypeKind.DOUBLE) and not right.is_constant:
        return _compare_nearly(sign, f"{to_double(left)} - {right.sql}")
    if left.is_kind(TypeKind.DOUBLE) and right.is_kind(TypeKind.FLOAT) and not right.is_constant:
        return _compare_nearly(sign, f"{left.sql} - {to_double(right)}")
    first, second = _sides(compiler, left, right)
    return f"({first} {sign} {second})"


def _compare_nearly(sign: str, difference: str) -> str:
    """Compare a FLOAT and a DOUBLE, which are equal if they differ by less than 2^-23."""
    near, less = f"abs({difference}) < pow(2, -23)", f"({difference}) < 0"
    tests = {
        "=": near,
        "<>": f"NOT {near}",
        "<": f"{less} AND NOT {near}",
        "<=": f"{less} OR {near}",
        ">": f"NOT ({less} OR {near})",
        ">=": f"NOT ({less} AND NOT {near})",
    }
    return f"({tests[sign]})"


def _sides(compiler: Compiler, left: Value, right: Value) -> tuple[str, str]:
    """Convert two values to compare them: to instants if either is one, to numbers if either is one, else as text."""
    if left.is_instant or right.is_instant:
        left, right = to_instant(compiler, left), to_instant(compiler, right)
    if left.type is None or right.type is None:
        return left.sql, right.sql
    if left.is_kind(*OF_ITS_TYPE) and right.is_constant:
        return left.sql, as_written(right, left.type)
    if left.is_text != right.is_text:
        convert = to_bool if BOOL in (left.type, right.type) else to_double
        return convert(left), convert(right)
    if (left.type == BOOL) != (right.type == BOOL):
        return to_double(left), to_double(right)
    return left.sql, right.sql


def _arithmetic(sign: str) -> Rule:
    def rule(use: Arguments) -> Value:
        if len(use.values) == 1:
            return _negated(use)
        left, right = _instants_beside_durations(use)
        for node, moved in zip(use.call.arguments, (right, left), strict=True):
            if isinstance(node, DurationLiteral) and node.value.is_calendar:
                return _months_later(use.compiler, moved, node.value.months if sign == "+" else -node.value.months)
        if sign in "+-" and (left.is_instant or right.is_instant) and _is_ticks(left) and _is_ticks(right):
            return _shifted(sign, left, right)
        if left.is_kind(TypeKind.DECIMAL) or right.is_kind(TypeKind.DECIMAL):
            return decimal_arithmetic(sign, left, right)
        divisor = f"nullif({to_double(right)}, 0)" if sign in "/%" else to_double(right)
        return Value(f"({to_double(left)} {sign} {divisor})", DOUBLE)

    return rule


def _instants_beside_durations(use: Arguments) -> list[Value]:
    """Return the operands; a text that a duration moves is the instant that it means."""
    has_duration = any(isinstance(node, DurationLiteral) for node in use.call.arguments)
    return [to_instant(use.compiler, value) if has_duration and value.is_text else value for value in use.values]


def _months_later(compiler: Compiler, moved: Value, months: int) -> Value:
    clock = Clock(compiler.timezone, compiler.precision)
    return Value(clock.instant(clock.later(clock.wall(moved.sql), str(months))), TIMESTAMP)


def _is_ticks(value: Value) -> bool:
    return value.type is None or value.is_instant or value.type == BOOL or value.type.is_integer


def _shifted(sign: str, left: Value, right: Value) -> Value:
    if right.is_instant and sign == "-":
        return Value(f"({to_bigint(left)} - {right.sql})", BIGINT)
    first, second = (left.sql, to_bigint(right)) if left.is_instant else (right.sql, to_bigint(left))
    if isinstance(left.constant, int) and isinstance(right.constant, int):
        return instant(left.constant + right.constant if sign == "+" else left.constant - right.constant)
    return Value(f"({first} {sign} {second})", TIMESTAMP)


def _negated(use: Arguments) -> Value:
    (operand,) = use.values
    value = operand.constant
    if isinstance(value, Decimal):
        return constant(value.copy_negate())
    if isinstance(value, int | float) and not isinstance(value, bool) and not operand.is_instant:
        return constant(-value)
    if operand.is_kind(TypeKind.DECIMAL):
        return Value(f"(-{operand.sql})", operand.type)
    return Value(f"(-{to_double(operand)})", DOUBLE)


def _bitwise(sign: str) -> Rule:
    return lambda use: Value(f"({to_bits(use.values[0])} {sign} {to_bits(use.values[1])})", BIGINT)


def _like(use: Arguments) -> str:
    """Compile LIKE, which ignores case; a backslash escapes `%` and `_`."""
    subject, pattern = use.values
    if pattern.type is None:
        return "CAST(NULL AS BOOLEAN)"
    if not isinstance(pattern.constant, str):
        raise unsupported("LIKE with a pattern that is not constant")
    regex = like_regex(pattern.constant, is_national=subject.is_kind(TypeKind.NCHAR))
    return f"regexp_full_match({to_text(subject)}, {quoted(regex)})"


def _match(use: Arguments) -> str:
    subject, pattern = use.values
    if not isinstance(pattern.constant, str):
        raise unsupported("MATCH with a pattern that is not constant")
    # The empty pattern occurs nowhere.
    regex = posix_regex(pattern.constant) if pattern.constant else r"[^\s\S]"
    return f"regexp_matches({to_text(subject)}, {quoted(regex)})"


def _member(use: Arguments) -> Value:
    """Compile `->`: a member of a JSON object as text, found by a JSON pointer."""
    subject, name = use.values
    if not isinstance(name.constant, str):
        raise unsupported("-> with a name that is not constant")
    pointer = "/" + name.constant.replace("~", "~0").replace("/", "~1")
    return Value(f"json_extract_string({subject.sql}, {quoted(pointer)})", DataType(TypeKind.JSON))


def _contains(use: Arguments) -> Value:
    subject, name = use.values
    return Value(f"coalesce(list_contains(json_keys({subject.sql}), {name.sql}), false)", BOOL)


_PATTERNS: Final = both_ways({"like": _like, "match": _match})
LANGUAGE: Final = Language(
    {
        **FUNCTIONS,
        **{sign: _arithmetic(sign) for sign in "+-*/%"},
        **logic(_compare, to_condition, _sides),
        **_PATTERNS,
        "nmatch": _PATTERNS["not match"],
        "unary-": _negated,
        "->": _member,
        "contains": _contains,
        "&": _bitwise("&"),
        "|": _bitwise("|"),
    },
    _literal,
    compile_cast,
    to_condition,
    unify,
)
