"""A kind of window is one object, with all that evaluation and streams have to know of it; each kind is a file of this package.

A plan has the windows of its clause as a `WindowPlan`, and nothing else asks which kind they are. docs/architecture.md has what
segments of each kind hold, and what rows out of order require.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import pyarrow as pa

from headrace.compute.columnar.columns import ticks
from headrace.compute.columnar.runs import Bools, Int64s, Runs
from headrace.compute.nodes import TRUE, Column, Node, UnsupportedError, bigint
from headrace.compute.plan import KEY, SERIES_KEY, TS, WEND, WSTART, Plan
from headrace.compute.plan_clauses import Partial
from headrace.compute.windows.numbering import OrderedRows
from headrace.compute.windows.segments import (
    add_derived_keys,
    aggregate_numbered,
    base_key_columns,
    point_segments,
    update_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.compute.windows.intervals import IntervalWindow
    from headrace.compute.windows.ranges import RangeGrid
    from headrace.model.calendar_windows import CalendarGrid
    from headrace.model.windows import WindowGrid

    Grid: TypeAlias = WindowGrid | CalendarGrid | RangeGrid


@dataclass(frozen=True, slots=True)
class Numbered:
    """Segments of windows, in the order of groups and time.

    Attributes:
        index: The segments, which may be in several windows or in none.
        window: The window of each; different from its neighbor's if the windows are of one group and differ.
        columns: Columns of these segments that numbering changes.
    """

    index: Int64s
    window: Int64s
    columns: Mapping[str, pa.Array] = field(default_factory=dict)


class WindowPlan:
    """The windows of a query: their kind, with what the clause says. `str` is what EXPLAIN shows.

    Attributes:
        name: The name of the kind in notifications.
        is_fixed: Whether the instant of a row alone says in which windows it lies.
        depends_on_order: Whether rows belong together by their order; segments of other kinds are merged whatever rows they are of.
        leaves_rows_out: Whether a row may be in no window.
        counts_rows: Whether segments of a part of the rows cannot be merged before the rows in between are known.
        attributes: What segments have besides the ends and the partials of aggregates, and how it is made and merged.
    """

    __slots__ = ()
    name: ClassVar[str] = ""
    is_fixed: ClassVar[bool] = False
    depends_on_order: ClassVar[bool] = False
    leaves_rows_out: ClassVar[bool] = False
    counts_rows: ClassVar[bool] = False
    attributes: ClassVar[tuple[Partial, ...]] = ()

    @property
    def interval(self) -> IntervalWindow | None:
        """The windows if they are those of INTERVAL, which alone have FILL and can follow the clock."""
        return None

    @property
    def ignore_null(self) -> bool:
        """Whether rows whose `_state` is NULL are in no window."""
        return False

    @property
    def reach(self) -> int:
        """How far apart rows may be, in ticks, that belong together whatever is between them."""
        return 0

    @property
    def row_columns(self) -> dict[str, Node]:
        """The columns that prepared rows have for these windows: what the clause refers to."""
        return {}

    @property
    def condition(self) -> Node:
        """The condition for a window to be in the result, over the columns of segments."""
        return TRUE

    def counts_row(self, plan: Plan) -> Node:  # noqa: ARG002
        """Return a condition that is true for a row in exactly one of its windows."""
        return TRUE

    def grid(self, plan: Plan) -> Grid | None:  # noqa: ARG002
        """Return the windows as arithmetic on instants; None unless they are fixed."""
        return None

    def number(self, columns: Mapping[str, pa.Array], groups: Runs, apart: Bools | None) -> Numbered:  # noqa: ARG002
        """Number windows that are not fixed. Segments, or rows, are in the order of groups and time.

        Two neighbors that are both `apart` are complete runs of a state, even if their states are equal.
        """
        raise UnsupportedError("window")

    def number_sql(self, rows: OrderedRows) -> DataFrame:  # noqa: ARG002
        """Add `WINDOW_NUMBER` to rows or segments, as `number` does.

        Segments of a session may overlap; those of other windows are disjoint in time.
        """
        raise UnsupportedError("window")

    def to_segments(self, plan: Plan, prepared: DataFrame, *, by_row: bool) -> DataFrame:  # noqa: ARG002
        """Return the segments of prepared rows, as `segments.to_segments` does."""
        return point_segments(plan, prepared)

    def aggregate(self, plan: Plan, prepared: DataFrame) -> DataFrame:
        """Aggregate all prepared rows to one segment per window, by the fastest way for many rows."""
        keys, unique = base_key_columns(plan), plan.groups.unique
        ties = [] if unique else [column for column in (SERIES_KEY, KEY) if column in prepared.columns]
        numbered = self.number_sql(OrderedRows(prepared, keys, [TS, *ties], unique=unique))
        return add_derived_keys(plan, aggregate_numbered(plan, numbered, keys, update_columns(plan.one_pass), TS, TS))

    def scopes(self, group: Int64s, start: Int64s, end: Int64s, expired: Bools) -> Int64s | None:  # noqa: ARG002
        """Return for each segment the number of what has to be recalculated with it; None if that is the rest of the group.

        Expired segments change nothing.
        """
        return None

    def recalculate_from(self, windows: pa.Table, earliest: int, *, has_evicted: bool) -> int | None:  # noqa: ARG002
        """Return the instant from which to recalculate a group whose rows before `earliest` are unchanged; None for its first row.

        No window may be open just before that instant, since windows before it are unaffected. `windows` are those of the group in
        state; earlier ones may not be if it `has_evicted` any.
        """
        return int(ticks(windows[WSTART])[ticks(windows[WEND]) >= earliest].min(initial=earliest))


def lasts(ticks: int | None) -> list[Node]:
    """Return the condition for a window to be at least as long, if there is one."""
    return [Column(WEND) - Column(WSTART) >= bigint(ticks)] if ticks else []
