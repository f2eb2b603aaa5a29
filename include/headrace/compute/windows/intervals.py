"""INTERVAL: windows of a fixed length, or of months, by arithmetic on instants.

With a time zone, windows start when its wall clock shows the points of a regular grid. If the clock is put forward it skips points:
those windows start later by the skipped time, and of two that would start at the same instant the later on the grid applies. If the
clock is put back it repeats points: the first time counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.compute import calendar
from headrace.compute.columnar.runs import Bools, Int64s, combined, renumbered
from headrace.compute.nodes import TRUE, Column, Node, bigint, bigint_sql, both, call, either, if_, integer, spark_sql
from headrace.compute.plan import TS, WEND, WSTART, Plan
from headrace.compute.window_plans import FillPlan
from headrace.compute.windows.kind import WindowPlan
from headrace.compute.windows.segments import (
    add_derived_keys,
    base_key_columns,
    merge_columns,
    segments_at,
    to_segments,
    update_columns,
)
from headrace.model import zones
from headrace.model.calendar_windows import CalendarGrid
from headrace.model.time import MONTHS_BEFORE_1970, Duration, Precision
from headrace.model.windows import WindowGrid
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY: Final = Duration(1, "d")
ELEMENT: Final = Column("_i")
"""The element of an array in a function of elements."""
MAX_UNROLLED_STARTS: Final = 8
"""Up to this many starts are written out, which Spark compiles. More are computed by a lambda, which it interprets."""


@dataclass(frozen=True, slots=True)
class IntervalWindow(WindowPlan):
    """`INTERVAL`, and its `FILL`. `zone` is set if windows follow the calendar of a zone other than UTC."""

    length: Duration
    sliding: Duration
    offset: Duration
    zone: str | None = None
    fill: FillPlan | None = None
    name = "Time"
    is_fixed = True

    def __str__(self) -> str:
        sliding = f", a new one every {self.sliding}" if self.slides else ""
        offset = f", shifted by {self.offset}" if self.offset.count else ""
        return f"INTERVAL of {self.length}{sliding}{offset}{f', calendar of {self.zone}' if self.zone else ''}"

    @property
    def interval(self) -> IntervalWindow:
        return self

    @property
    def slides(self) -> bool:
        """Whether windows overlap."""
        return self.sliding != self.length

    def grid(self, plan: Plan) -> WindowGrid | CalendarGrid:
        durations = (self.sliding, self.offset, self.length)
        if self.zone is not None or any(duration.is_calendar for duration in durations):
            return CalendarGrid(self.length, self.sliding, self.offset, self.zone or "UTC", plan.precision)
        return WindowGrid(*(duration.ticks(plan.precision) for duration in durations))

    def max_windows_per_instant(self, precision: Precision) -> int:
        """Return the maximum number of windows that contain one instant."""
        if not self.slides:
            return 1
        return -(-self.length.max_ticks(precision) // self.sliding.min_ticks(precision))

    def max_span(self, precision: Precision) -> int:
        """Return an upper bound of the distance between two instants of one window, in ticks."""
        return self.length.max_ticks(precision) + (DAY.ticks(precision) if self.zone is not None else 0)

    def counts_row(self, plan: Plan) -> Node:
        if not self.slides:
            return TRUE
        if self.zone is not None:
            return Column(WSTART).equals(start(self, Column(TS), plan.precision))
        return Column(TS) - Column(WSTART) < bigint(self.sliding.ticks(plan.precision))

    def to_segments(self, plan: Plan, prepared: DataFrame, *, by_row: bool) -> DataFrame:
        at, precision = Column(TS), plan.precision
        at_start = f"explode({starts(self, at, precision)})" if self.slides else str(start(self, at, precision))
        segments = segments_at(plan, prepared.withColumn(WSTART, F.expr(at_start)), (WSTART,), by_row=by_row)
        return self._with_end(segments, precision)

    def aggregate(self, plan: Plan, prepared: DataFrame) -> DataFrame:
        """Aggregate sliding windows in two steps if possible: rows to panes of one slide, then panes to windows."""
        if not self.slides or not has_whole_panes(self):
            return to_segments(plan.one_pass, prepared)
        keys, precision = base_key_columns(plan), plan.precision
        assigned = prepared.withColumn("_pane", F.expr(str(start(self, Column(TS), precision))))
        by_pane = assigned.groupBy(*keys, "_pane").agg(*update_columns(plan))
        window_starts = f"explode({consecutive_starts(self, Column('_pane'), precision)}) AS {WSTART}"
        by_window = by_pane.selectExpr(*keys, *(partial.column for partial in plan.partials), window_starts)
        merged = by_window.groupBy(*keys, WSTART).agg(*merge_columns(plan))
        return add_derived_keys(plan, self._with_end(merged, precision))

    def _with_end(self, windows: DataFrame, precision: Precision) -> DataFrame:
        return windows.withColumn(WEND, F.expr(str(end(self, Column(WSTART), precision))))

    def scopes(self, group: Int64s, start: Int64s, end: Int64s, expired: Bools) -> Int64s:  # noqa: ARG002
        """Number windows: the neighbors of a row's windows are unaffected."""
        return renumbered(combined([group, start], len(start)))[0]


def start(window: IntervalWindow, at: Node, precision: Precision) -> Node:
    """Return the latest window start at or before an instant."""
    if window.zone is None:
        return floor(window, at, precision)
    if not has_shifted_starts(window, precision):
        return calendar.to_utc(grid_point(window, at, precision), window.zone, precision)
    has_length = f" AND {end(window, ELEMENT, precision)} >= {ELEMENT}" if may_skip_windows(window, precision) else ""
    candidates = candidate_starts(window, at, 1, precision)
    return spark_sql(f"array_max(filter({{}}, {ELEMENT} -> {ELEMENT} <= {{}}{has_length}))", candidates, at)


def floor(window: IntervalWindow, wall: Node, precision: Precision) -> Node:
    """Return the latest grid point at or before a wall clock."""
    if window.sliding.is_calendar:
        return month_floor(window, wall, precision)
    shifted = moved(wall, -window.offset.fixed_ticks(precision))
    return wall - call("pmod", shifted, bigint(window.sliding.ticks(precision)))


def moved(at: Node, ticks: int) -> Node:
    return at if not ticks else at + bigint(ticks) if ticks > 0 else at - bigint(-ticks)


def month_floor(window: IntervalWindow, wall: Node, precision: Precision) -> Node:
    """Return the latest grid point at or before a wall clock, for slides in months."""
    months, offset = window.offset.months, window.offset.fixed_ticks(precision)
    month = moved(calendar.months(moved(wall, -offset), precision), -months)
    return moved(calendar.month_start(moved(floor_months(month, window.length.months), months), precision), offset)


def floor_months(month: Node, count: int) -> Node:
    """Return the first month of a group of months, both counted from January 1970."""
    return month if count == 1 else month - call("pmod", month + bigint(MONTHS_BEFORE_1970), bigint(count))


def grid_point(window: IntervalWindow, at: Node, precision: Precision) -> Node:
    """Return the latest grid point at or before what the clock shows at an instant, which is a start if there is no zone."""
    if window.zone is None:
        return at
    return floor(window, calendar.to_local(at, window.zone, precision), precision)


def point_of(window: IntervalWindow, start_: Node, precision: Precision) -> Node:
    """Return the grid point at which a window starts: what the clock shows, or would show if it had not been put forward."""
    point = grid_point(window, start_, precision)
    if window.zone is None or not has_shifted_starts(window, precision):
        return point
    shown = calendar.to_local(start_, window.zone, precision)
    return if_(shown.equals(point), point, shown_before_change(window.zone, start_, precision))


def shown_before_change(zone: str, at: Node, precision: Precision) -> Node:
    """Return what the clock would show at an instant if it had not been changed within the length of its greatest change."""
    change = zones.max_change(zone) * precision.ticks_per_second
    return moved(calendar.to_local(moved(at, -change), zone, precision), change)


def exists(window: IntervalWindow, point: Node, start_: Node, last: Node, precision: Precision) -> Node:
    """Return whether there is a window for a grid point, and the instants that it would start and end at."""
    shown = calendar.to_local(start_, window.zone or "UTC", precision)
    return both(last >= start_, either(shown.equals(point), call("<>", floor(window, shown, precision), shown)))


def max_reordered(window: IntervalWindow, at: Node, precision: Precision) -> Node:
    """Return at least how many windows start out of the order of the grid next to the one that starts at an instant."""
    if window.zone is None or not has_shifted_starts(window, precision):
        return bigint(0)
    shown = calendar.to_local(at, window.zone, precision)
    return if_(shown.equals(shown_before_change(window.zone, at, precision)), bigint(0), bigint(margin(window, precision)))


def margin(window: IntervalWindow, precision: Precision) -> int:
    """Return how many grid points a change of the clock may put out of order."""
    if not has_shifted_starts(window, precision):
        return 0
    change = zones.max_change(window.zone or "UTC") * precision.ticks_per_second
    return 1 if window.sliding.is_calendar else -(-change // window.sliding.ticks(precision))


def add_slides(window: IntervalWindow, point: Node, count: Node, precision: Precision) -> Node:
    if not window.sliding.is_calendar:
        return point + count * bigint(window.sliding.ticks(precision))
    offset, months = window.offset.fixed_ticks(precision), (count * bigint(window.sliding.months)).cast("int")
    return moved(calendar.add_months(moved(point, -offset), months, precision), offset)


def end(window: IntervalWindow, start_: Node, precision: Precision) -> Node:
    """Return the last instant of the window that starts at `start_`, inclusive."""
    if window.zone is None and not window.length.is_calendar:
        return start_ + bigint(window.length.ticks(precision) - 1)
    return last_instant(window, point_of(window, start_, precision), precision)


def last_instant(window: IntervalWindow, point: Node, precision: Precision) -> Node:
    """Return the last instant of the window that starts at a grid point, inclusive."""
    if window.sliding.is_calendar:
        last = add_slides(window, point, bigint(1), precision)
    elif window.length.is_calendar:
        last = calendar.add_months(point, integer(window.length.months), precision)
    else:
        last = point + bigint(window.length.ticks(precision))
    return calendar.to_utc(last, window.zone or "UTC", precision) - bigint(1)


def has_whole_panes(window: IntervalWindow) -> bool:
    """Return whether length is a multiple of the slide, so that rows of one slide are in the same windows."""
    if window.length.is_calendar or window.zone is not None:
        return False
    return window.length.nanoseconds % window.sliding.nanoseconds == 0


def has_shifted_starts(window: IntervalWindow, precision: Precision) -> bool:
    """Return whether changes of the clock may put starts out of the order of the grid, or two of them at one instant.

    If the grid is of whole days, only the clocks of some zones do.
    """
    if window.zone is None:
        return False
    parts = [part for part in (window.sliding, window.offset) if not part.is_calendar]
    return any(part.ticks(precision) % DAY.ticks(precision) for part in parts) or zones.reorders_days(window.zone)


def may_skip_windows(window: IntervalWindow, precision: Precision) -> bool:
    """Return whether the clock may skip all of a window, which is none then."""
    return zones.max_change(window.zone or "UTC") * precision.ticks_per_second >= window.length.max_ticks(precision)


def starts(window: IntervalWindow, at: Node, precision: Precision) -> str:
    """Return the starts of all windows that contain an instant, as an array, latest first."""
    ended = end(window, ELEMENT, precision)
    if window.zone is None:
        candidates = consecutive_starts(window, start(window, at, precision), precision)
        return candidates if has_whole_panes(window) else f"filter({candidates}, {ELEMENT} -> {ended} >= {at})"
    candidates = candidate_starts(window, at, window.max_windows_per_instant(precision), precision)
    return f"array_distinct(filter({candidates}, {ELEMENT} -> {ELEMENT} <= {at} AND {ended} >= {at}))"


def candidate_starts(window: IntervalWindow, at: Node, count: int, precision: Precision) -> str:
    """Return possible window starts around an instant in a zone, as an array.

    These are the latest `count` grid points, and as many before and after as a change of the clock may shift.
    """
    slack = margin(window, precision)
    point = add_slides(window, grid_point(window, at, precision), -ELEMENT, precision)
    shifted = calendar.to_utc(point, window.zone or "UTC", precision)
    return f"transform(sequence({-slack}L, {count - 1 + slack}L), {ELEMENT} -> {shifted})"


def consecutive_starts(window: IntervalWindow, latest: Node, precision: Precision) -> str:
    """Return the starts of as many windows as may contain an instant, from `latest` back, as an array."""
    step, count = window.sliding.ticks(precision), window.max_windows_per_instant(precision)
    if count <= MAX_UNROLLED_STARTS:
        return f"array({', '.join(f'{latest} - {bigint_sql(step * number)}' for number in range(count))})"
    return f"transform(sequence(0, {count - 1}), i -> {latest} - i * {bigint_sql(step)})"
