"""Declaration of Arrow functions: functions over the rows of a group that run as Python code, such as user-defined ones.

The rows of a group are passed as an Arrow table ordered by time: `time` (ticks, BIGINT), then `x0`, `x1`, … for the arguments that
are not constants. The function returns one value of its declared type.

A `SeriesArrowFunction` takes the points of whole series, and each value belongs to an instant, which need not be an input's. The
evaluation passes the rows of each series to a `SeriesStream`, and joins the points that it returns on series and time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.compute.functions.aggregates import StreamUse, check_count
from headrace.compute.functions.scalars import ScalarArguments, ScalarFunction
from headrace.compute.nodes import PythonCall
from headrace.compute.terms import Term
from headrace.compute.types import spark_type
from headrace.model.expressions import Scalar
from headrace.model.time import Duration, Precision
from headrace.model.types import BIGINT, DataType
from headrace.storage.spark.python_calls import define

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.compute.functions.series_streams import SeriesStream

TIME: Final = "time"
"""The column of the rows of a group or series that has their times."""
STATE: Final = "state"
"""The column of the rows of a group that has serialized states."""


@dataclass(frozen=True, slots=True)
class ArrowArguments:
    """The arguments of a call: the types of its columns, the constants and durations that follow them, and its named constants.

    `inputs` are the columns as SQL.
    """

    function: str
    types: tuple[DataType, ...]
    constants: tuple[Scalar | Duration, ...]
    precision: Precision
    attributes: tuple[tuple[str, str], ...] = ()
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArrowRule:
    """Result type and code of a call, which is sent to Spark's tasks, so it must be picklable.

    `apply` returns a value for each of some groups, whose rows have the group's number, from 0, in a first column `group`. If
    groups can be computed from parts, `merge` returns `state` (BINARY) and `value` of each. Its rows have a last column `state`,
    which is not NULL if the row is such a state. `note` says where it runs, for EXPLAIN.
    """

    type: DataType
    apply: Callable[[pa.Table, int], pa.Array]
    merge: Callable[[pa.Table, int], pa.Table] | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ArrowFunction:
    """A function over the rows of a group that takes `min_arguments` to `max_arguments` columns. `rule` checks the arguments."""

    name: str
    rule: Callable[[ArrowArguments], ArrowRule]
    summary: str
    min_arguments: int = 1
    max_arguments: int | None = 1
    streams: StreamUse = StreamUse.NONE

    def make_rule(self, arguments: ArrowArguments) -> ArrowRule:
        """Return the rule for the arguments of a call, or raise `TypeMismatchError`."""
        check_count(self.name, self.min_arguments, self.max_arguments, len(arguments.types))
        return self.rule(arguments)


@dataclass(frozen=True, slots=True)
class ArrowScalarRule:
    """Result type and code of a call: from arrays of the arguments to one with a value for each row.

    `name` is that of the code, also in Spark: equal names mean equal code. `apply` must be picklable.
    """

    name: str
    type: DataType
    apply: Callable[..., pa.Array]


def arrow_scalar(
    name: str, min_arguments: int, max_arguments: int | None, rule: Callable[[ArrowArguments], ArrowScalarRule], summary: str
) -> ScalarFunction:
    """Return a function of the values of one row that runs as Python code over many rows. `rule` checks the arguments."""

    def build(arguments: ScalarArguments) -> Term:
        types = tuple(term.type or BIGINT for term in arguments.terms)
        precision = arguments.expression_context.precision
        return scalar_term(rule(ArrowArguments(name, types, (), precision, arguments.attributes)), arguments.terms)

    return ScalarFunction(name, min_arguments, max_arguments, build, summary)


def scalar_term(rule: ArrowScalarRule, terms: Sequence[Term]) -> Term:
    """Return the term of a call, and let Spark's sessions know its code."""
    type_ = spark_type(rule.type)
    define(rule.name, rule.apply, type_)
    operands = tuple(term.node.cast(spark_type(BIGINT)) if term.type is None else term.node for term in terms)
    return Term(PythonCall(rule.name, operands, type_.lower(), rule.apply), rule.type)


@dataclass(frozen=True, slots=True)
class SeriesArrowArguments:
    """What a call gives: the types of its inputs, its named constants, and the inputs as SQL."""

    function: str
    types: tuple[DataType, ...]
    attributes: tuple[tuple[str, str], ...]
    precision: Precision
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeriesArrowRule:
    """What one call does: the type of its values, and how to open it.

    `open` is sent to Spark's tasks, so it must be picklable: a function of a module, or a `functools.partial` of one.
    `scalar` is set if each row has one value, which depends on nothing else: conditions may then call the function.
    `note` says where it runs, for EXPLAIN.
    """

    type: DataType
    open: Callable[[], SeriesStream]
    scalar: ArrowScalarRule | None = None
    note: str = ""


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
