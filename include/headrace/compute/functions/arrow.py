"""Declaration of Arrow functions: functions over the rows of a group that run as Python code, such as user-defined ones.

The rows of a group are passed as an Arrow table ordered by time: `time` (ticks, BIGINT), then `x0`, `x1`, … for the arguments that
are not constants. The function returns an array of its declared type: one value, or with `many` one element per result row.

A `SeriesArrowFunction` takes the points of a whole series, and each value belongs to an instant, which need not be an input's.
The evaluation groups the rows by series, calls `apply_rule` for each group, and joins the result on time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from headrace.compute.functions.aggregates import StreamUse, check_count
from headrace.model.expressions import Scalar
from headrace.model.time import Duration, Precision
from headrace.model.types import DataType

if TYPE_CHECKING:
    import pyarrow as pa

TIME: Final = "time"


@dataclass(frozen=True, slots=True)
class ArrowArguments:
    """The arguments of a call: the types of its columns, then the constants and durations that follow them."""

    function: str
    types: tuple[DataType, ...]
    constants: tuple[Scalar | Duration, ...]
    precision: Precision


@dataclass(frozen=True, slots=True)
class ArrowRule:
    """Result type and code of a call. `apply` is sent to Spark's tasks, so it must be picklable."""

    type: DataType
    apply: Callable[[pa.Table], pa.Array]
    many: bool = False


@dataclass(frozen=True, slots=True)
class ArrowFunction:
    """A function over the rows of a group that takes `min_arguments` to `max_arguments` columns. `rule` checks the arguments."""

    name: str
    rule: Callable[[ArrowArguments], ArrowRule]
    summary: str
    min_arguments: int = 1
    max_arguments: int = 1
    streams: StreamUse = StreamUse.NONE

    def make_rule(self, arguments: ArrowArguments) -> ArrowRule:
        """Return the rule for the arguments of a call, or raise `TypeMismatchError`."""
        check_count(self.name, self.min_arguments, self.max_arguments, len(arguments.types))
        return self.rule(arguments)


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
    """What one use does: the type of `value`, and a function from `time` (ticks), `x0`, `x1`, … in order to `time` and `value`.

    `apply` is sent to Spark's tasks, so it must be picklable: a function of a module, or a `functools.partial` of one.
    """

    type: DataType
    apply: Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class SeriesArrowFunction:
    """A function over a whole series of `min_arguments` to `max_arguments` inputs (None: any number). `rule` checks them."""

    name: str
    rule: Callable[[SeriesArrowArguments], SeriesArrowRule]
    summary: str
    min_arguments: int = 1
    max_arguments: int | None = 1
    streams: StreamUse = StreamUse.NONE

    def make_rule(self, arguments: SeriesArrowArguments) -> SeriesArrowRule:
        """Return the rule for these arguments, or raise `TypeMismatchError`."""
        check_count(self.name, self.min_arguments, self.max_arguments, len(arguments.types))
        return self.rule(arguments)


def apply_rule(rule: SeriesArrowRule, rows: pa.Table) -> pa.Table:
    """Apply a function to the rows of one series, in any order: `time` in ticks, and a column `x0`, `x1`, … for each input.

    Rows in which all inputs are NULL are no points. Returns `time` and `value`, ordered by time, each instant once: of several
    values the last.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    inputs = [name for name in rows.column_names if name != TIME]
    present = reduce(pc.or_, (pc.is_valid(rows[name]) for name in inputs))
    points = rule.apply(rows.filter(present).sort_by(TIME).combine_chunks())
    numbered = points.append_column("place", pa.array(range(points.num_rows), pa.int64()))
    last = numbered.group_by(TIME).aggregate([("place", "max")]).sort_by(TIME)["place_max"]
    return points.take(last)
