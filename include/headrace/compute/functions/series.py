"""What a function of a row and its neighbors in time is: one value a row, made of window expressions of Spark.

In the templates `{x}` is the argument, `{t}` the instant, `{keys}` the partition's columns, `{ties}` the columns that order rows,
`{over}` both, `{first}` and `{value}` what was computed before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.compute.functions.aggregates import Given, check_count
from headrace.compute.functions.stream_use import StreamUse
from headrace.errors import TypeMismatchError
from headrace.model.types import DataType, TypeKind


@dataclass(frozen=True, slots=True)
class SeriesRule:
    """How one use is computed: rows that do not pass `before` are left out, then `first` is a column beside the rows, then
    `value` beside that, and rows that do not pass `keep` are left out. `order` is how the rows come where it is not by time.
    """

    type: DataType
    value: str
    first: str | None = None
    before: str | None = None
    keep: str | None = None
    order: str | None = None


@dataclass(frozen=True, slots=True)
class SeriesFunction:
    """A function of neighbours: kinds of its first argument, the rule, and how many arguments it takes in all."""

    name: str
    accepts: frozenset[TypeKind]
    rule: Callable[[Given], SeriesRule]
    summary: str
    least: int = 1
    most: int = 1
    streams: StreamUse = StreamUse.NONE

    def check_count(self, count: int) -> None:
        check_count(self.name, self.least, self.most, count)

    def applied(self, given: Given) -> SeriesRule:
        if given.type.kind not in self.accepts:
            raise TypeMismatchError(f"{self.name} does not take {given.type}")
        return self.rule(given)
