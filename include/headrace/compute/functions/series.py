"""Declaration of series functions: one value per row, computed from the row and its neighbors in time by Spark window functions.

Placeholders in the templates: `{x}` is the argument, `{t}` the instant, `{keys}` the partition columns, `{ties}` the columns that
order rows, `{over}` both as an OVER clause, `{first}` and `{value}` the columns computed before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.compute.functions.aggregates import AggregateArguments, StreamUse, check_count
from headrace.errors import TypeMismatchError
from headrace.model.types import DataType, TypeKind


@dataclass(frozen=True, slots=True)
class SeriesRule:
    """Templates of a call, in order of evaluation.

    Attributes:
        before: Condition on the rows that take part.
        first: Intermediate column.
        value: The result.
        keep: Condition on the rows that are returned.
        order: Orders the returned rows, if not by time.
        sparse: Whether NULL means that there is no point: a row without any other value is left out.
    """

    type: DataType
    value: str
    first: str | None = None
    before: str | None = None
    keep: str | None = None
    order: str | None = None
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class SeriesFunction:
    """A series function of `min_arguments` to `max_arguments` arguments, the first of a type that it accepts."""

    name: str
    accepts: frozenset[TypeKind]
    rule: Callable[[AggregateArguments], SeriesRule]
    summary: str
    min_arguments: int = 1
    max_arguments: int = 1
    streams: StreamUse = StreamUse.NONE

    def check_count(self, count: int) -> None:
        """Raise `TypeMismatchError` if it does not take this number of arguments."""
        check_count(self.name, self.min_arguments, self.max_arguments, count)

    def make_rule(self, arguments: AggregateArguments) -> SeriesRule:
        """Return the rule for the arguments of a call, or raise `TypeMismatchError` if the first has an invalid type."""
        if arguments.type.kind not in self.accepts:
            raise TypeMismatchError(f"{self.name} does not take {arguments.type}")
        return self.rule(arguments)
