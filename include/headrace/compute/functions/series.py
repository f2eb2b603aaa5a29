"""Declaration of series functions: one value per row, computed from the row and its neighbors in time by Spark window functions.

Placeholders in the templates: `{x}` is the argument, `{t}` the instant, `{keys}` the partition columns, `{ties}` the columns that
order rows, `{over}` both as an OVER clause, `{first}` and `{value}` the columns computed before.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.compute.functions.aggregates import TypedFunction
from headrace.model.types import DataType


@dataclass(frozen=True, slots=True)
class SeriesRule:
    """Templates of a call, in order of evaluation.

    Attributes:
        before: Condition on the rows that take part.
        first: Intermediate column.
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
class SeriesFunction(TypedFunction[SeriesRule]):
    """A series function."""
