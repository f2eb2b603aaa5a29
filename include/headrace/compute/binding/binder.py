"""Expressions of the model become terms: every name resolved, every type known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.functions.scalars import Arguments
from headrace.compute.language import Language
from headrace.compute.terms import Constant, Term, literal, moment, same_instant, ticks
from headrace.errors import Error, NotFoundError, NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.expressions import Call, Case, Cast, ColumnRef, DurationLiteral, Expression, Literal, Star
from headrace.model.instants import parse_instant
from headrace.model.types import BIGINT, BOOL, TIMESTAMP, DataType, TypeKind


class Resolver(Protocol):
    """Where a binder asks for what depends on the place of an expression: over rows, over groups, over a union."""

    def whole(self, node: Expression) -> Term | None:
        """The term of an expression that is known as a whole, such as a group key."""

    def column(self, reference: ColumnRef) -> Term:
        """The term of a column; `NotFoundError` where there is none."""

    def aggregate(self, call: Call) -> Term | None:
        """The term of a call that is an aggregate; None where it is none; an error where aggregates cannot stand."""


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds expressions of one place."""

    resolver: Resolver
    expression_context: ExpressionContext
    language: Language

    def bind(self, node: Expression) -> Term:
        """The term of an expression; errors carry the span of the innermost part that is wrong."""
        try:
            return self.resolver.whole(node) or self.part(node)
        except Error as error:
            error.span = error.span or node.span
            raise

    def condition(self, node: Expression) -> str:
        """The text of an expression as a condition."""
        return self.language.operators.truth(self.bind(node))

    def part(self, node: Expression) -> Term:
        match node:
            case Literal(value=value):
                return literal(value)
            case DurationLiteral():
                return self.duration(node)
            case ColumnRef():
                return self.resolver.column(node)
            case Cast(operand=operand, type=type_):
                return self.cast(self.bind(operand), type_)
            case Case():
                return self.case(node)
            case Call():
                return self.call(node)
            case Star():
                raise ProgrammingError("* can stand only in the select list, in count(*), first(*), last(*) and last_row(*)")

    def duration(self, node: DurationLiteral) -> Term:
        if node.value.is_calendar:
            raise TypeMismatchError(f"{node.value} has no fixed length", hint="months and years stand in INTERVAL, or use d or w")
        value = node.value.ticks(self.expression_context.precision)
        return Term(ticks(value), BIGINT, Constant(value))

    def call(self, node: Call) -> Term:
        name, arguments, operators = node.function, node.arguments, self.language.operators
        if node.distinct:
            raise NotSupportedError(
                f"{name}(DISTINCT …) is not supported",
                hint=f"take {name} over a sub-query, FROM (SELECT DISTINCT …), or hyperloglog for an estimate of the number",
            )
        if name in self.language.present and not arguments:
            return self.language.present[name](self.expression_context)
        if (term := self.resolver.aggregate(node)) is not None:
            return term
        if name in operators.unary and len(arguments) == 1:
            return operators.unary[name](self.bind(arguments[0]))
        if name in operators.binary and len(arguments) == 2:
            return self.binary(name, self.bind(arguments[0]), self.bind(arguments[1]))
        if name in ("in", "not in"):
            return self.among(name, [self.bind(argument) for argument in arguments])
        if name in ("between", "not between"):
            return self.between(name, [self.bind(argument) for argument in arguments])
        return self.function(node)

    def binary(self, name: str, left: Term, right: Term) -> Term:
        if name in self.language.operators.comparisons:
            left, right = self.matched(left, right)
        return self.language.operators.binary[name](left, right)

    def comparison(self, sign: str, left: Term, right: Term) -> str:
        """Return a comparison as Spark SQL."""
        return self.binary(sign, left, right).sql

    def matched(self, left: Term, right: Term) -> tuple[Term, Term]:
        """Both sides as timestamps where one is."""
        if same_instant(left) or same_instant(right):
            zone, precision = self.expression_context.timezone, self.expression_context.precision
            instant_of = self.language.operators.instant
            return instant_of(left, zone, precision), instant_of(right, zone, precision)
        return left, right

    def among(self, name: str, terms: Sequence[Term]) -> Term:
        """`IN`: true where one is equal, NULL where none is and one is NULL."""
        subject, *choices = terms
        tests = [self.comparison("=", subject, choice) for choice in choices]
        found = f"({' OR '.join(tests)})"
        return Term(f"(NOT {found})" if name == "not in" else found, BOOL)

    def between(self, name: str, terms: Sequence[Term]) -> Term:
        subject, low, high = terms
        least = self.comparison(">=", subject, low)
        most = self.comparison("<=", subject, high)
        found = f"({least} AND {most})"
        return Term(f"(NOT {found})" if name == "not between" else found, BOOL)

    def cast(self, operand: Term, type_: DataType) -> Term:
        value = operand.constant.value if operand.constant else None
        if type_.kind is TypeKind.TIMESTAMP and isinstance(value, str):
            found = parse_instant(value, self.expression_context.timezone, self.expression_context.precision)
            return moment(found) if found is not None else Term("CAST(NULL AS BIGINT)", TIMESTAMP)
        return self.language.operators.cast(operand, type_, self.expression_context)

    def case(self, node: Case) -> Term:
        subject = self.bind(node.operand) if node.operand is not None else None
        branches = [(self.branch(subject, when), self.bind(then)) for when, then in node.branches]
        default = self.bind(node.default) if node.default is not None else literal(None)
        common, converted = self.language.operators.common, self.language.operators.converted
        type_ = common([*(then.type for _, then in branches), default.type])
        if type_ is None:
            return literal(None)
        shown = " ".join(f"WHEN {when} THEN {converted(then, type_)}" for when, then in branches)
        return Term(f"CASE {shown} ELSE {converted(default, type_)} END", type_)

    def branch(self, subject: Term | None, when: Expression) -> str:
        condition = self.bind(when)
        return self.language.operators.truth(condition) if subject is None else self.comparison("=", subject, condition)

    def function(self, node: Call) -> Term:
        function = self.language.scalar(node.function)
        if function is None:
            raise NotFoundError(
                f"function {node.function} does not exist", hint=nearest(node.function, self.language.functions), span=node.span
            )
        durations = tuple(argument.value if isinstance(argument, DurationLiteral) else None for argument in node.arguments)
        terms = tuple(
            literal(None) if isinstance(argument, DurationLiteral) else self.bind(argument) for argument in node.arguments
        )
        return function.term(Arguments(node.function, terms, durations, self.expression_context))


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint that names the most similar of what exists."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"did you mean {found[0]}?" if found else ""
