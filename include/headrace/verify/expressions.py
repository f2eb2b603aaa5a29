"""Expressions of the language as DuckDB SQL, from what the language says of operators."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.model import instants
from headrace.model.expressions import Call, Case, Cast, ColumnRef, DurationLiteral, Expression, Literal
from headrace.model.time import Precision
from headrace.model.types import BIGINT, BOOL, DOUBLE, TIMESTAMP, DataType, TypeKind
from headrace.verify import values
from headrace.verify.scalars import SCALARS, Arguments
from headrace.verify.values import Value, real, text, truth, unknown, whole

COMPARISONS: Final = ("=", "<>", "!=", "<", "<=", ">", ">=")
TESTS: Final = (*COMPARISONS, "like", "not like", "match", "nmatch", "in", "not in", "between", "not between")
Leaf = Callable[[Expression], Value | None]


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiles expressions of one place. `leaf` knows what depends on the place (columns, aggregates, group keys)."""

    leaf: Leaf
    precision: Precision
    timezone: str

    def value(self, node: Expression) -> Value:
        """The value of an expression; `NotSupportedError` of what verify does not know."""
        found = self.leaf(node)
        return found if found is not None else self.inner(node)

    def condition(self, node: Expression) -> str:
        return truth(self.value(node))

    def shown(self, node: Expression) -> Value:
        """A value of a select list: there a comparison with NULL is false."""
        found = self.value(node)
        if isinstance(node, Call) and node.function in TESTS:
            return Value(f"coalesce({found.sql}, false)", BOOL)
        return found

    def inner(self, node: Expression) -> Value:
        match node:
            case Literal(value=value):
                return values.constant(value)
            case DurationLiteral(value=duration) if not duration.is_calendar:
                return values.constant(duration.ticks(self.precision))
            case Cast(operand=operand, type=type_):
                return self.cast(self.value(operand), type_)
            case Case():
                return self.case(node)
            case Call(function=function, arguments=arguments) if function in OPERATORS:
                return OPERATORS[function](self, [self.value(argument) for argument in arguments])
            case Call(function="now" | "today"):
                raise unknown("the present, which is another each time: write the instant itself")
            case Call(function=function, arguments=arguments) if function in SCALARS:
                return SCALARS[function](self.arguments(function, arguments))
            case Call(function=function):
                raise unknown(f"the function {function}")
            case ColumnRef(name=name):
                raise unknown(f"the column {name} here")
            case _:
                raise unknown(f"the expression {type(node).__name__} here")

    def arguments(self, function: str, nodes: tuple[Expression, ...]) -> Arguments:
        durations = tuple(node.value if isinstance(node, DurationLiteral) else None for node in nodes)
        given = tuple(
            values.constant(None) if isinstance(node, DurationLiteral) and node.value.is_calendar else self.value(node)
            for node in nodes
        )
        return Arguments(function, given, durations, self.precision, self.timezone)

    def cast(self, operand: Value, type_: DataType) -> Value:
        if type_.kind is TypeKind.TIMESTAMP and operand.is_text:
            return self.instant(operand, lenient=True)
        return Value(values.as_type(operand, type_), type_)

    def case(self, node: Case) -> Value:
        subject = None if node.operand is None else self.value(node.operand)
        branches = [(self.when(subject, when), self.value(then)) for when, then in node.branches]
        default = values.constant(None) if node.default is None else self.value(node.default)
        type_ = values.common([*(then.type for _, then in branches), default.type])
        if type_ is None:
            return values.constant(None)
        shown = " ".join(f"WHEN {when} THEN {values.converted(then, type_)}" for when, then in branches)
        return Value(f"(CASE {shown} ELSE {values.converted(default, type_)} END)", type_)

    def when(self, subject: Value | None, node: Expression) -> str:
        return self.condition(node) if subject is None else self.compare("=", subject, self.value(node))

    def instant(self, value: Value, *, lenient: bool = False) -> Value:
        """A timestamp; text is one where it is a constant, numbers are ticks."""
        if value.is_instant or value.type is None:
            return value
        if value.is_text:
            if not isinstance(value.constant, str):
                raise unknown("text of a column as a timestamp")
            found = instants.parse_instant(value.constant, self.timezone, self.precision)
            if found is None and not lenient:
                raise unknown(f"the timestamp {value.constant!r}")
            return Value("CAST(NULL AS BIGINT)", TIMESTAMP) if found is None else values.instant(found)
        if isinstance(value.constant, int | float):
            return values.instant(int(value.constant))
        return Value(whole(value), TIMESTAMP)

    def compare(self, sign: str, left: Value, right: Value) -> str:
        """Both sides as instants where one is, as numbers where one is a number, as text where both are."""
        if left.is_instant or right.is_instant:
            left, right = self.instant(left), self.instant(right)
        first, second = left.sql, right.sql
        if left.is_text != right.is_text and left.type is not None and right.type is not None:
            as_ = values.boolean if BOOL in (left.type, right.type) else real
            first, second = as_(left), as_(right)
        elif (left.type == BOOL) != (right.type == BOOL) and left.type is not None and right.type is not None:
            first, second = real(left), real(right)
        return f"({first} {'<>' if sign == '!=' else sign} {second})"


def arithmetic(sign: str) -> Callable[[Compiler, list[Value]], Value]:
    """`+ - * / %`: DOUBLE, NULL where the divisor is 0; instants move by ticks."""

    def build(compiler: Compiler, given: list[Value]) -> Value:
        if len(given) == 1:
            return negative(compiler, given)
        left, right = given
        if sign in "+-" and (left.is_instant or right.is_instant):
            return moved(sign, left, right)
        divisor = f"nullif({real(right)}, 0)" if sign in "/%" else real(right)
        return Value(f"({real(left)} {sign} {divisor})", DOUBLE)

    return build


def moved(sign: str, left: Value, right: Value) -> Value:
    """An instant and ticks give an instant, two instants their distance."""
    if left.is_instant and right.is_instant:
        return Value(f"({left.sql} - {right.sql})", BIGINT)
    first, second = (left.sql, whole(right)) if left.is_instant else (right.sql, whole(left))
    if isinstance(left.constant, int) and isinstance(right.constant, int):
        return values.instant(left.constant + right.constant if sign == "+" else left.constant - right.constant)
    return Value(f"({first} {sign} {second})", TIMESTAMP)


def negative(_: Compiler, given: list[Value]) -> Value:
    value = given[0].constant
    if isinstance(value, int | float) and not isinstance(value, bool) and not given[0].is_instant:
        return values.constant(-value)
    return Value(f"(-{real(given[0])})", DOUBLE)


def bits(sign: str) -> Callable[[Compiler, list[Value]], Value]:
    return lambda _, given: Value(f"({whole(given[0])} {sign} {whole(given[1])})", BIGINT)


def among(compiler: Compiler, given: list[Value]) -> str:
    subject, *choices = given
    return "(" + " OR ".join(compiler.compare("=", subject, choice) for choice in choices) + ")"


def between(compiler: Compiler, given: list[Value]) -> str:
    subject, low, high = given
    return f"({compiler.compare('>=', subject, low)} AND {compiler.compare('<=', subject, high)})"


def like(_: Compiler, given: list[Value]) -> str:
    """`%` any characters, `_` one; a backslash before one of them, or before itself, takes its meaning away."""
    subject, pattern = given
    if pattern.type is None:
        return "CAST(NULL AS BOOLEAN)"
    if not isinstance(pattern.constant, str):
        raise unknown("LIKE with a pattern that is not constant")
    parts = re.findall(r"\\[%_\\]|.", pattern.constant, re.DOTALL)
    meant = {"%": ".*", "_": "."}
    regex = "".join(meant.get(part) or re.escape(part[-1]) for part in parts)
    return f"regexp_full_match({text(subject)}, {values.quoted(regex)}, 's')"


def match(_: Compiler, given: list[Value]) -> str:
    return f"regexp_matches({text(given[0])}, {text(given[1])})"


def predicate(build: Callable[[Compiler, list[Value]], str], lead: str = "") -> Callable[[Compiler, list[Value]], Value]:
    return lambda compiler, given: Value(f"({lead}{build(compiler, given)})", BOOL)


def compared(sign: str) -> Callable[[Compiler, list[Value]], Value]:
    return lambda compiler, given: Value(compiler.compare(sign, *given), BOOL)


OPERATORS: Final[dict[str, Callable[[Compiler, list[Value]], Value]]] = {
    **{sign: arithmetic(sign) for sign in "+-*/%"},
    **{sign: compared(sign) for sign in COMPARISONS},
    "unary-": negative,
    "&": bits("&"),
    "|": bits("|"),
    "and": lambda _, given: Value(f"({truth(given[0])} AND {truth(given[1])})", BOOL),
    "or": lambda _, given: Value(f"({truth(given[0])} OR {truth(given[1])})", BOOL),
    "not": lambda _, given: Value(f"(NOT {truth(given[0])})", BOOL),
    "is null": lambda _, given: Value(f"({given[0].sql} IS NULL)", BOOL),
    "is not null": lambda _, given: Value(f"({given[0].sql} IS NOT NULL)", BOOL),
    "in": predicate(among),
    "not in": predicate(among, "NOT "),
    "between": predicate(between),
    "not between": predicate(between, "NOT "),
    "like": predicate(like),
    "not like": predicate(like, "NOT "),
    "match": predicate(match),
    "nmatch": predicate(match, "NOT "),
}
