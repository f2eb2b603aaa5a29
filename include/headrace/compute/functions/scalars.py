"""Declaration of single-row functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.functions.aggregates import StreamUse, check_count
from headrace.compute.nodes import NULL, Node, call, double, if_
from headrace.compute.terms import Term, to_double, to_string
from headrace.compute.types import is_text
from headrace.errors import TypeMismatchError
from headrace.model.time import Duration
from headrace.model.types import TypeKind


@dataclass(frozen=True, slots=True)
class ScalarArguments:
    """The arguments and named constants of a call. `durations` holds those written as durations, None for the others."""

    function: str
    terms: tuple[Term, ...]
    durations: tuple[Duration | None, ...]
    expression_context: ExpressionContext
    attributes: tuple[tuple[str, str], ...] = ()

    def constant(self, index: int) -> object:
        """Return the value of a constant argument, or raise `TypeMismatchError`."""
        constant = self.terms[index].constant
        if constant is None or constant.relative:
            raise TypeMismatchError(f"argument {index + 1} of {self.function} must be a constant")
        return constant.value

    def integer(self, index: int) -> int:
        """Return a constant whole number, or raise `TypeMismatchError`."""
        value = self.constant(index)
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeMismatchError(f"argument {index + 1} of {self.function} must be a whole number")
        return value

    def string(self, index: int) -> str:
        """Return a constant string, or raise `TypeMismatchError`."""
        value = self.constant(index)
        if not isinstance(value, str):
            raise TypeMismatchError(f"argument {index + 1} of {self.function} must be a string")
        return value

    def text(self, index: int) -> Node:
        """Return a text argument, or raise `TypeMismatchError`."""
        term = self.terms[index]
        if term.type is not None and not is_text(term.type):
            raise TypeMismatchError(f"{self.function} takes text, not {term.type}")
        return to_string(term)

    def duration(self, index: int) -> Duration:
        """Return an argument written as a duration, or raise `TypeMismatchError`."""
        duration = self.durations[index]
        if duration is None:
            raise TypeMismatchError(f"argument {index + 1} of {self.function} must be a duration such as 1s")
        return duration


Build = Callable[[ScalarArguments], Term]


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A single-row function of `min_arguments` to `max_arguments` arguments, without limit if that is None.

    `unit` is the index of the argument that is a unit, which may have no fixed length. Other durations are numbers of ticks.
    """

    name: str
    min_arguments: int
    max_arguments: int | None
    build: Build
    summary: str
    streams: StreamUse = StreamUse.ANY
    unit: int | None = None

    def term(self, arguments: ScalarArguments) -> Term:
        """Return the term of a call, or raise `TypeMismatchError` if number or types of its arguments are wrong."""
        check_count(self.name, self.min_arguments, self.max_arguments, len(arguments.terms))
        return self.build(arguments)


def number(term: Term) -> Node:
    """Return a numeric argument as DOUBLE, or raise `TypeMismatchError`."""
    if term.type is not None and not (term.type.is_number or term.type.kind is TypeKind.BOOL):
        raise TypeMismatchError(f"a number is needed, not {term.type}")
    return to_double(term)


def finite(value: Node) -> Node:
    """Return a DOUBLE, or NULL if it is not finite."""
    return if_(call("abs", value) <= double(1.7976931348623157e308), value, NULL)
