"""Assign rows to windows in DuckDB SQL, from each window's definition.

From rows with `_ts` each function computes rows with `_w` (the window's number or start), `_ws` and `_we`: of an INTERVAL the
window's first and last instant, of the others the row's own, whose minimum and maximum are the window's. Rows in no window are left
out; rows in several are repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.model.queries import CountClause, EventClause, IntervalClause, SessionClause, StateClause, WindowClause
from headrace.model.time import Duration
from headrace.verify.expressions import Compiler
from headrace.verify.steps import END, START, TS, WINDOW, Partition, floor_to
from headrace.verify.values import floored_mod
from headrace.verify.zones import Clock

MONTHS_FROM_1900: Final = 70 * 12
"""Groups of months are counted from January 1900."""


def assign_windows(window: WindowClause, relation: str, rows: Partition, compiler: Compiler) -> str:
    """Return the SELECT of the rows of a relation with their windows; `rows` are those that can be in one window."""
    match window:
        case IntervalClause():
            return _intervals(Grid.of(window, compiler), relation)
        case SessionClause(gap=gap):
            numbered = rows.sessions(relation, gap.ticks(compiler.precision))
        case StateClause(expression=expression):
            value = compiler.value(expression).sql
            numbered = rows.changes(f"(SELECT *, {value} AS _state FROM {relation} WHERE {value} IS NOT NULL)", "_state")
        case EventClause():
            numbered = _events(window, relation, rows, compiler)
        case CountClause(count=count, sliding=sliding):
            numbered = rows.counted(relation, count, sliding or count)
    return f"SELECT *, {TS} AS {START}, {TS} AS {END} FROM ({numbered})"


def _intervals(grid: Grid, relation: str) -> str:
    """Assign rows to every window with `start <= ts < start + length`."""
    latest = f"SELECT *, {grid.latest(TS)} AS _latest FROM {relation}"
    candidates = f"SELECT * EXCLUDE (_latest), unnest({grid.starts('_latest')}) AS _wall FROM ({latest})"
    ends = f"{grid.clock.instant('_wall')} AS {START}, {grid.end('_wall')} AS {END}"
    bounded = f"SELECT * EXCLUDE (_wall), {ends} FROM ({candidates}) WHERE {grid.exists('_wall')}"
    return f"SELECT *, {START} AS {WINDOW} FROM ({bounded}) WHERE {START} <= {TS} AND {TS} <= {END}"


def _events(window: EventClause, relation: str, rows: Partition, compiler: Compiler) -> str:
    """Return the rows from a START to the first END at or after it.

    Of several STARTs before one END, the first begins the window.
    """
    start, end = (compiler.condition(node) for node in (window.start, window.end))
    ranked = f"SELECT *, row_number() {rows.over()} AS _rank FROM {relation}"
    ended = f"SELECT *, min(CASE WHEN {end} THEN _rank END) {rows.to_come} AS {WINDOW} FROM ({ranked})"
    opened = f"SELECT *, min(CASE WHEN {start} THEN _rank END) {rows.together(WINDOW)} AS _opened FROM ({ended})"
    return f"SELECT * EXCLUDE (_rank, _opened) FROM ({opened}) WHERE {WINDOW} IS NOT NULL AND _rank >= _opened"


def true_for_condition(window: WindowClause, compiler: Compiler) -> list[str]:
    min_length = window.true_for if isinstance(window, StateClause | EventClause) else None
    return [] if min_length is None else [f"{END} - {START} >= {min_length.ticks(compiler.precision)}"]


@dataclass(frozen=True, slots=True)
class Grid:
    """The starts and ends of the windows of an INTERVAL. Days and longer units, also in the offset, follow the wall clock."""

    length: Duration
    sliding: Duration
    offset: Duration
    clock: Clock

    @classmethod
    def of(cls, window: IntervalClause, compiler: Compiler) -> Grid:
        """Create the grid of an INTERVAL clause."""
        length = window.length
        parts = (length, window.sliding or length, window.offset or Duration(0, length.unit))
        zone = compiler.timezone if any(part.unit in "dwny" for part in parts) else "UTC"
        return cls(*parts, Clock(zone, compiler.precision))

    @property
    def step(self) -> int:
        """Ticks between starts, in a grid without months."""
        return self.sliding.ticks(self.clock.precision)

    def latest(self, ticks: str) -> str:
        """Return the wall clock at the last start at or before an instant."""
        wall = self.clock.wall(ticks)
        if not self.sliding.is_calendar:
            return floor_to(wall, self.step, self.fixed_offset)
        if self.offset.is_calendar:
            months = floor_to(self.clock.months(wall), self.sliding.months, self.offset.months - MONTHS_FROM_1900)
            return self.clock.month_start(months)
        months = floor_to(self.clock.months(f"({wall} - {self.shift})"), self.sliding.months, -MONTHS_FROM_1900)
        return f"({self.clock.month_start(months)} + {self.shift})"

    def latest_start(self, ticks: str) -> str:
        """Return the last start at or before an instant, also if the clock skips it, or has shown it before it was put back."""
        latest = self.latest(ticks)
        if self.clock.offset is not None:
            return self.clock.instant(latest)
        instants = f"list_transform({self.starts(latest)}, lambda w: {self.clock.instant('w')})"
        return f"list_max(list_filter({instants}, lambda s: s <= {ticks}))"

    def moved(self, wall: str, count: int) -> str:
        """Return the clock some starts later."""
        if self.sliding.is_calendar:
            return self.months_later(wall, str(count * self.sliding.months))
        return f"({wall} + {count * self.step})"

    @property
    def shift(self) -> int:
        """Ticks by which an offset moves the starts of a grid of months."""
        return self.offset.ticks(self.clock.precision) if self.sliding.is_calendar and not self.offset.is_calendar else 0

    def months_later(self, wall: str, months: str) -> str:
        return f"({self.clock.later(f'({wall} - {self.shift})', months)} + {self.shift})"

    def starts(self, wall: str) -> str:
        """Return the list of the wall clock at the starts of windows that may contain an instant, from the last start `wall`."""
        if self.sliding.is_calendar:
            return f"[{self.moved(wall, 1)}, {wall}, {self.moved(wall, -1)}]"
        last = f"{wall} - {self.length.max_ticks(self.clock.precision) + self.slack}"
        return f"range({wall} + {self.slack}, {last}, -{self.step})"

    @property
    def slack(self) -> int:
        """Ticks by which a change of the clock moves a start, and lengthens a window, at most: whole steps of at least a day."""
        day = Duration(1, "d").ticks(self.clock.precision) if self.clock.offset is None else 0
        return -(-day // self.step) * self.step

    def end(self, wall: str) -> str:
        """Return the last instant of the window that starts when the clock shows `wall`."""
        if self.sliding.is_calendar:
            return f"({self.clock.instant(self.months_later(wall, str(self.length.months)))} - 1)"
        if self.length.is_calendar:
            return f"({self.clock.instant(self.clock.later(wall, str(self.length.months)))} - 1)"
        return f"({self.clock.instant(f'({wall} + {self.length.ticks(self.clock.precision)})')} - 1)"

    def exists(self, wall: str) -> str:
        """Return the condition that a start exists.

        If the clock skips a start, it may fall on the same instant as another; only the later of the two exists. A window that the
        clock skips as a whole is none.
        """
        if self.clock.offset is not None or self.sliding.is_calendar:
            return "true"
        shown_wall = self.clock.wall(self.clock.instant(wall))
        is_start = f"({shown_wall} = {wall} OR {floored_mod(f'({shown_wall}) - {self.fixed_offset}', self.step)} <> 0)"
        return f"{is_start} AND {self.clock.instant(wall)} <= {self.end(wall)}"

    @property
    def fixed_offset(self) -> int:
        """The offset in ticks, 0 if it is in months."""
        return 0 if self.offset.is_calendar else self.offset.ticks(self.clock.precision)

    def between(self, first: str, last: str) -> str:
        """Return the list of the wall clock at starts, among them all from one instant to another."""
        low, high = self.latest(first), self.latest(last)
        if not self.sliding.is_calendar:
            return f"range({low} - {self.slack}, {high} + {self.slack} + 1, {self.step})"
        ends = (self.clock.months(f"({wall} - {self.shift})") for wall in (high, low))
        count = f"(({' - '.join(ends)}) // {self.sliding.months})"
        return f"list_transform(range(-1, {count} + 2), lambda i: {self.months_later(low, f'i * {self.sliding.months}')})"
