"""Assign rows to windows in DuckDB SQL, from each window's definition.

From rows with `_ts` each function computes rows with `_w` (the window's number or start), `_ws` and `_we`: of an INTERVAL the
window's first and last instant, of the others the row's own, whose minimum and maximum are the window's. Rows in no window are left
out; rows in several are repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.queries import CountClause, EventClause, IntervalClause, SessionClause, StateClause, WindowClause
from headrace.model.time import Duration
from headrace.verify.aggregates import END, START, TS
from headrace.verify.expressions import Compiler
from headrace.verify.values import floored_mod
from headrace.verify.zones import Clock, floor_to

WINDOW = "_w"


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """The rows to assign: a relation, its group columns, the columns that order it, and a compiler of its expressions."""

    relation: str
    keys: Sequence[str]
    order: Sequence[str]
    compiler: Compiler

    def over(self, frame: str = "", extra_keys: Sequence[str] = ()) -> str:
        """Return an OVER clause within the group, and within `extra_keys`."""
        keys = [*self.keys, *extra_keys]
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        return f"OVER ({partition}ORDER BY {', '.join(self.order)} {frame})"


def assign_windows(window: WindowClause, rows: OrderedRows) -> str:
    """Return the SELECT of the rows with their windows."""
    match window:
        case IntervalClause():
            return interval(Grid.of(window, rows.compiler), rows)
        case SessionClause():
            return session(window, rows)
        case StateClause():
            return state(window, rows)
        case EventClause():
            return event(window, rows)
        case CountClause():
            return count(window, rows)


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
            months = floor_to(self.clock.months(wall), self.sliding.months, self.offset.months)
            return self.clock.month_start(months)
        months = floor_to(self.clock.months(f"({wall} - {self.shift})"), self.sliding.months)
        return f"({self.clock.month_start(months)} + {self.shift})"

    def covering(self, ticks: str) -> str:
        """Return the same, also if the clock skips that start."""
        latest = self.latest(ticks)
        if self.clock.offset is not None or self.sliding.is_calendar:
            return latest
        return f"CASE WHEN {self.clock.instant(latest)} > {ticks} THEN {latest} - {self.step} ELSE {latest} END"

    @property
    def shift(self) -> int:
        """Ticks by which an offset moves the starts of a grid of months."""
        return self.offset.ticks(self.clock.precision) if self.sliding.is_calendar and not self.offset.is_calendar else 0

    def months_later(self, wall: str, months: str) -> str:
        """Return the start that is `months` later, in a grid of months."""
        return f"({self.clock.later(f'({wall} - {self.shift})', months)} + {self.shift})"

    def starts(self, wall: str) -> str:
        """Return the list of the wall clock at the starts of windows that may contain an instant, from the last start `wall`."""
        if self.sliding.is_calendar:
            return f"[{wall}, {self.months_later(wall, f'-{self.sliding.months}')}]"
        max_length = Duration(31 * self.length.months, "d") if self.length.is_calendar else self.length
        # A change of the clock moves a start, and lengthens a window, by at most this.
        slack = Duration(3, "h").ticks(self.clock.precision) if self.clock.offset is None else 0
        return f"range({wall}, {wall} - {max_length.ticks(self.clock.precision) + slack}, -{self.step})"

    def end(self, wall: str) -> str:
        """Return the last instant of the window that starts when the clock shows `wall`."""
        if self.sliding.is_calendar:
            return f"({self.clock.instant(self.months_later(wall, str(self.length.months)))} - 1)"
        if self.length.is_calendar:
            return f"({self.clock.instant(self.clock.later(wall, str(self.length.months)))} - 1)"
        return f"({self.clock.instant(f'({wall} + {self.length.ticks(self.clock.precision)})')} - 1)"

    def exists(self, wall: str) -> str:
        """Return the condition that a start exists.

        If the clock skips a start, it falls on the same instant as another; only the later of the two exists.
        """
        if self.clock.offset is not None or self.sliding.is_calendar:
            return "true"
        shown_wall = self.clock.wall(self.clock.instant(wall))
        return f"({shown_wall} = {wall} OR {floored_mod(f'({shown_wall}) - {self.fixed_offset}', self.step)} <> 0)"

    @property
    def fixed_offset(self) -> int:
        """The offset in ticks, 0 if it is in months."""
        return 0 if self.offset.is_calendar else self.offset.ticks(self.clock.precision)

    def between(self, first: str, last: str) -> str:
        """Return the list of the wall clock at all starts from one to another."""
        if not self.sliding.is_calendar:
            return f"range({first}, {last} + 1, {self.step})"
        ends = (self.clock.months(f"({wall} - {self.shift})") for wall in (last, first))
        count = f"(({' - '.join(ends)}) // {self.sliding.months})"
        return f"list_transform(range(0, {count} + 1), lambda i: {self.months_later(first, f'i * {self.sliding.months}')})"


def interval(grid: Grid, rows: OrderedRows) -> str:
    """Assign rows to every window with `start <= ts < start + length`."""
    latest = f"SELECT *, {grid.latest(TS)} AS _latest FROM {rows.relation}"
    candidates = f"SELECT * EXCLUDE (_latest), unnest({grid.starts('_latest')}) AS _wall FROM ({latest})"
    bounded = (
        f"SELECT * EXCLUDE (_wall), {grid.clock.instant('_wall')} AS {START}, {grid.end('_wall')} AS {END} FROM ({candidates})"
    )
    bounded += f" WHERE {grid.exists('_wall')}"
    return f"SELECT *, {START} AS {WINDOW} FROM ({bounded}) WHERE {START} <= {TS} AND {TS} <= {END}"


def number_windows(rows: OrderedRows, relation: str, breaks: str) -> str:
    """Number windows that begin at each row for which `breaks` holds."""
    with_breaks = f"SELECT *, CASE WHEN {breaks} THEN 1 ELSE 0 END AS _break FROM {relation}"
    number = f"sum(_break) {rows.over('ROWS UNBOUNDED PRECEDING')}"
    return f"SELECT * EXCLUDE (_break), {number} AS {WINDOW}, {TS} AS {START}, {TS} AS {END} FROM ({with_breaks})"


def session(window: SessionClause, rows: OrderedRows) -> str:
    """Begin a window at each row farther than the gap from the previous one."""
    gap = window.gap.ticks(rows.compiler.precision)
    return number_windows(rows, rows.relation, f"{TS} - lag({TS}) {rows.over()} > {gap}")


def state(window: StateClause, rows: OrderedRows) -> str:
    """Skip rows without a state, and begin a window at each row whose state differs from the previous one."""
    value = rows.compiler.value(window.expression)
    with_state = f"(SELECT *, {value.sql} AS _state FROM {rows.relation} WHERE {value.sql} IS NOT NULL)"
    return number_windows(rows, with_state, f"_state IS DISTINCT FROM lag(_state) {rows.over()}")


def event(window: EventClause, rows: OrderedRows) -> str:
    """Return the rows from a START to the first END at or after it.

    Of several STARTs before one END, the first begins the window.
    """
    start, end = (rows.compiler.condition(node) for node in (window.start, window.end))
    ranked = f"SELECT *, row_number() {rows.over()} AS _rank FROM {rows.relation}"
    to_come = rows.over("ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING")
    ended = f"SELECT *, min(CASE WHEN {end} THEN _rank END) {to_come} AS {WINDOW} FROM ({ranked})"
    keys = ", ".join([*rows.keys, WINDOW])
    opened = f"SELECT *, min(CASE WHEN {start} THEN _rank END) OVER (PARTITION BY {keys}) AS _opened FROM ({ended})"
    is_member = f"{WINDOW} IS NOT NULL AND _rank >= _opened"
    return f"SELECT * EXCLUDE (_rank, _opened), {TS} AS {START}, {TS} AS {END} FROM ({opened}) WHERE {is_member}"


def count(window: CountClause, rows: OrderedRows) -> str:
    """Begin a window of the next `count` rows every `sliding` rows."""
    step = window.sliding or window.count
    ranked = f"SELECT *, row_number() {rows.over()} - 1 AS _rank FROM {rows.relation}"
    first = f"greatest(0, (_rank - {window.count} + {step}) // {step})"
    numbers = f"unnest(range(CAST({first} AS BIGINT), _rank // {step} + 1))"
    return f"SELECT * EXCLUDE (_rank), {numbers} AS {WINDOW}, {TS} AS {START}, {TS} AS {END} FROM ({ranked})"


def true_for_condition(window: WindowClause, rows: OrderedRows) -> str | None:
    """Return the condition of TRUE_FOR on a window's length, if there is one."""
    min_length = window.true_for if isinstance(window, StateClause | EventClause) else None
    return None if min_length is None else f"{END} - {START} >= {min_length.ticks(rows.compiler.precision)}"
