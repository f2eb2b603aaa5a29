"""What an aggregate function is: what it takes, what it gives, and how it is put together from partials.

A partial is a column of a segment. `row` makes it of one row, `update` of many rows, `merge` of the partials of several segments;
the latter two are Spark aggregate expressions, so that a window's value never depends on how its rows were cut into segments.
`final` turns the partials of a finished window into the value. In the templates `{x}`, `{y}`, … are the arguments, `{t}` is the
instant in ticks, `{o}` what orders rows (the instant, and more where instants may tie), `{before}` and `{after}` the nearest points
in time that have a value (structs of `t` and `v`), and every other name is a partial of the same function. The planner, the error
messages and the function reference read these declarations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.compute.functions.stream_use import StreamUse
from headrace.errors import TypeMismatchError
from headrace.model.expressions import Scalar
from headrace.model.time import Duration, Precision
from headrace.model.types import NUMBERS, STRINGS, DataType, TypeKind

ANY: Final = frozenset(TypeKind)
NUMERIC: Final = frozenset(NUMBERS)
ORDERED: Final = NUMERIC | frozenset(STRINGS) | {TypeKind.TIMESTAMP, TypeKind.BOOL}
MEASURED: Final = NUMERIC | {TypeKind.TIMESTAMP}


@dataclass(frozen=True, slots=True)
class Given:
    """What an aggregate is called with: the type of its first argument, and the others, which are constants or durations.

    `interval` tells that it is taken over INTERVAL windows, whose borders lie between rows.
    """

    function: str
    type: DataType
    constants: tuple[Scalar | Duration, ...]
    precision: Precision
    interval: bool = False

    def number(self, place: int) -> float:
        value = self.constants[place]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeMismatchError(f"argument {place + 2} of {self.function} must be a constant number")
        return value

    def words(self, place: int) -> str:
        value = self.constants[place]
        if not isinstance(value, str):
            raise TypeMismatchError(f"argument {place + 2} of {self.function} must be a constant string")
        return value

    def duration(self, place: int) -> int:
        """A duration in ticks."""
        value = self.constants[place]
        if not isinstance(value, Duration) or value.is_calendar or value.ticks(self.precision) < 1:
            raise TypeMismatchError(f"argument {place + 2} of {self.function} must be a duration such as 1s")
        return value.ticks(self.precision)


def check_count(function: str, least: int, most: int, count: int) -> None:
    """Refuse a number of arguments that a function does not take."""
    if not least <= count <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise TypeMismatchError(f"{function} takes {wanted} argument{'' if wanted == '1' else 's'}, not {count}")


@dataclass(frozen=True, slots=True)
class PartialRule:
    """One partial column: its short name and the templates that make and merge it; without `row`, rows are aggregated first.

    `direct` may take the place of `update` where all rows of a window are aggregated at once: the same value comes of it.
    """

    name: str
    update: str
    merge: str
    row: str | None = None
    direct: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """What one function does for given arguments. `many` tells that the value is an array, one result row for each element."""

    type: DataType
    partials: tuple[PartialRule, ...]
    final: str
    many: bool = False


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate: the kinds its first argument may have, the rule made from its arguments, and how many more it takes.

    A selection function picks the row whose `order` is the least or greatest (`pick`; rows whose order is NULL never); plain
    columns beside it come from that row. `bounded` tells that partials do not grow with the rows; `streams` which streams
    may use it.
    """

    name: str
    accepts: frozenset[TypeKind]
    rule: Callable[[Given], Rule]
    summary: str
    pick: str | None = None
    order: str | None = None
    least: int = 1
    most: int = 1
    bounded: bool = True
    streams: StreamUse = StreamUse.ANY

    @property
    def selects(self) -> bool:
        return self.pick is not None

    def check_count(self, count: int) -> None:
        check_count(self.name, self.least, self.most, count)

    def applied(self, given: Given) -> Rule:
        """The rule for given arguments; `TypeMismatchError` where the kind of the first is invalid."""
        if given.type.kind not in self.accepts:
            raise TypeMismatchError(f"{self.name} does not take {given.type}")
        return self.rule(given)


def kept(name: str, function: str, value: str) -> PartialRule:
    """A partial whose update and merge are the same function, such as min."""
    return PartialRule(name, f"{function}({value})", f"{function}({{{name}}})", value)


def chosen(function: str, order: str, value: str) -> tuple[PartialRule, PartialRule]:
    """The order of the chosen row, and a value of that row."""
    row = f"if({order} IS NULL, NULL, {value})"
    picked = PartialRule("v", f"{function}_by({value}, {order})", f"{function}_by({{v}}, {{k}})", row)
    return kept("k", function, order), picked
