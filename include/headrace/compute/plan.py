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

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.compute.nodes import Column, Node, Over
from headrace.compute.plan_clauses import (
    NO_CALLS,
    NO_GROUPS,
    UNORDERED,
    GapFill,
    GroupSelection,
    InterpPlan,
    Key,
    Output,
    Partial,
    ResultOrder,
    RowSelection,
    Selection,
)
from headrace.compute.plan_sources import OneRow, Regrouping, Scan, ScanUnion, SeriesRows
from headrace.compute.terms import ColumnRole
from headrace.compute.window_plans import Argument, Bound, FillPlan
from headrace.model.queries import Query, Union
from headrace.model.time import Precision

if TYPE_CHECKING:
    from headrace.compute.windows.intervals import IntervalWindow
    from headrace.compute.windows.kind import WindowPlan

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
    """Two joined sources. Columns are those of a side with their names in the join; an ASOF join has no condition, but a match."""

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


@dataclass(frozen=True, slots=True)
class RowIdentity:
    """What identifies the rows of a source, where it has it: time in ticks, series key and its column, composite key."""

    time: Node | None = None
    series_key: Node | None = None
    series_column: str | None = None
    key: Node | None = None

    @property
    def columns(self) -> dict[str, Node]:
        """Their columns in data frames, with the expressions."""
        return {name: node for name, node in ((TS, self.time), (SERIES_KEY, self.series_key), (KEY, self.key)) if node}


@dataclass(frozen=True, slots=True)
class Plan:
    """One bound SELECT. The module docstring lists the columns of its data frames. `at` returns it for another present.

    Attributes:
        now: The present, in epoch milliseconds.
        bounds: The first and last instant that WHERE lets through.
        keys: PARTITION BY and GROUP BY.
        arguments: Those of aggregates and INTERP.
        hidden: Outputs that only ORDER BY needs.
    """

    query: Query = field(compare=False)
    source: PlanSource
    precision: Precision
    timezone: str
    now: int
    identity: RowIdentity
    filter: Node | None
    bounds: tuple[Bound | None, Bound | None] = (None, None)
    keys: tuple[Key, ...] = ()
    arguments: tuple[Argument, ...] = ()
    selection: Selection = NO_CALLS
    outputs: tuple[Output, ...] = ()
    hidden: tuple[Output, ...] = ()
    gap_fill: GapFill | None = None
    order: ResultOrder = UNORDERED

    @property
    def present(self) -> int:
        """`now` in ticks."""
        return self.now * self.precision.ticks_per_second // 1000

    @property
    def aggregated(self) -> bool:
        """Whether the result has one row per window or group."""
        return isinstance(self.selection, GroupSelection)

    @property
    def groups(self) -> GroupSelection:
        """The windows, groups and aggregates; empty if the query has none."""
        return self.selection if isinstance(self.selection, GroupSelection) else NO_GROUPS

    @property
    def series(self) -> RowSelection:
        """The calls of series functions; empty if the query has none."""
        return self.selection if isinstance(self.selection, RowSelection) else NO_CALLS

    @property
    def interp(self) -> InterpPlan | None:
        """`INTERP`."""
        return self.selection if isinstance(self.selection, InterpPlan) else None

    @property
    def window(self) -> WindowPlan | None:
        """The windows."""
        return self.selection.window if isinstance(self.selection, GroupSelection) else None

    @property
    def kind(self) -> WindowPlan:
        """The windows of a query that has some."""
        assert self.window is not None
        return self.window

    @property
    def interval(self) -> IntervalWindow | None:
        """The windows if they are those of INTERVAL."""
        return None if self.window is None else self.window.interval

    @property
    def depends_on_order(self) -> bool:
        """Whether windows depend on the order of rows."""
        return self.window is not None and self.window.depends_on_order

    @property
    def ignores_null(self) -> bool:
        """Whether rows that pass WHERE are in no window if their state is NULL."""
        return self.window is not None and self.window.ignore_null

    @property
    def fill(self) -> FillPlan | None:
        """`FILL` of the windows."""
        return None if self.interval is None else self.interval.fill

    @property
    def grouped_series(self) -> Key | None:
        """The key that is the series key of the source, if there is one. No group then has rows of two series."""
        return next((key for key in self.keys if key.role is ColumnRole.SERIES), None)

    @property
    def natural_columns(self) -> dict[str, Node]:
        """The columns that give rows their natural order, with their expressions."""
        identity = {name: node for name, node in self.identity.columns.items() if name != KEY}
        return {key.column: key.node for key in self.keys} | identity

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
        if any(call.rule.scalar is None for call in self.series.arrow_calls) or any(call.sparse for call in self.series.calls):
            return True
        return isinstance(self.source, Plan) and self.source.series_rows is not None and self.source.is_sparse

    @property
    def partials(self) -> tuple[Partial, ...]:
        """The distinct partial aggregates, in order."""
        return tuple(dict.fromkeys(partial for aggregate in self.groups.aggregates for partial in aggregate.partials))

    @property
    def lists(self) -> set[str]:
        """The partials that keep all values of a group, besides the rows that calls of functions take."""
        unbounded = (aggregate for aggregate in self.groups.aggregates if not aggregate.bounded)
        return {partial.column for aggregate in unbounded for partial in aggregate.partials} - {
            call.rows for call in self.groups.calls
        }

    @property
    def range(self) -> tuple[int | None, int | None]:
        """The first and last instant that WHERE lets through, in ticks, inclusive. None means unbounded."""
        first, last = (None if end is None else end.at(self.present) for end in self.bounds)
        return first, last

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The tables read, including those of sub-queries."""
        return tuple(scans(self.source))

    @property
    def one_pass(self) -> Plan:
        """The plan with the cheaper partials that cannot be merged."""
        return replace(
            self, selection=replace(self.groups, aggregates=tuple(aggregate.one_pass for aggregate in self.groups.aggregates))
        )

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
    order: ResultOrder = UNORDERED

    @property
    def timezone(self) -> str:
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
    return any(isinstance(argument.node, Over) for argument in plan.arguments)
