"""Declaration of Arrow functions: functions over the rows of a group that run as Python code, such as user-defined ones.

The rows of a group are passed as an Arrow table ordered by time: `time` (ticks, BIGINT), then `x0`, `x1`, … for the arguments that
are not constants. The function returns an array of its declared type: one value, or with `many` one element per result row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.compute.functions.aggregates import check_count
from headrace.compute.functions.stream_use import StreamUse
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
