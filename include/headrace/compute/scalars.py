"""Single-row functions in one table: what they take, what they give, and their Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.compute.calendar import local, to_utc
from headrace.compute.operators import real
from headrace.compute.terms import NOW, Term, text
from headrace.compute.types import DOUBLE, TIMESTAMP, is_text
from headrace.errors import TypeMismatchError
from headrace.model.time import Duration, Precision
from headrace.model.types import DataType


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the meaning of a scalar depends on besides its arguments."""

    precision: Precision
    timezone: str

    def today(self) -> Term:
        """Midnight of the present day in the statement's zone."""
        day = self.precision.ticks_per_second * 86_400
        here = local(NOW, self.timezone, self.precision)
        return Term(to_utc(f"({here} - pmod({here}, {day}L))", self.timezone, self.precision), TIMESTAMP)

    def parsed(self, sql: str) -> str:
        """Text as ticks; NULL where it is no timestamp."""
        micros = f"unix_micros(try_cast({sql} AS TIMESTAMP))"
        zoned = f"unix_micros(to_utc_timestamp(timestamp_micros({micros}), {text(self.timezone)}))"
        match self.precision:
            case Precision.MILLISECOND:
                return f"({zoned} div 1000L)"
            case Precision.MICROSECOND:
                return zoned
            case _:
                return f"({zoned} * 1000L)"


Build = Callable[[Sequence[Term], Sequence[Duration | None], Surroundings], Term]


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A single-row function; `least` to `most` arguments (`most` None: any number)."""

    name: str
    least: int
    most: int | None
    build: Build
    summary: str

    def term(self, terms: Sequence[Term], durations: Sequence[Duration | None], surroundings: Surroundings) -> Term:
        count = len(terms)
        if count < self.least or (self.most is not None and count > self.most):
            wanted = str(self.least) if self.most == self.least else f"{self.least} to {self.most or 'any number of'}"
            raise TypeMismatchError(f"{self.name} takes {wanted} arguments, not {count}")
        return self.build(terms, durations, surroundings)


def mathematical(sql: str) -> Build:
    """A function of one number that gives DOUBLE."""

    def build(terms: Sequence[Term], _: Sequence[Duration | None], __: Surroundings) -> Term:
        return Term(sql.format(x=numeric(terms[0])), DOUBLE)

    return build


def numeric(term: Term) -> str:
    if term.type is not None and is_text(term.type):
        raise TypeMismatchError(f"a number is needed, not {term.type}")
    return real(term)


def same_kind(sql: str) -> Build:
    """A function of one number that keeps its type."""

    def build(terms: Sequence[Term], _: Sequence[Duration | None], __: Surroundings) -> Term:
        type_ = terms[0].type or DOUBLE
        if not (type_.is_number or type_.kind.value == "BOOL"):
            raise TypeMismatchError(f"a number is needed, not {type_}")
        return Term(sql.format(x=terms[0].sql), type_)

    return build


TABLE: Final = (
    ScalarFunction("abs", 1, 1, same_kind("abs({x})"), "absolute value"),
    ScalarFunction("sqrt", 1, 1, mathematical("if({x} < 0D, NULL, sqrt({x}))"), "square root"),
)

SCALARS: Final[Mapping[str, ScalarFunction]] = {function.name: function for function in TABLE}

__all__ = ["SCALARS", "TABLE", "DataType", "ScalarFunction", "Surroundings"]
