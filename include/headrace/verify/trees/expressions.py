"""Expressions of the IoTDB language in DuckDB's SQL."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.model.expressions import Call, Case, Cast, DurationLiteral, Expression, Literal
from headrace.model.instants import parse_instant
from headrace.model.time import Precision
from headrace.model.types import BOOL, DOUBLE, TIMESTAMP, DataType, TypeKind
from headrace.verify.trees.scalars import FLOATS, INFINITY, NAN, NUMBERS, SCALARS, cast_to, double
from headrace.verify.values import Value, constant, instant, quoted, unsupported

COMPARISONS: Final = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
LOGIC: Final = {"and": "AND", "&": "AND", "or": "OR", "|": "OR"}
LIKE_WILDCARDS: Final = {"%": ".*?", "_": "."}
ORDERED: Final = (*NUMBERS, TypeKind.TIMESTAMP)


@dataclass(frozen=True, slots=True)
class TreeCompiler:
    """Compiles expressions over named columns; `leaf` compiles those that it knows, such as columns and aggregates."""

    leaf: Callable[[Expression], Value | None]
    precision: Precision
    timezone: str

    def value(self, node: Expression) -> Value:
        """Compile an expression."""
        own = self.leaf(node)
        if own is not None:
            return own
        ticks = self.constant_ticks(node)
        if ticks is not None:
            return instant(ticks)
        match node:
            case Literal(value=value):
                return constant(value)
            case Cast(operand=operand, type=type_):
                return cast_to(self.value(operand), type_)
            case Case():
                return self.case(node)
            case Call():
                return self.call(node)
        raise unsupported(f"the expression {node}")

    def condition(self, node: Expression) -> str:
        """Compile a condition."""
        value = self.value(node)
        if value.type not in (BOOL, None):
            raise unsupported(f"a condition of type {value.type}")
        return value.sql

    def ticks(self, node: Expression) -> int:
        """Return a bound of time, which has to be constant."""
        value = self.value(node)
        if not isinstance(value.constant, int):
            raise unsupported("a range of time that is not constant")
        return value.constant

    def constant_ticks(self, node: Expression) -> int | None:
        """Return a constant instant, such as `2024-05-01 + 1h`; None for other expressions."""
        match node:
            case Cast(operand=Literal(value=str(written)), type=type_, spelling="") if type_ == TIMESTAMP:
                return parse_instant(written, self.timezone, self.precision)
            case Call(function="+" | "-" as sign, arguments=(base, DurationLiteral(value=duration))):
                ticks = self.constant_ticks(base) if not isinstance(base, Literal) else base.value
                if duration.is_calendar or not isinstance(ticks, int):
                    raise unsupported(f"the instant {node}")
                return ticks + (1 if sign == "+" else -1) * duration.ticks(self.precision)
            case Call(function="now"):
                raise unsupported("now(), which changes with each run")
        return None

    def call(self, node: Call) -> Value:
        """Compile an operator or a function."""
        function, arguments = node.function, node.arguments
        if function in LOGIC:
            return Value(f"({f' {LOGIC[function]} '.join(self.condition(part) for part in arguments)})", BOOL)
        if function in ("not", "!"):
            return Value(f"(NOT {self.condition(arguments[0])})", BOOL)
        if function in COMPARISONS:
            return compare(COMPARISONS[function], *(self.value(part) for part in arguments))
        if function in ("+", "-", "*", "/", "%") and len(arguments) == 2:
            return arithmetic(function, *(self.value(part) for part in arguments))
        if function in ("unary-", "-", "unary+", "+"):
            return signed(function, self.value(arguments[0]))
        if function in ("is null", "is not null"):
            return Value(f"({self.value(arguments[0]).sql} {function.upper()})", BOOL)
        if function.removeprefix("not ") in ("between", "in"):
            return self.membership(function, node)
        if function in ("like", "not like", "match", "nmatch"):
            return self.pattern(function, arguments)
        if function in SCALARS:
            return SCALARS[function]([self.value(part) for part in arguments], dict(node.attributes))
        raise unsupported(f"the function {function}")

    def membership(self, function: str, node: Call) -> Value:
        """Compile BETWEEN and IN, by comparisons."""
        operand, *rest = (self.value(part) for part in node.arguments)
        if function.endswith("between"):
            tests = [compare(">=", operand, rest[0]).sql, compare("<=", operand, rest[1]).sql]
            bounds = [bound.sql for bound in rest if bound.constant is None]
            sql = " AND ".join(tests)
            sql = f"CASE WHEN {' AND '.join(f'{bound} IS NOT NULL' for bound in bounds)} THEN {sql} END" if bounds else sql
        else:
            sql = " OR ".join(compare("=", operand, choice).sql for choice in rest)
        return Value(f"(NOT ({sql}))" if function.startswith("not") else f"({sql})", BOOL)

    def pattern(self, function: str, arguments: tuple[Expression, ...]) -> Value:
        """Compile LIKE and REGEXP with a constant pattern."""
        subject, pattern = (self.value(part) for part in arguments)
        if not subject.is_text or not isinstance(pattern.constant, str):
            raise unsupported(f"{function.upper()} of other than text")
        if function in ("match", "nmatch"):
            matches = f"regexp_matches({subject.sql}, {quoted(pattern.constant)})"
        else:
            matches = like(subject.sql, pattern.constant)
        return Value(f"(NOT {matches})" if function in ("not like", "nmatch") else matches, BOOL)

    def case(self, node: Case) -> Value:
        """Compile a CASE: numbers are DOUBLE."""
        whens = [
            self.condition(when) if node.operand is None else self.condition(Call("=", (node.operand, when)))
            for when, _ in node.branches
        ]
        results = [self.value(then) for _, then in node.branches]
        results += [] if node.default is None else [self.value(node.default)]
        types = {result.type for result in results if result.type is not None}
        are_numbers = all(type_.kind in NUMBERS for type_ in types)
        if not are_numbers and len(types) > 1:
            raise unsupported("a CASE of several types")
        type_ = DOUBLE if are_numbers else next(iter(types))
        sqls = [double(result) if are_numbers else result.sql for result in results]
        branches = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(whens, sqls, strict=False))
        return Value(f"(CASE {branches}{f' ELSE {sqls[-1]}' if node.default is not None else ''} END)", type_)


def like(subject: str, written: str) -> str:
    """Return LIKE. Of two backslashes one is kept, which escapes `%`, `_` and itself; before others it means what REGEXP reads."""
    parts = re.findall(r"\\.|.", written.replace("\\\\", "\\"), re.DOTALL)
    if all(part[1:] in ("%", "_", "\\") for part in parts if part.startswith("\\")):
        return f"({subject} LIKE {quoted(''.join(parts))} ESCAPE '\\')"
    pattern = "".join(LIKE_WILDCARDS.get(part) or (part if part.startswith("\\") else re.escape(part)) for part in parts)
    return f"regexp_matches({subject}, {quoted(f'^{pattern}$')})"


def arithmetic(sign: str, left: Value, right: Value) -> Value:
    """Return `+ - * / %` in DOUBLE, as Java computes them."""
    first, second = double(left), double(right)
    if sign == "/":
        # The angle shows the sign of a zero.
        infinity = f"(CASE WHEN atan2({second}, -1) < 0 THEN -{INFINITY} ELSE {INFINITY} END)"
        return Value(f"(CASE WHEN {second} = 0 THEN {first} * {infinity} ELSE {first} / {second} END)", DOUBLE)
    if sign == "%":
        by_zero = f"CASE WHEN {first} IS NOT NULL THEN {NAN} END"
        return Value(f"(CASE WHEN {second} = 0 THEN {by_zero} ELSE {first} % {second} END)", DOUBLE)
    return Value(f"({first} {sign} {second})", DOUBLE)


def signed(function: str, value: Value) -> Value:
    """Return a number with a sign in front of it, of the same type."""
    if value.is_constant and isinstance(value.constant, int | float) and not isinstance(value.constant, bool):
        return constant(value.constant if function.endswith("+") else -value.constant)
    double(value)
    return value if function.endswith("+") else Value(f"(-{value.sql})", value.type)


def compare(sign: str, left: Value, right: Value) -> Value:
    """Return a comparison of values of comparable types."""
    kinds = [value.type.kind if value.type else None for value in (left, right)]
    if None in kinds:
        return Value(f"({left.sql} {sign} {right.sql})", BOOL)
    if all(kind in ORDERED for kind in kinds):
        return Value(compare_numbers(sign, left, right), BOOL)
    if TypeKind.DATE in kinds:
        left, right = (dated(value) for value in (left, right))
        kinds = [TypeKind.DATE, TypeKind.DATE]
    if (left.is_text and right.is_text) or kinds[0] is kinds[1]:
        return Value(f"({left.sql} {sign} {right.sql})", BOOL)
    raise unsupported(f"a comparison of {left.type} and {right.type}")


def is_zero(value: Value) -> bool:
    """Return whether a value is the constant 0."""
    return value.is_constant and not isinstance(value.constant, bool | str) and value.constant == 0


def compare_with_zero(sign: str, value: Value) -> str:
    """Return a comparison of a computed number with 0, which -0.0 is less than."""
    x = double(value)
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


def dated(value: Value) -> Value:
    """Return a date, also of a constant text."""
    if value.is_kind(TypeKind.DATE):
        return value
    if isinstance(value.constant, str):
        return Value(f"TRY_CAST({value.sql} AS DATE)", DataType(TypeKind.DATE))
    raise unsupported(f"a comparison of a DATE and {value.type}")


def compare_numbers(sign: str, left: Value, right: Value) -> str:
    """Return a comparison of numbers: integers exactly, others as DOUBLE. NaN fulfills none except that it is not a constant."""
    if not any(value.is_kind(*FLOATS) for value in (left, right)):
        return f"({left.sql} {sign} {right.sql})"
    if is_zero(left) and sign in MIRRORED:
        left, right, sign = right, left, MIRRORED[sign]
    if is_zero(right) and left.is_kind(*FLOATS) and not left.sql.isidentifier():
        return compare_with_zero(sign, left)
    compared = f"{double(left)} {sign} {double(right)}"
    if sign == "<>" and (left.is_constant or right.is_constant):
        return f"({compared})"
    numbers = [f"NOT isnan({value.sql})" for value in (left, right) if value.is_kind(*FLOATS) and not value.is_constant]
    if not numbers:
        return f"({compared})"
    return f"(CASE WHEN ({compared}) IS NULL THEN NULL ELSE {compared} AND {' AND '.join(numbers)} END)"
