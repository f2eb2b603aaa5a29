"""What a single-row function is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.functions.stream_use import StreamUse
from headrace.compute.terms import Term, double, string
from headrace.compute.types import is_text
from headrace.errors import TypeMismatchError
from headrace.model.time import Duration
from headrace.model.types import TypeKind


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a function is called with; `durations` holds the arguments written as such, None elsewhere."""

    function: str
    terms: tuple[Term, ...]
    durations: tuple[Duration | None, ...]
    expression_context: ExpressionContext

    def constant(self, place: int) -> object:
        """The value of an argument that must be constant."""
        constant = self.terms[place].constant
        if constant is None or constant.relative:
            raise TypeMismatchError(f"argument {place + 1} of {self.function} must be a constant")
        return constant.value

    def integer(self, place: int) -> int:
        value = self.constant(place)
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeMismatchError(f"argument {place + 1} of {self.function} must be a whole number")
        return value

    def words(self, place: int) -> str:
        value = self.constant(place)
        if not isinstance(value, str):
            raise TypeMismatchError(f"argument {place + 1} of {self.function} must be a string")
        return value

    def text(self, place: int) -> str:
        """The SQL of an argument that must be text."""
        term = self.terms[place]
        if term.type is not None and not is_text(term.type):
            raise TypeMismatchError(f"{self.function} takes text, not {term.type}")
        return string(term)

    def duration(self, place: int) -> Duration:
        found = self.durations[place]
        if found is None:
            raise TypeMismatchError(f"argument {place + 1} of {self.function} must be a duration such as 1s")
        return found


Build = Callable[[Arguments], Term]


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A single-row function of `least` to `most` arguments (None: any number)."""

    name: str
    least: int
    most: int | None
    build: Build
    summary: str
    streams: StreamUse = StreamUse.ANY

    def term(self, given: Arguments) -> Term:
        """The function applied; a `TypeMismatchError` where number or types of arguments do not fit."""
        count = len(given.terms)
        if count < self.least or (self.most is not None and count > self.most):
            raise TypeMismatchError(f"{self.name} takes {self.wanted()}, not {count}")
        return self.build(given)

    def wanted(self) -> str:
        if self.most == self.least:
            return f"{self.least} argument{'' if self.least == 1 else 's'}"
        return f"{self.least} {'or more' if self.most is None else f'to {self.most}'} arguments"


def number(term: Term) -> str:
    """The SQL of an argument that must be a number, as DOUBLE."""
    if term.type is not None and not (term.type.is_number or term.type.kind is TypeKind.BOOL):
        raise TypeMismatchError(f"a number is needed, not {term.type}")
    return double(term)


def finite(sql: str) -> str:
    """A DOUBLE, or NULL where it is no finite number."""
    return f"if(abs({sql}) <= 1.7976931348623157E308D, {sql}, NULL)"
