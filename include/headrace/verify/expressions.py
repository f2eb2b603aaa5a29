"""Compile expressions to DuckDB SQL, from the language's definition of each operator."""

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
from headrace.verify.values import Value, to_bigint, to_condition, to_double, to_text, unsupported

COMPARISONS: Final = ("=", "<>", "!=", "<", "<=", ">", ">=")
TESTS: Final = (*COMPARISONS, "like", "not like", "match", "nmatch", "in", "not in", "between", "not between")
Leaf = Callable[[Expression], Value | None]


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiles the expressions of one clause. `leaf` resolves what depends on the clause: columns, aggregates, group keys."""

    leaf: Leaf
    precision: Precision
    timezone: str

    def value(self, node: Expression) -> Value:
        """Compile an expression.

        Raises:
            NotSupportedError: Verify does not support it.
        """
        value = self.leaf(node)
        return value if value is not None else self.compile_inner(node)

    def condition(self, node: Expression) -> str:
        """Compile a condition to a BOOLEAN."""
        return to_condition(self.value(node))

    def select_value(self, node: Expression) -> Value:
        """Compile an item of a select list, where a comparison with NULL is false."""
        value = self.value(node)
        if isinstance(node, Call) and node.function in TESTS:
            return Value(f"coalesce({value.sql}, false)", BOOL)
        return value

    def compile_inner(self, node: Expression) -> Value:
        """Compile an expression that `leaf` does not resolve."""
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
                raise unsupported("the current time, which changes: write the instant itself")
            case Call(function=function, arguments=arguments) if function in SCALARS:
                return SCALARS[function](self.arguments(function, arguments))
            case Call(function=function):
                raise unsupported(f"the function {function}")
            case ColumnRef(name=name):
                raise unsupported(f"the column {name} here")
            case _:
                raise unsupported(f"the expression {type(node).__name__} here")

    def arguments(self, function: str, nodes: tuple[Expression, ...]) -> Arguments:
        """Compile the arguments of a function call."""
        durations = tuple(node.value if isinstance(node, DurationLiteral) else None for node in nodes)
        arguments = tuple(
            values.constant(None) if isinstance(node, DurationLiteral) and node.value.is_calendar else self.value(node)
            for node in nodes
        )
        return Arguments(function, arguments, durations, self.precision, self.timezone)

    def cast(self, operand: Value, type_: DataType) -> Value:
        """Compile CAST."""
        if type_.kind is TypeKind.TIMESTAMP and operand.is_text:
            return self.instant(operand, lenient=True)
        return Value(values.cast_or_null(operand, type_), type_)

    def case(self, node: Case) -> Value:
        """Compile CASE, all branches converted to one type."""
        subject = None if node.operand is None else self.value(node.operand)
        branches = [(self.when(subject, when), self.value(then)) for when, then in node.branches]
        default = values.constant(None) if node.default is None else self.value(node.default)
        type_ = values.common_type([*(then.type for _, then in branches), default.type])
        if type_ is None:
            return values.constant(None)
        whens = " ".join(f"WHEN {when} THEN {values.convert(then, type_)}" for when, then in branches)
        return Value(f"(CASE {whens} ELSE {values.convert(default, type_)} END)", type_)

    def when(self, subject: Value | None, node: Expression) -> str:
        """Compile the condition of one branch."""
        return self.condition(node) if subject is None else self.compare("=", subject, self.value(node))

    def instant(self, value: Value, *, lenient: bool = False) -> Value:
        """Convert a value to a timestamp: text must be constant, numbers are ticks."""
        if value.is_instant or value.type is None:
            return value
        if value.is_text:
            if not isinstance(value.constant, str):
                raise unsupported("text of a column as a timestamp")
            ticks = instants.parse_instant(value.constant, self.timezone, self.precision)
            if ticks is None and not lenient:
                raise unsupported(f"the timestamp {value.constant!r}")
            return Value("CAST(NULL AS BIGINT)", TIMESTAMP) if ticks is None else values.instant(ticks)
        if isinstance(value.constant, int | float):
            return values.instant(int(value.constant))
        return Value(to_bigint(value), TIMESTAMP)

    def compare(self, sign: str, left: Value, right: Value) -> str:
        """Compare two values: as instants if either is one, as numbers if either is one, else as text."""
        if left.is_instant or right.is_instant:
            left, right = self.instant(left), self.instant(right)
        first, second = left.sql, right.sql
        if left.is_text != right.is_text and left.type is not None and right.type is not None:
            convert = values.to_bool if BOOL in (left.type, right.type) else to_double
            first, second = convert(left), convert(right)
        elif (left.type == BOOL) != (right.type == BOOL) and left.type is not None and right.type is not None:
            first, second = to_double(left), to_double(right)
        return f"({first} {'<>' if sign == '!=' else sign} {second})"


def arithmetic(sign: str) -> Callable[[Compiler, list[Value]], Value]:
    """Return the builder of one of `+ - * / %`: DOUBLE, NULL if the divisor is 0; instants move by ticks."""

    def build(compiler: Compiler, operands: list[Value]) -> Value:
        if len(operands) == 1:
            return negate(compiler, operands)
        left, right = operands
        if sign in "+-" and (left.is_instant or right.is_instant):
            return shift_instant(sign, left, right)
        divisor = f"nullif({to_double(right)}, 0)" if sign in "/%" else to_double(right)
        return Value(f"({to_double(left)} {sign} {divisor})", DOUBLE)

    return build


def shift_instant(sign: str, left: Value, right: Value) -> Value:
    """Move an instant by ticks, or subtract two instants."""
    if left.is_instant and right.is_instant:
        return Value(f"({left.sql} - {right.sql})", BIGINT)
    first, second = (left.sql, to_bigint(right)) if left.is_instant else (right.sql, to_bigint(left))
    if isinstance(left.constant, int) and isinstance(right.constant, int):
        return values.instant(left.constant + right.constant if sign == "+" else left.constant - right.constant)
    return Value(f"({first} {sign} {second})", TIMESTAMP)


def negate(_: Compiler, operands: list[Value]) -> Value:
    """Negate a number."""
    value = operands[0].constant
    if isinstance(value, int | float) and not isinstance(value, bool) and not operands[0].is_instant:
        return values.constant(-value)
    return Value(f"(-{to_double(operands[0])})", DOUBLE)


def bitwise(sign: str) -> Callable[[Compiler, list[Value]], Value]:
    """Return the builder of a bitwise operator."""
    return lambda _, operands: Value(f"({to_bigint(operands[0])} {sign} {to_bigint(operands[1])})", BIGINT)


def is_in(compiler: Compiler, operands: list[Value]) -> str:
    """Compile IN."""
    subject, *choices = operands
    return "(" + " OR ".join(compiler.compare("=", subject, choice) for choice in choices) + ")"


def between(compiler: Compiler, operands: list[Value]) -> str:
    """Compile BETWEEN."""
    subject, low, high = operands
    return f"({compiler.compare('>=', subject, low)} AND {compiler.compare('<=', subject, high)})"


def like(_: Compiler, operands: list[Value]) -> str:
    """Compile LIKE: `%` is any characters, `_` is one; a backslash escapes either, or itself."""
    subject, pattern = operands
    if pattern.type is None:
        return "CAST(NULL AS BOOLEAN)"
    if not isinstance(pattern.constant, str):
        raise unsupported("LIKE with a pattern that is not constant")
    tokens = re.findall(r"\\[%_\\]|.", pattern.constant, re.DOTALL)
    wildcards = {"%": ".*", "_": "."}
    regex = "".join(wildcards.get(token) or re.escape(token[-1]) for token in tokens)
    return f"regexp_full_match({to_text(subject)}, {values.quoted(regex)}, 's')"


def match(_: Compiler, operands: list[Value]) -> str:
    """Compile MATCH, a regular expression."""
    return f"regexp_matches({to_text(operands[0])}, {to_text(operands[1])})"


def predicate(build: Callable[[Compiler, list[Value]], str], lead: str = "") -> Callable[[Compiler, list[Value]], Value]:
    """Return the operator of a condition, with `lead` (such as NOT) before it."""
    return lambda compiler, operands: Value(f"({lead}{build(compiler, operands)})", BOOL)


def comparison(sign: str) -> Callable[[Compiler, list[Value]], Value]:
    """Return the operator of a comparison."""
    return lambda compiler, operands: Value(compiler.compare(sign, *operands), BOOL)


OPERATORS: Final[dict[str, Callable[[Compiler, list[Value]], Value]]] = {
    **{sign: arithmetic(sign) for sign in "+-*/%"},
    **{sign: comparison(sign) for sign in COMPARISONS},
    "unary-": negate,
    "&": bitwise("&"),
    "|": bitwise("|"),
    "and": lambda _, operands: Value(f"({to_condition(operands[0])} AND {to_condition(operands[1])})", BOOL),
    "or": lambda _, operands: Value(f"({to_condition(operands[0])} OR {to_condition(operands[1])})", BOOL),
    "not": lambda _, operands: Value(f"(NOT {to_condition(operands[0])})", BOOL),
    "is null": lambda _, operands: Value(f"({operands[0].sql} IS NULL)", BOOL),
    "is not null": lambda _, operands: Value(f"({operands[0].sql} IS NOT NULL)", BOOL),
    "in": predicate(is_in),
    "not in": predicate(is_in, "NOT "),
    "between": predicate(between),
    "not between": predicate(between, "NOT "),
    "like": predicate(like),
    "not like": predicate(like, "NOT "),
    "match": predicate(match),
    "nmatch": predicate(match, "NOT "),
}
