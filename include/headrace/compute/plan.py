"""The bound plan of a query: names and types resolved, every expression as nodes. Plans are values and need no Spark.

Columns of the data frames between evaluation steps:

- *Prepared* rows: `p0…` (partition and group keys), `_ts` (BIGINT ticks), `_series_key`, `_key` (composite key column, if the table
  has one), `a0…` (arguments of aggregates), and for state and event windows `_state`, `_start`, `_end`.
- *Segments* (mergeable partial windows): `p0…`, `_wstart`, `_wend` (BIGINT ticks; `_wend` is the last instant of the window,
  inclusive), `x0…` (partial aggregates), and what this kind of window needs to merge them: `_state`; `_start` and `_end`; `_first`
  and `_rows`.
- *Finished* windows: `p0…`, `_wstart`, `_wend` (ticks), `o0…` (the select list in order, in stored types).

Columns of the select list are numbered because their names need not be unique; `Plan.outputs` holds names and types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.compute.nodes import Column, Neighbor, Node, call
from headrace.compute.plan_sources import OneRow, Regrouping, Scan, ScanUnion, SeriesRows
from headrace.compute.terms import ColumnRole
from headrace.compute.window_plans import Argument, Bound, WindowPlan
from headrace.model.queries import FillMode, Query, Union
from headrace.model.time import Precision
from headrace.model.types import DataType

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.compute.functions.series_arrow import SeriesArrowRule

TS = "_ts"
SERIES_KEY = "_series_key"
KEY = "_key"
WSTART = "_wstart"
WEND = "_wend"
STATE = "_state"
IS_START = "_start"
IS_END = "_end"
FIRST_ROW = "_first"
ROW_COUNT = "_rows"
KEYS = Column("\x00keys\x00")
"""Replaced by the partition columns when a series call is evaluated."""
TIES = Column("\x00ties\x00")
"""Replaced by the columns that order rows when a series call is evaluated."""


@dataclass(frozen=True, slots=True)
class AsofMatch:
    """Which rows of the other side an ASOF join adds to each row of the driving side.

    Attributes:
        driving: The index of the driving side.
        keys: Pairs of a value of the driving side and one of the other that must be equal.
        times: The instants that are compared, of the driving and of the other side.
        order: The time of the other side's rows.
        operator: How the driving side's instant compares to the other's.
        limit: The rows that are added at most.
    """

    driving: int
    keys: tuple[tuple[Node, Node], ...]
    times: tuple[Node, Node]
    order: Node
    operator: str
    limit: int


@dataclass(frozen=True, slots=True)
class JoinSource:
    """Two joined sources.

    Attributes:
        left_columns: Pairs of a column of the left side and its name in the join.
        right_columns: The same for the right side.
        asof: The match of an ASOF join, which has no condition.
    """

    left: PlanSource
    right: PlanSource
    left_columns: tuple[tuple[Node, str], ...]
    right_columns: tuple[tuple[Node, str], ...]
    condition: Node | None
    kind: str
    asof: AsofMatch | None = None


@dataclass(frozen=True, slots=True)
class Regrouped:
    """Rows of series that are aligned by time, or of a query over them, and what is made of them: `time` in ticks, and columns."""

    rows: SeriesRows | Plan
    regrouping: Regrouping


"""The number of a copy of a row."""


@dataclass(frozen=True, slots=True)
class Key:
    """A partition or group key.

    Keys with `is_derived` are functions of the series key, which is a key too. They split no group, so rows are not hashed by them.

    Attributes:
        column: Its name in data frames, `p0`, `p1`, …
        name: Its name in the query.
        implied: True if the query does not list it: a tag that the series named by the other keys determines.
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
    """A partial aggregate: one column of a segment.

    Attributes:
        row: Computes it from one prepared row. None means that rows are aggregated before they are merged.
        update: Aggregate expression over prepared rows.
        merge: Aggregate expression over segments.
        direct: Cheaper `update` for windows whose rows are all aggregated at once. Its result cannot be merged.
    """

    column: str
    update: Node
    merge: Node
    row: Node | None = None
    direct: Node | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One call of an aggregate function.

    Attributes:
        text: The call as EXPLAIN shows it.
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
    """A call of an Arrow function over the rows of each group.

    Attributes:
        column: The column of the value.
        rows: The partial that holds the rows, as an array of structs: `time`, then one field per argument.
        many: Whether the value is an array with one result row per element.
    """

    column: str
    rows: str
    type: DataType
    apply: Callable[[pa.Table], pa.Array]
    many: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result, or a hidden one for ORDER BY.

    Attributes:
        node: Yields the internal type (timestamps as ticks).
        is_filled: Whether it depends on the rows of a window, so that FILL computes it for windows without rows.
    """

    column: str
    name: str
    node: Node
    type: DataType
    is_filled: bool = False
    role: ColumnRole | None = None


@dataclass(frozen=True, slots=True)
class FillPlan:
    """`FILL`.

    Attributes:
        values: For mode VALUE, one constant per filled output, hidden outputs last.
        between: Whether only windows between two existing ones are added, with values that depend on these two alone, and existing
            windows keep their NULLs: the FILL of a stream that does not follow the clock.
    """

    mode: FillMode
    values: tuple[Node, ...] = ()
    between: bool = False


@dataclass(frozen=True, slots=True)
class GapFill:
    """FILL over the rows of a result in their order, `Plan.sorts`.

    Attributes:
        mode: `PREVIOUS`, `LINEAR` or `CONSTANT`.
        values: The constant for each output; None for an output that is not filled.
        time: The output that holds the instant; the same instant for all rows if the result has no times.
        max_age: Greatest distance in ticks of a previous value.
    """

    mode: str
    values: tuple[Node | None, ...]
    time: Node
    max_age: int | None = None


@dataclass(frozen=True, slots=True)
class SeriesCall:
    """A call of a series function: one whose value depends on neighboring rows.

    The expressions come from the function's `SeriesRule`. `KEYS` in them stands for the partition columns, `TIES` for those that
    order rows. `column` is `__s0`, `__s1`, …
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

    Attributes:
        values: For mode VALUE, one constant per argument.
        skip_nulls: Whether rows with a NULL argument are ignored.
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
class Plan:
    """One bound SELECT. The module docstring lists the columns of its data frames.

    Attributes:
        now: The present, in epoch milliseconds. `at` returns the same plan for another present.
        time: The timestamp column in ticks.
        series_key: The series key; `series_column` is the name of its column.
        key: The composite key column.
        first: First instant that WHERE lets through; `last` is the last one.
        keys: PARTITION BY and GROUP BY.
        hidden: Outputs that only ORDER BY needs.
        series_limit: SLIMIT; `series_offset` is SOFFSET.
        partitioned: Whether the query has PARTITION BY.
        aggregated: Whether the result has one row per window or group.
        unique: Whether rows of one group never have equal instants, so that first and last need no tie-breaker.
        empty_groups: Condition on tags and series key. Subtables that meet it have a group even without rows.
    """

    query: Query = field(compare=False)
    source: PlanSource
    precision: Precision
    timezone: str
    now: int
    time: Node | None
    series_key: Node | None
    series_column: str | None
    key: Node | None
    filter: Node | None
    first: Bound | None
    last: Bound | None
    keys: tuple[Key, ...] = ()
    window: WindowPlan | None = None
    arguments: tuple[Argument, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    group_calls: tuple[GroupCall, ...] = ()
    outputs: tuple[Output, ...] = ()
    hidden: tuple[Output, ...] = ()
    having: Node | None = None
    fill: FillPlan | None = None
    gap_fill: GapFill | None = None
    series: tuple[SeriesCall, ...] = ()
    series_arrow: tuple[SeriesArrowCall, ...] = ()
    interp: InterpPlan | None = None
    sorts: tuple[Sort, ...] = ()
    distinct: bool = False
    limit: int | None = None
    offset: int | None = None
    series_limit: int | None = None
    series_offset: int | None = None
    partitioned: bool = False
    aggregated: bool = False
    unique: bool = False
    empty_groups: Node | None = None

    @property
    def present(self) -> int:
        """`now` in ticks."""
        return self.now * self.precision.ticks_per_second // 1000

    @property
    def grouped_series(self) -> Key | None:
        """The key that is the series key of the source, if there is one. No group then has rows of two series."""
        return next((key for key in self.keys if key.role is ColumnRole.SERIES), None)

    @property
    def series_rows(self) -> SeriesRows | None:
        """The rows of series that the plan reads, or that the sub-query it reads computes its rows from."""
        match self.source.rows if isinstance(self.source, Regrouped) else self.source:
            case SeriesRows() as rows:
                return rows
            case Plan(aggregated=False) as inner:
                return inner.series_rows
        return None

    @property
    def is_sparse(self) -> bool:
        """Whether rows without any value are left out, because a function has no value for some rows."""
        if self.series_arrow or any(call.sparse for call in self.series):
            return True
        return isinstance(self.source, Plan) and self.source.series_rows is not None and self.source.is_sparse

    @property
    def partials(self) -> tuple[Partial, ...]:
        """The distinct partial aggregates, in order."""
        return tuple(dict.fromkeys(partial for aggregate in self.aggregates for partial in aggregate.partials))

    @property
    def range(self) -> tuple[int | None, int | None]:
        """The first and last instant that WHERE lets through, in ticks, inclusive. None means unbounded."""
        ends = (self.first, self.last)
        first, last = (None if end is None else end.at(self.present) for end in ends)
        return first, last

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The tables read, including those of sub-queries."""
        return tuple(scans(self.source))

    @property
    def one_pass(self) -> Plan:
        """The plan with the cheaper partials that cannot be merged."""
        return replace(self, aggregates=tuple(aggregate.one_pass for aggregate in self.aggregates))

    def at(self, now: int) -> Plan:
        """Return the plan for another present (epoch milliseconds), including its sub-queries."""
        return replace(self, now=now, source=source_with_now(self.source, now))


@dataclass(frozen=True, slots=True)
class UnionPlan:
    """`left UNION [ALL] right`. Names come from the left side; both sides are cast to their common types."""

    query: Union = field(compare=False)
    left: AnyPlan
    right: AnyPlan
    outputs: tuple[Output, ...]
    precision: Precision
    all: bool = False
    sorts: tuple[Sort, ...] = ()
    limit: int | None = None
    offset: int | None = None

    @property
    def timezone(self) -> str:
        """The time zone of the left side."""
        return self.left.timezone

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The tables read by both sides."""
        return tuple(scans(self))

    def at(self, now: int) -> UnionPlan:
        """Return the plan for another present (epoch milliseconds)."""
        return replace(self, left=self.left.at(now), right=self.right.at(now))


AnyPlan = Plan | UnionPlan
PlanSource = Scan | ScanUnion | SeriesRows | Regrouped | JoinSource | OneRow | Plan | UnionPlan


def scans(source: PlanSource) -> Iterator[Scan]:
    """Yield every table that a source reads, from left to right."""
    match source:
        case Scan():
            yield source
        case ScanUnion() | SeriesRows():
            yield from source.scans
        case Plan():
            yield from scans(source.source)
        case Regrouped():
            yield from scans(source.rows)
        case UnionPlan() | JoinSource():
            yield from scans(source.left)
            yield from scans(source.right)


def source_with_now(source: PlanSource, now: int) -> PlanSource:
    """Return a source for another present (epoch milliseconds)."""
    match source:
        case Plan() | UnionPlan():
            return source.at(now)
        case Regrouped(rows=Plan() as rows):
            return replace(source, rows=rows.at(now))
        case JoinSource():
            return replace(source, left=source_with_now(source.left, now), right=source_with_now(source.right, now))
        case _:
            return source


def uses_neighbors(plan: Plan) -> bool:
    """Return whether an aggregate needs the rows next to those of a window."""
    return any(isinstance(argument.node, Neighbor) for argument in plan.arguments)
