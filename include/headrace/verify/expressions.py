"""Compile expressions to DuckDB SQL, by the tables of a language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.model.expressions import Call, Case, Cast, ColumnRef, DurationLiteral, Expression, Literal
from headrace.model.time import Duration, Precision
from headrace.model.types import BOOL, DataType
from headrace.verify.values import Value, constant, unsupported

COMPARISONS: Final = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
Leaf = Callable[[Expression], Value | None]


@dataclass(frozen=True, slots=True)
class Arguments:
    """One call of a function or an operator, and the values of its arguments."""

    compiler: Compiler
    call: Call
    values: tuple[Value, ...]

    @property
    def attributes(self) -> dict[str, str]:
        """The named constants."""
        return dict(self.call.attributes)

    def duration(self, position: int) -> Duration | None:
        """Return the argument at a position if it is written as a duration."""
        node = self.call.arguments[position] if position < len(self.values) else None
        return node.value if isinstance(node, DurationLiteral) else None

    def whole_number(self, position: int) -> int:
        """Return the argument at a position, which must be a constant integer."""
        value = self.values[position].constant
        if not isinstance(value, int) or isinstance(value, bool):
            raise unsupported(f"{self.call.function} with an argument {position + 1} that is not a constant integer")
        return value


Rule = Callable[[Arguments], Value]
Test = Callable[[Arguments], str]
Compare = Callable[["Compiler", str, Value, Value], str]
Sides = Callable[["Compiler", Value, Value], tuple[str, str] | None]
"""Returns two values converted so that `=` of SQL compares them; None if that takes more than a conversion."""


@dataclass(frozen=True, slots=True)
class Language:
    """What expressions mean in a language.

    Attributes:
        rules: How functions and operators are compiled, by name.
        literal: Returns the value of a constant of a form of its own; None for other expressions.
        unify: Converts values to one type, which is None if all are NULL.
    """

    rules: Mapping[str, Rule]
    literal: Callable[[Compiler, Expression], Value | None]
    cast: Callable[[Compiler, Value, DataType], Value]
    condition: Callable[[Value], str]
    unify: Callable[[Sequence[Value]], tuple[DataType | None, list[str]]]


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiles the expressions of one clause. `leaf` resolves what depends on the clause: columns, aggregates, group keys."""

    language: Language
    leaf: Leaf
    precision: Precision
    timezone: str

    def value(self, node: Expression) -> Value:
        """Compile an expression; `NotSupportedError` if verify does not support it."""
        own = self.leaf(node)
        own = self.language.literal(self, node) if own is None else own
        if own is not None:
            return own
        match node:
            case Literal(value=value):
                return constant(value)
            case Cast(operand=operand, type=type_):
                return self.language.cast(self, self.value(operand), type_)
            case Case():
                return self.case(node)
            case Call(function=function, arguments=arguments) if function in self.language.rules:
                return self.language.rules[function](Arguments(self, node, tuple(self.value(part) for part in arguments)))
            case Call(function=function):
                raise unsupported(f"the function {function}")
            case ColumnRef(name=name):
                raise unsupported(f"the column {name} here")
        raise unsupported(f"the expression {type(node).__name__} here")

    def condition(self, node: Expression) -> str:
        return self.language.condition(self.value(node))

    def case(self, node: Case) -> Value:
        """Compile CASE, all branches converted to one type."""
        subject = node.operand
        whens = [self.condition(when if subject is None else Call("=", (subject, when))) for when, _ in node.branches]
        thens = [self.value(then) for _, then in node.branches]
        thens.append(constant(None) if node.default is None else self.value(node.default))
        type_, sqls = self.language.unify(thens)
        if type_ is None:
            return constant(None)
        branches = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(whens, sqls, strict=False))
        return Value(f"(CASE {branches} ELSE {sqls[-1]} END)", type_)


def _predicate(test: Test) -> Rule:
    return lambda use: Value(test(use), BOOL)


def both_ways(tests: Mapping[str, Test]) -> dict[str, Rule]:
    """Return the rules of conditions and, with `not ` before their names, of their negations."""

    def negated(test: Test) -> Rule:
        return lambda use: Value(f"(NOT {test(use)})", BOOL)

    return {name: _predicate(test) for name, test in tests.items()} | {f"not {name}": negated(test) for name, test in tests.items()}


def logic(compare: Compare, condition: Callable[[Value], str], sides: Sides) -> dict[str, Rule]:
    """Return the rules of AND, OR, NOT, comparisons, IN, BETWEEN and IS NULL."""

    def junction(word: str) -> Test:
        return lambda use: f"({f' {word} '.join(condition(value) for value in use.values)})"

    def comparison(sign: str) -> Test:
        return lambda use: compare(use.compiler, sign, *use.values)

    def is_in(use: Arguments) -> str:
        subject, *choices = use.values
        listed: dict[tuple[str, DataType | None], list[str]] = {}
        tests: list[str] = []
        for choice in choices:
            plain = sides(use.compiler, subject, choice) if choice.is_constant else None
            if plain is None:
                tests.append(compare(use.compiler, "=", subject, choice))
            else:
                listed.setdefault((plain[0], choice.type), []).append(plain[1])
        tests += [f"{value} IN ({', '.join(constants)})" for (value, _), constants in listed.items()]
        return f"({' OR '.join(tests)})"

    def between(use: Arguments) -> str:
        subject, low, high = use.values
        return f"({compare(use.compiler, '>=', subject, low)} AND {compare(use.compiler, '<=', subject, high)})"

    return {
        **{name: _predicate(comparison(sign)) for name, sign in COMPARISONS.items()},
        **both_ways({"in": is_in, "between": between}),
        "and": _predicate(junction("AND")),
        "or": _predicate(junction("OR")),
        "not": _predicate(lambda use: f"(NOT {condition(use.values[0])})"),
        "is null": _predicate(lambda use: f"({use.values[0].sql} IS NULL)"),
        "is not null": _predicate(lambda use: f"({use.values[0].sql} IS NOT NULL)"),
    }
