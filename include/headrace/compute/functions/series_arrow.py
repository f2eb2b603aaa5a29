"""What a function over a whole series is that no Spark expression says: from an Arrow table of points to one of other points.

Unlike an `ArrowFunction`, whose value belongs to a group of rows, each value here belongs to an instant, which need not be that of
an input. The evaluation groups the rows by series, calls `apply_rule` for each group, and joins the result on time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from headrace.compute.functions.aggregates import check_count
from headrace.compute.functions.stream_use import StreamUse
from headrace.model.time import Precision
from headrace.model.types import DataType

if TYPE_CHECKING:
    import pyarrow as pa

TIME: Final = "time"
VALUE: Final = "value"


@dataclass(frozen=True, slots=True)
class SeriesArrowArguments:
    """What a call gives: the types of its inputs, and its named constants."""

    function: str
    types: tuple[DataType, ...]
    attributes: tuple[tuple[str, str], ...]
    precision: Precision


@dataclass(frozen=True, slots=True)
class SeriesArrowRule:
    """What one use does.

    Attributes:
        type: The type of `value`.
        apply: From `time` (ticks) and `x0`, `x1`, … in the order of time to `time` and `value`. It is sent to Spark's tasks, so it
            must be picklable: a function of a module, or a `functools.partial` of one.
    """

    type: DataType
    apply: Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class SeriesArrowFunction:
    """A function over a whole series.

    It takes `min_arguments` to `max_arguments` inputs (None: any number); `rule` checks them.
    """

    name: str
    rule: Callable[[SeriesArrowArguments], SeriesArrowRule]
    summary: str
    min_arguments: int = 1
    max_arguments: int | None = 1
    streams: StreamUse = StreamUse.NONE

    def make_rule(self, arguments: SeriesArrowArguments) -> SeriesArrowRule:
        """Return the rule for these arguments, or raise `TypeMismatchError`."""
        check_count(
            self.name,
            self.min_arguments,
            len(arguments.types) if self.max_arguments is None else self.max_arguments,
            len(arguments.types),
        )
        return self.rule(arguments)


def apply_rule(rule: SeriesArrowRule, rows: pa.Table) -> pa.Table:
    """Apply a function to the rows of one series, in any order.

    Args:
        rule: What `SeriesArrowFunction.make_rule` returned.
        rows: `time` as BIGINT ticks, and a column `x0`, `x1`, … for each input. Rows in which all inputs are NULL are no points.

    Returns:
        `time` and `value`, ordered by time, each instant once: of several values the last.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    inputs = [name for name in rows.column_names if name != TIME]
    present = reduce(pc.or_, (pc.is_valid(rows[name]) for name in inputs))
    points = rule.apply(rows.filter(present).sort_by(TIME).combine_chunks())
    numbered = points.append_column("place", pa.array(range(points.num_rows), pa.int64()))
    last = numbered.group_by(TIME).aggregate([("place", "max")]).sort_by(TIME)["place_max"]
    return points.take(last)
