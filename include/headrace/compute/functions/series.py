"""Declaration of series functions: one value per row, computed from the row and its neighbors in time.

Columns of the expressions: `X` is the argument, `T` the instant, `FIRST` and `VALUE` the columns computed before. `KEYS` and `TIES`
stand for the partition columns, and for those that order rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.compute.functions.aggregates import TypedFunction
from headrace.compute.nodes import TRUE, Column, Node, Over, call
from headrace.compute.plan import KEYS, TIES
from headrace.compute.windows.numbering import BEFORE_CURRENT_ROW
from headrace.model.types import DataType

FIRST, VALUE = Column("first"), Column("value")


def over(function: str, *operands: Node, frame: str = "") -> Node:
    """Return a function over the rows of a partition in order of time."""
    return Over(call(function, *operands), (KEYS,), (TIES,), frame)


def value_before(value: Node) -> Node:
    """Return the last value before a row that is not NULL."""
    return over("last", value, TRUE, frame=BEFORE_CURRENT_ROW)


@dataclass(frozen=True, slots=True)
class SeriesRule:
    """Expressions of a call, in order of evaluation.

    Attributes:
        before: Condition on the rows that take part.
        first: Intermediate column.
        keep: Condition on the rows that are returned.
        order: Orders the returned rows, if not by time.
        sparse: Whether NULL means that there is no point: a row without any other value is left out.
    """

    type: DataType
    value: Node
    first: Node | None = None
    before: Node | None = None
    keep: Node | None = None
    order: Node | None = None
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class SeriesFunction(TypedFunction[SeriesRule]):
    """A series function."""
