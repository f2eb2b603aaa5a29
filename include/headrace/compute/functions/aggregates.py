"""Declaration of aggregate functions: arguments, result, and mergeable partial aggregates.

A partial is a column of a segment. `row` computes it from one row, `update` from many rows, `merge` from the partials of several
segments. The latter two are Spark aggregate expressions, so the value of a window never depends on how its rows were split into
segments. `final` computes the value from the partials of a finished window.

Columns of the expressions: `X` is the first argument, `Y` the second, `T` the instant in ticks, `ORDER` what orders rows (the
instant, and a tie-breaker if instants may be equal), `BEFORE` and `AFTER` the nearest points that have a value (structs of `t` and
`v`). Every other name is a partial of the same function. The binder, error messages and the function reference read these
declarations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Final, Generic, TypeVar

from headrace.compute.nodes import NULL, Column, Node, call, if_
from headrace.errors import TypeMismatchError
from headrace.model.expressions import Scalar
from headrace.model.time import Duration, Precision
from headrace.model.types import NUMBERS, STRINGS, DataType, TypeKind


class StreamUse(Enum):
    """Which streams may call a function.

    All, those whose windows have rows of one series (ONE_SERIES), those whose windows the clock closes (FORCED_CLOSE), or none.
    """

    ANY = "any"
    ONE_SERIES = "one series"
    FORCED_CLOSE = "forced close"
    NONE = "none"


X, Y, T, ORDER, BEFORE, AFTER = map(Column, ("x", "y", "t", "o", "before", "after"))
ANY: Final = frozenset(TypeKind)
NUMERIC: Final = frozenset(NUMBERS)
ORDERED: Final = NUMERIC | frozenset(STRINGS) | {TypeKind.TIMESTAMP, TypeKind.BOOL}
MEASURED: Final = NUMERIC | {TypeKind.TIMESTAMP}


@dataclass(frozen=True, slots=True)
class AggregateArguments:
    """The arguments of a call: the type of the first, and the others, which are constants or durations.

    Attributes:
        interval: Whether the windows are INTERVAL windows, whose borders lie between rows.
        types: The types of all leading arguments that are columns, BIGINT for the instant of the row.
        attributes: Named constants of the call.
    """

    function: str
    type: DataType
    constants: tuple[Scalar | Duration, ...]
    precision: Precision
    interval: bool = False
    types: tuple[DataType, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()

    def attribute(self, name: str, default: str) -> str:
        """Return an attribute of the call."""
        return dict(self.attributes).get(name, default)

    def number(self, index: int) -> float:
        """Return a numeric constant, or raise `TypeMismatchError`. Index 0 is the second argument."""
        value = self.constants[index]
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise TypeMismatchError(f"argument {index + 2} of {self.function} must be a constant number")
        return float(value) if isinstance(value, Decimal) else value

    def string(self, index: int) -> str:
        """Return a string constant, or raise `TypeMismatchError`. Index 0 is the second argument."""
        value = self.constants[index]
        if not isinstance(value, str):
            raise TypeMismatchError(f"argument {index + 2} of {self.function} must be a constant string")
        return value

    def duration(self, index: int) -> int:
        """Return a duration in ticks, or raise `TypeMismatchError`. Index 0 is the second argument."""
        value = self.constants[index]
        if not isinstance(value, Duration) or value.is_calendar or value.ticks(self.precision) < 1:
            raise TypeMismatchError(f"argument {index + 2} of {self.function} must be a duration such as 1s")
        return value.ticks(self.precision)


def check_count(function: str, min_arguments: int, max_arguments: int | None, count: int) -> None:
    """Raise `TypeMismatchError` if a function does not take this number of arguments. Without a maximum, it is None."""
    if count < min_arguments or (max_arguments is not None and count > max_arguments):
        more = "" if max_arguments == min_arguments else " or more" if max_arguments is None else f" to {max_arguments}"
        expected = f"{min_arguments}{more}"
        raise TypeMismatchError(f"{function} takes {expected} argument{'' if expected == '1' else 's'}, not {count}")


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TypedFunction(Generic[R]):
    """A function of `min_arguments` to `max_arguments` arguments, the first of a type that it accepts.

    `rule` returns the rule for the arguments of a call; `streams` are the streams that may use it.
    """

    name: str
    accepts: frozenset[TypeKind]
    rule: Callable[[AggregateArguments], R]
    summary: str
    min_arguments: int = 1
    max_arguments: int = 1
    streams: StreamUse = StreamUse.NONE

    def check_count(self, count: int) -> None:
        """Raise `TypeMismatchError` if it does not take this number of arguments."""
        check_count(self.name, self.min_arguments, self.max_arguments, count)

    def make_rule(self, arguments: AggregateArguments) -> R:
        """Return the rule for the arguments of a call, or raise `TypeMismatchError` if the first has an invalid type."""
        if arguments.type.kind not in self.accepts:
            raise TypeMismatchError(f"{self.name} does not take {arguments.type}")
        return self.rule(arguments)


@dataclass(frozen=True, slots=True)
class PartialRule:
    """Expressions of one partial column.

    Attributes:
        name: Name of the partial in other expressions of the function.
        row: None means that rows are aggregated before they are merged.
        direct: Replaces `update` if all rows of a window are aggregated at once. It leads to the same value.
    """

    name: str
    update: Node
    merge: Node
    row: Node | None = None
    direct: Node | None = None


@dataclass(frozen=True, slots=True)
class AggregateRule:
    """Result type and expressions of a call. With `many`, the value is an array with one result row per element."""

    type: DataType
    partials: tuple[PartialRule, ...]
    final: Node
    many: bool = False


@dataclass(frozen=True, slots=True)
class AggregateFunction(TypedFunction[AggregateRule]):
    """An aggregate function.

    Attributes:
        pick: Set for selection functions: picks the row with the least (`min`) or greatest (`max`) value of `order`, never one
            whose order is NULL. Plain columns in the same select list come from that row.
        bounded: Whether the size of the partials is independent of the number of rows.
        columns: How many leading arguments are columns: `{x}`, and `{y}` if there are two.
        one_series: Whether groups that are sure to mix series are refused, in queries too.
    """

    streams: StreamUse = StreamUse.ANY
    pick: str | None = None
    order: Node | None = None
    bounded: bool = True
    columns: int = 1
    one_series: bool = False

    @property
    def selects(self) -> bool:
        """Whether it is a selection function."""
        return self.pick is not None


def simple_partial(name: str, function: str, value: Node) -> PartialRule:
    return PartialRule(name, call(function, value), call(function, Column(name)), value)


def selected_row_partials(function: str, order: Node, value: Node) -> tuple[PartialRule, PartialRule]:
    """Return two partials: the order of the selected row, and a value from that row."""
    row = if_(order.is_null(), NULL, value)
    selection = f"{function}_by"
    value_partial = PartialRule("v", call(selection, value, order), call(selection, Column("v"), Column("k")), row)
    return simple_partial("k", function, order), value_partial


def list_partial(element: Node, present: Node) -> PartialRule:
    value = if_(present, element, NULL)
    row = call("present_list", value)
    return PartialRule("l", call("collect_list", value), call("flatten", call("collect_list", Column("l"))), row)
