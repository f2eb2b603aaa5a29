"""The clauses of a plan: keys, aggregates, calls of functions, the select list, and the order of the result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.compute import calendar
from headrace.compute.nodes import Node, bigint, call, integer
from headrace.compute.terms import ColumnRole
from headrace.compute.window_plans import Bound
from headrace.model.queries import FillMode
from headrace.model.time import Precision
from headrace.model.types import DataType

if TYPE_CHECKING:
    from headrace.compute.functions.arrow import ArrowRule, SeriesArrowRule
    from headrace.compute.windows.kind import WindowPlan


@dataclass(frozen=True, slots=True)
class Key:
    """A partition or group key: `column` (`p0`, `p1`, …) in data frames, `name` in the query.

    Keys with `is_derived` are functions of the series key, which is a key too. They split no group, so rows are not hashed by them.
    Keys that are `implied` are not in the query: tags that the series named by the other keys determines.
    """

    column: str
    name: str
    node: Node
    type: DataType
    implied: bool = False
    is_derived: bool = False
    role: ColumnRole | None = None


@dataclass(frozen=True, slots=True)
class Partial:
    """A partial aggregate: one column of a segment. `update` aggregates prepared rows, `merge` segments.

    Attributes:
        row: Computes it from one prepared row. None means that rows are aggregated before they are merged.
        direct: Cheaper `update` for windows whose rows are all aggregated at once. Its result cannot be merged.
    """

    column: str
    update: Node
    merge: Node
    row: Node | None = None
    direct: Node | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One call of an aggregate function; `text` is the call as EXPLAIN shows it.

    Attributes:
        final: Computes the value from the partials of a finished window.
        bounded: Whether the size of the partials is independent of the number of rows.
        many: Whether the value is an array with one result row per element.
    """

    function: str
    text: str
    partials: tuple[Partial, ...]
    final: Node
    type: DataType
    bounded: bool = True
    many: bool = False

    @property
    def value(self) -> Node:
        """The value."""
        return call("explode", self.final) if self.many else self.final

    @property
    def one_pass(self) -> Aggregate:
        """The aggregate with the cheaper partials that cannot be merged."""
        if not any(partial.direct for partial in self.partials):
            return self
        return replace(self, partials=tuple(replace(partial, update=partial.direct or partial.update) for partial in self.partials))


@dataclass(frozen=True, slots=True)
class GroupCall:
    """A call of an Arrow function over each group, whose rows are structs of `time` and the arguments in the partial `rows`."""

    column: str
    rows: str
    rule: ArrowRule


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result, or a hidden one for ORDER BY. One that `is_filled` depends on rows of a window: FILL computes it."""

    column: str
    name: str
    node: Node
    type: DataType
    is_filled: bool = False
    role: ColumnRole | None = None


@dataclass(frozen=True, slots=True)
class MaxAge:
    """The greatest distance of two instants: months in the calendar of a zone, and ticks."""

    ticks: int
    months: int
    timezone: str
    precision: Precision

    def after(self, instant: Node) -> Node:
        """Return the last instant within the distance after another one."""
        if not self.months:
            return instant + bigint(self.ticks)
        local = calendar.to_local(instant, self.timezone, self.precision)
        moved = calendar.to_utc(calendar.add_months(local, integer(self.months), self.precision), self.timezone, self.precision)
        return moved + bigint(self.ticks)


@dataclass(frozen=True, slots=True)
class GapFill:
    """FILL over the rows of a result in their order.

    Attributes:
        mode: `PREVIOUS`, `LINEAR` or `CONSTANT`.
        values: The constant for each output; None for an output that is not filled.
        time: The output that holds the instant; the same instant for all rows if the result has no times.
        max_age: How far before a gap the previous value may be.
    """

    mode: str
    values: tuple[Node | None, ...]
    time: Node
    max_age: MaxAge | None = None


@dataclass(frozen=True, slots=True)
class SeriesCall:
    """A call of a series function, in the column `__s0`, `__s1`, …: one whose value depends on neighboring rows.

    The expressions come from its `SeriesRule`, with `KEYS` for the partition columns and `TIES` for those that order rows.
    """

    column: str
    function: str
    value: Node
    first: Node | None
    before: Node | None
    keep: Node | None
    order: Node | None
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class SeriesArrowCall:
    """One use of a function over a whole series: its column, and the inputs that it takes."""

    column: str
    function: str
    type: DataType
    inputs: tuple[Node, ...]
    rule: SeriesArrowRule


@dataclass(frozen=True, slots=True)
class InterpPlan:
    """`INTERP`: points from `first` to `last`, `every` ticks apart. The ends default to those of the data.

    `values` are the constants of mode VALUE, one for each argument. With `skip_nulls`, rows with a NULL argument are ignored.
    """

    first: Bound | None
    last: Bound | None
    every: int
    mode: FillMode
    values: tuple[Node, ...] = ()
    skip_nulls: bool = False


@dataclass(frozen=True, slots=True)
class Sort:
    """One column of ORDER BY: an `o…`, or a hidden `h…`. With `orders_zeros`, -0.0 comes before 0.0 in a FLOAT or DOUBLE."""

    column: str
    descending: bool = False
    nulls_first: bool = True
    orders_zeros: bool = False


@dataclass(frozen=True, slots=True)
class ResultOrder:
    """ORDER BY, DISTINCT and the limits of a result. With `partitioned`, LIMIT is for each partition of PARTITION BY."""

    sorts: tuple[Sort, ...] = ()
    distinct: bool = False
    limit: int | None = None
    offset: int | None = None
    series_limit: int | None = None
    series_offset: int | None = None
    partitioned: bool = False

    @property
    def is_limited(self) -> bool:
        """Whether LIMIT or OFFSET may leave rows out."""
        return self.limit is not None or bool(self.offset)


@dataclass(frozen=True, slots=True)
class RowSelection:
    """A query without windows and aggregates, with the calls of functions whose values depend on other rows."""

    calls: tuple[SeriesCall, ...] = ()
    arrow_calls: tuple[SeriesArrowCall, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """A query with one row per window or group. With `unique`, rows of one group never have equal instants.

    Subtables that meet `empty_groups`, a condition on tags and series key, have a group even without rows.
    """

    window: WindowPlan | None = None
    aggregates: tuple[Aggregate, ...] = ()
    calls: tuple[GroupCall, ...] = ()
    having: Node | None = None
    unique: bool = False
    empty_groups: Node | None = None


Selection = RowSelection | GroupSelection | InterpPlan
NO_CALLS: Final = RowSelection()
NO_GROUPS: Final = GroupSelection()
UNORDERED: Final = ResultOrder()
