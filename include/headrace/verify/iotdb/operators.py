"""What expressions mean in the IoTDB language: its operators."""

from __future__ import annotations

import calendar
import re
from datetime import datetime, timedelta
from typing import Final

from headrace.model.expressions import Call, Cast, DurationLiteral, Expression, Literal
from headrace.model.instants import EPOCH, find_zone, parse_instant
from headrace.model.time import Duration
from headrace.model.types import DOUBLE, TIMESTAMP, TypeKind
from headrace.verify.expressions import MIRRORED, Arguments, Compiler, Language, Rule, both_ways, logic
from headrace.verify.iotdb.conversions import NUMBERS, cast, double, to_condition, unify
from headrace.verify.iotdb.functions import FUNCTIONS, INFINITY, NAN
from headrace.verify.values import FLOATS, Value, constant, float_sql, instant, quoted, unsupported

LIKE_WILDCARDS: Final = {"%": ".*?", "_": "."}
ORDERED: Final = (*NUMBERS, TypeKind.TIMESTAMP)


def ticks_of(compiler: Compiler, node: Expression) -> int:
    """Return a bound of time, which has to be constant."""
    value = compiler.value(node).constant
    if not isinstance(value, int):
        raise unsupported("a range of time that is not constant")
    return value


def _literal(compiler: Compiler, node: Expression) -> Value | None:
    ticks = _constant_ticks(compiler, node)
    return None if ticks is None else instant(ticks)


def _constant_ticks(compiler: Compiler, node: Expression) -> int | None:
    """Return a constant instant, such as `2024-05-01 + 1h`; None for other expressions."""
    match node:
        case Cast(operand=Literal(value=str(written)), type=type_, spelling="") if type_ == TIMESTAMP:
            return parse_instant(written, compiler.timezone, compiler.precision)
        case Call(function="+" | "-" as sign, arguments=(base, DurationLiteral(value=duration))):
            ticks = base.value if isinstance(base, Literal) else _constant_ticks(compiler, base)
            if not isinstance(ticks, int):
                raise unsupported(f"the instant {node}")
            direction = 1 if sign == "+" else -1
            if duration.unit == "n":
                return later(ticks, direction * duration.count, 0, compiler)
            length = Duration(365 * duration.count, "d") if duration.unit == "y" else duration
            return ticks + direction * length.ticks(compiler.precision)
        case Call(function="now"):
            raise unsupported("now(), which changes with each run")
    return None


def later(start: int, months: int, ticks: int, compiler: Compiler) -> int:
    """Return the instant some months and ticks after another one; a day that a month lacks becomes its last day."""
    if not months:
        return start + ticks
    second = compiler.precision.ticks_per_second
    seconds, rest = divmod(start, second)
    wall = (EPOCH + timedelta(seconds=seconds)).astimezone(find_zone(compiler.timezone))
    years, month = divmod(wall.month - 1 + months, 12)
    year = wall.year + years
    day = min(wall.day, calendar.monthrange(year, month + 1)[1])
    moved = datetime(year, month + 1, day, wall.hour, wall.minute, wall.second, tzinfo=wall.tzinfo)
    return round((moved - EPOCH).total_seconds()) * second + rest + ticks


def _between(use: Arguments) -> str:
    subject, low, high = use.values
    tests = f"{_compare(use.compiler, '>=', subject, low)} AND {_compare(use.compiler, '<=', subject, high)}"
    present = " AND ".join(f"{bound.sql} IS NOT NULL" for bound in (low, high) if bound.constant is None)
    return f"(CASE WHEN {present or 'true'} THEN {tests} END)"


def _like(use: Arguments) -> str:
    """Compile LIKE. Of two backslashes one is kept, which escapes `%`, `_` and itself; before others it means what REGEXP reads."""
    subject, written = _pattern(use)
    parts = re.findall(r"\\.|.", written.replace("\\\\", "\\"), re.DOTALL)
    if all(part[1:] in ("%", "_", "\\") for part in parts if part.startswith("\\")):
        return f"({subject} LIKE {quoted(''.join(parts))} ESCAPE '\\')"
    pattern = "".join(LIKE_WILDCARDS.get(part) or (part if part.startswith("\\") else re.escape(part)) for part in parts)
    return f"regexp_matches({subject}, {quoted(f'^{pattern}$')})"


def _match(use: Arguments) -> str:
    subject, written = _pattern(use)
    return f"regexp_matches({subject}, {quoted(written)})"


def _pattern(use: Arguments) -> tuple[str, str]:
    subject, pattern = use.values
    if not subject.is_text or not isinstance(pattern.constant, str):
        raise unsupported(f"{use.call.function.upper()} of other than text")
    return subject.sql, pattern.constant


def _arithmetic(sign: str) -> Rule:
    """Return the rule of one of `+ - * / %` in DOUBLE, as Java computes them."""

    def rule(use: Arguments) -> Value:
        if len(use.values) == 1:
            return _signed(use)
        first, second = map(double, use.values)
        if sign == "/":
            # The angle shows the sign of a zero.
            infinity = f"(CASE WHEN atan2({second}, -1) < 0 THEN -{INFINITY} ELSE {INFINITY} END)"
            return Value(f"(CASE WHEN {second} = 0 THEN {first} * {infinity} ELSE {first} / {second} END)", DOUBLE)
        if sign == "%":
            by_zero = f"CASE WHEN {first} IS NOT NULL THEN {NAN} END"
            return Value(f"(CASE WHEN {second} = 0 THEN {by_zero} ELSE {first} % {second} END)", DOUBLE)
        return Value(f"({first} {sign} {second})", DOUBLE)

    return rule


def _signed(use: Arguments) -> Value:
    (value,), positive = use.values, use.call.function.endswith("+")
    if isinstance(value.constant, int | float) and not isinstance(value.constant, bool):
        return constant(value.constant if positive else -value.constant)
    double(value)
    return value if positive else Value(f"(-{value.sql})", value.type)


def _compare(_: Compiler, sign: str, left: Value, right: Value) -> str:
    kinds = [value.type.kind if value.type else None for value in (left, right)]
    if None in kinds:
        return f"({left.sql} {sign} {right.sql})"
    if all(kind in ORDERED for kind in kinds):
        return _compare_numbers(sign, left, right)
    if TypeKind.DATE in kinds:
        return f"({_dated(left)} {sign} {_dated(right)})"
    if (left.is_text and right.is_text) or kinds[0] is kinds[1]:
        return f"({left.sql} {sign} {right.sql})"
    raise unsupported(f"a comparison of {left.type} and {right.type}")


def _sides(_: Compiler, left: Value, right: Value) -> tuple[str, str] | None:
    """Return the sides of an equation with a constant that is no NaN, and not 0, whose sign may matter."""
    kinds = [value.type.kind if value.type else None for value in (left, right)]
    right = _as_float(right, left)
    if all(kind in NUMBERS for kind in kinds) and right.constant == right.constant and not _is_zero(right):
        is_real = any(value.is_kind(*FLOATS) for value in (left, right))
        return (double(left), double(right)) if is_real else (left.sql, right.sql)
    return (left.sql, right.sql) if left.is_text and right.is_text else None


def _dated(value: Value) -> str:
    if value.is_kind(TypeKind.DATE):
        return value.sql
    if isinstance(value.constant, str):
        return f"TRY_CAST({value.sql} AS DATE)"
    raise unsupported(f"a comparison of a DATE and {value.type}")


def _compare_numbers(sign: str, left: Value, right: Value) -> str:
    """Compare numbers: integers exactly, others as DOUBLE. NaN fulfills none except that it is not a constant."""
    left, right = _as_float(left, right), _as_float(right, left)
    if not any(value.is_kind(*FLOATS) for value in (left, right)):
        return f"({left.sql} {sign} {right.sql})"
    if _is_zero(left):
        left, right, sign = right, left, MIRRORED[sign]
    if _is_zero(right) and left.is_kind(*FLOATS) and not left.sql.isidentifier():
        return _compare_with_zero(sign, double(left))
    compared = f"{double(left)} {sign} {double(right)}"
    numbers = [f"NOT isnan({value.sql})" for value in (left, right) if value.is_kind(*FLOATS) and not value.is_constant]
    if not numbers or (sign == "<>" and (left.is_constant or right.is_constant)):
        return f"({compared})"
    return f"(CASE WHEN ({compared}) IS NULL THEN NULL ELSE {compared} AND {' AND '.join(numbers)} END)"


def _as_float(value: Value, other: Value) -> Value:
    """Return a constant number that is compared with a FLOAT as FLOAT."""
    if value.is_constant and value.is_kind(*NUMBERS) and other.is_kind(TypeKind.FLOAT) and other.sql.isidentifier():
        return Value(float_sql(float(value.constant or 0)), other.type, True, value.constant)
    return value


def _is_zero(value: Value) -> bool:
    return value.is_constant and not isinstance(value.constant, bool | str) and value.constant == 0


def _compare_with_zero(sign: str, x: str) -> str:
    """Compare a computed number with 0, which -0.0 is less than."""
    negative = f"atan2({x}, -1) < 0"
    tests = {
        "=": f"{x} = 0 AND NOT {negative}",
        "<>": f"{x} <> 0 OR {negative}",
        "<": f"NOT isnan({x}) AND {negative}",
        ">=": f"NOT isnan({x}) AND NOT {negative}",
        "<=": f"NOT isnan({x}) AND {x} <= 0",
        ">": f"NOT isnan({x}) AND {x} > 0",
    }
    return f"({tests[sign]})"


_LOGIC: Final = logic(_compare, to_condition, _sides)
_PATTERNS: Final = both_ways({"like": _like, "match": _match})
LANGUAGE: Final = Language(
    {
        **FUNCTIONS,
        **_LOGIC,
        **both_ways({"between": _between}),
        **_PATTERNS,
        **{sign: _arithmetic(sign) for sign in "+-*/%"},
        "&": _LOGIC["and"],
        "|": _LOGIC["or"],
        "!": _LOGIC["not"],
        "nmatch": _PATTERNS["not match"],
        "unary-": _signed,
        "unary+": _signed,
    },
    _literal,
    cast,
    to_condition,
    unify,
)
