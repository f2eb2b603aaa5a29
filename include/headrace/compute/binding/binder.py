"""Binding of expressions: every name resolved, every type determined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.functions.scalars import ScalarArguments, ScalarFunction
from headrace.compute.language import Language
from headrace.compute.nodes import NULL, Node, bigint, both, case, either, equals_any, if_, negated
from headrace.compute.terms import Constant, Term, instant_literal, is_instant, literal, shift_months
from headrace.errors import Error, NotFoundError, NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.model.expressions import Call, Case, Cast, ColumnRef, DurationLiteral, Expression, Literal, Star
from headrace.model.instants import parse_instant
from headrace.model.spelling import did_you_mean
from headrace.model.time import Duration
from headrace.model.types import BIGINT, BOOL, TIMESTAMP, DataType, TypeKind


class Resolver(Protocol):
    """Resolves what depends on where an expression occurs: over rows, over groups, or over points of an interpolation."""

    def resolve_expression(self, node: Expression) -> Term | None:
        """Return the term of an expression that is bound as a whole, such as a group key, or None."""

    def resolve_column(self, reference: ColumnRef) -> Term:
        """Return the term of a column, or raise `NotFoundError`."""

    def resolve_call(self, call: Call) -> Term | None:
        """Return the term of an aggregate call, None if it is not one, or raise an error if none is allowed here."""


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds the expressions of one clause."""

    resolver: Resolver
    expression_context: ExpressionContext
    language: Language

    def bind(self, node: Expression) -> Term:
        """Return the term of an expression. Errors carry the span of the innermost wrong part."""
        try:
            return self.resolver.resolve_expression(node) or self._bind_node(node)
        except Error as error:
            error.span = error.span or node.span
            raise

    def condition(self, node: Expression) -> Node:
        """Return an expression as a condition."""
        return self.language.operators.truth(self.bind(node))

    def _bind_node(self, node: Expression) -> Term:
        match node:
            case Literal(value=value):
                return literal(value)
            case DurationLiteral():
                return self._bind_duration(node)
            case ColumnRef():
                return self.resolver.resolve_column(node)
            case Cast(operand=operand, type=type_, column=column) if column and self.language.operators.assign is not None:
                return self.language.operators.assign(self.bind(operand), type_, column, self.expression_context)
            case Cast(operand=operand, type=type_):
                return self._bind_cast(self.bind(operand), type_)
            case Case():
                return self._bind_case(node)
            case Call():
                return self._bind_call(node)
            case Star():
                raise ProgrammingError("* is allowed only in the select list, count(*), first(*), last(*) and last_row(*)")

    def _bind_duration(self, node: DurationLiteral) -> Term:
        if node.value.is_calendar:
            raise TypeMismatchError(
                f"{node.value} has no fixed length",
                hint="use weeks, days or shorter units; only timestamps and INTERVAL take months and years",
            )
        value = node.value.ticks(self.expression_context.precision)
        return Term(bigint(value), BIGINT, Constant(value))

    def _bind_shift(self, sign: str, moved: Expression, duration: Duration) -> Term:
        """Return an instant moved by a duration. A text is the instant that it means."""
        base, zone, precision = self.bind(moved), self.expression_context.timezone, self.expression_context.precision
        if isinstance(base.constant_value, str) and parse_instant(base.constant_value, zone, precision) is not None:
            base = self.language.operators.instant(base, zone, precision)
        if duration.is_calendar and is_instant(base):
            return shift_months(base, duration.months if sign == "+" else -duration.months, zone, precision)
        return self._apply_binary(sign, base, self._bind_duration(DurationLiteral(duration, moved.span)))

    def _bind_call(self, node: Call) -> Term:
        name, arguments, operators = node.function, node.arguments, self.language.operators
        match node:
            case Call(function="+" | "-", arguments=(moved, DurationLiteral(value=duration))):
                return self._bind_shift(name, moved, duration)
            case Call(function="+", arguments=(DurationLiteral(value=duration), moved)):
                return self._bind_shift(name, moved, duration)
        if node.distinct:
            hint = f"take {name} over a sub-query, FROM (SELECT DISTINCT …), or use hyperloglog for an estimate of the number"
            raise NotSupportedError(f"{name}(DISTINCT …) is not supported", hint=hint)
        if name in self.language.present and not arguments:
            return self.language.present[name](self.expression_context)
        if (term := self.resolver.resolve_call(node)) is not None:
            return term
        if name in operators.unary and len(arguments) == 1:
            return operators.unary[name](self.bind(arguments[0]))
        if name in operators.binary and len(arguments) == 2:
            return self._apply_binary(name, self.bind(arguments[0]), self.bind(arguments[1]))
        if name in ("in", "not in"):
            return self._bind_in(name, [self.bind(argument) for argument in arguments])
        if name in ("between", "not between"):
            return self._bind_between(name, [self.bind(argument) for argument in arguments])
        return self._bind_function(node)

    def _apply_binary(self, name: str, left: Term, right: Term) -> Term:
        if name in self.language.operators.comparisons:
            left, right = self._match_instants(left, right)
        return self.language.operators.binary[name](left, right)

    def comparison(self, sign: str, left: Term, right: Term) -> Node:
        """Return a comparison."""
        return self._apply_binary(sign, left, right).node

    def _match_instants(self, left: Term, right: Term) -> tuple[Term, Term]:
        if is_instant(left) or is_instant(right):
            zone, precision = self.expression_context.timezone, self.expression_context.precision
            instant_of = self.language.operators.instant
            return instant_of(left, zone, precision), instant_of(right, zone, precision)
        return left, right

    def _bind_in(self, name: str, terms: Sequence[Term]) -> Term:
        """Return `IN`: true if a choice is equal, NULL if none is and one is NULL."""
        subject, *choices = terms
        converted = [self.language.operators.choice(subject, choice) for choice in choices]
        test = equals_any(self.comparison("=", subject, choice) for choice in converted)
        return Term(negated(test) if name == "not in" else test, BOOL)

    def _bind_between(self, name: str, terms: Sequence[Term]) -> Term:
        subject, low, high = terms
        test = both(self.comparison(">=", subject, low), self.comparison("<=", subject, high))
        if self.language.nulls.bounds_between and (bounds := [bound.node for bound in (low, high) if bound.constant is None]):
            test = if_(either(*(bound.is_null() for bound in bounds)), NULL, test)
        return Term(negated(test) if name == "not between" else test, BOOL)

    def _bind_cast(self, operand: Term, type_: DataType) -> Term:
        value = operand.constant_value
        if type_.kind is TypeKind.TIMESTAMP and isinstance(value, str):
            instant = parse_instant(value, self.expression_context.timezone, self.expression_context.precision)
            return instant_literal(instant) if instant is not None else Term(NULL.cast("bigint"), TIMESTAMP)
        return self.language.operators.cast(operand, type_, self.expression_context)

    def _bind_case(self, node: Case) -> Term:
        subject = self.bind(node.operand) if node.operand is not None else None
        branches = [(self._bind_branch(subject, when), self.bind(then)) for when, then in node.branches]
        default = self.bind(node.default) if node.default is not None else literal(None)
        operators = self.language.operators
        type_ = operators.common_type([*(then.type for _, then in branches), default.type])
        if type_ is None:
            return literal(None)
        results = [(when, operators.convert(then, type_)) for when, then in branches]
        return Term(case(results, operators.convert(default, type_)), type_)

    def _bind_branch(self, subject: Term | None, when: Expression) -> Node:
        condition = self.bind(when)
        return self.language.operators.truth(condition) if subject is None else self.comparison("=", subject, condition)

    def _bind_function(self, node: Call) -> Term:
        function = self.language.function(node.function, ScalarFunction)
        if function is None:
            message = f"function {node.function} does not exist"
            raise NotFoundError(message, hint=did_you_mean(node.function, self.language.functions), span=node.span)
        durations = tuple(argument.value if isinstance(argument, DurationLiteral) else None for argument in node.arguments)
        terms = tuple(
            literal(None) if isinstance(argument, DurationLiteral) and index == function.unit else self.bind(argument)
            for index, argument in enumerate(node.arguments)
        )
        return function.term(ScalarArguments(node.function, terms, durations, self.expression_context, node.attributes))
