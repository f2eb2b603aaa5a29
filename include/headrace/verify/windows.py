"""Which windows a row lies in, as DuckDB SQL from each window's definition.

From rows with `_ts` each function makes rows with `_w` (the window's number or start), `_ws` and `_we`: of an INTERVAL the window's
first and last instant, of the others the row's own, whose least and greatest are the window's. Rows in no window are left out,
rows in several are repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.queries import CountClause, EventClause, IntervalClause, SessionClause, StateClause, WindowClause
from headrace.model.time import Duration
from headrace.verify.aggregates import END, START, TS
from headrace.verify.expressions import Compiler
from headrace.verify.values import floored
from headrace.verify.zones import Clock, floor_to

NUMBER = "_w"


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """The rows that windows are made of: a relation, the columns of its groups, what orders its rows, and its expressions."""

    relation: str
    keys: Sequence[str]
    order: Sequence[str]
    compiler: Compiler

    def over(self, frame: str = "", also: Sequence[str] = ()) -> str:
        keys = [*self.keys, *also]
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        return f"OVER ({partition}ORDER BY {', '.join(self.order)} {frame})"


def placed(window: WindowClause, rows: OrderedRows) -> str:
    """The rows in their windows."""
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
    """Where the windows of an INTERVAL start and end. Days and longer follow the wall clock, as does what is shifted by them."""

    length: Duration
    sliding: Duration
    offset: Duration
    clock: Clock

    @classmethod
    def of(cls, window: IntervalClause, compiler: Compiler) -> Grid:
        length = window.length
        parts = (length, window.sliding or length, window.offset or Duration(0, length.unit))
        zone = compiler.timezone if any(part.unit in "dwny" for part in parts) else "UTC"
        return cls(*parts, Clock(zone, compiler.precision))

    @property
    def step(self) -> int:
        """Of a grid of fixed steps."""
        return self.sliding.ticks(self.clock.precision)

    def latest(self, ticks: str) -> str:
        """The wall clock at the latest start that is not after an instant."""
        wall = self.clock.wall(ticks)
        if not self.sliding.is_calendar:
            return floor_to(wall, self.step, self.fixed_offset)
        if self.offset.is_calendar:
            months = floor_to(self.clock.months(wall), self.sliding.months, self.offset.months)
            return self.clock.month_start(months)
        months = floor_to(self.clock.months(f"({wall} - {self.shift})"), self.sliding.months)
        return f"({self.clock.month_start(months)} + {self.shift})"

    def covering(self, ticks: str) -> str:
        """The wall clock at the latest start that is not after an instant, also where the clock leaves that start out."""
        latest = self.latest(ticks)
        if self.clock.offset is not None or self.sliding.is_calendar:
            return latest
        return f"CASE WHEN {self.clock.instant(latest)} > {ticks} THEN {latest} - {self.step} ELSE {latest} END"

    @property
    def shift(self) -> int:
        """What the starts of a grid of months are moved by, in ticks."""
        return self.offset.ticks(self.clock.precision) if self.sliding.is_calendar and not self.offset.is_calendar else 0

    def moved(self, wall: str, months: str) -> str:
        """The start so many months on, of a grid of months."""
        return f"({self.clock.later(f'({wall} - {self.shift})', months)} + {self.shift})"

    def starts(self, wall: str) -> str:
        """The wall clock at the starts that may hold an instant whose latest start is given, as a list."""
        if self.sliding.is_calendar:
            return f"[{wall}, {self.moved(wall, f'-{self.sliding.months}')}]"
        reach = Duration(31 * self.length.months, "d") if self.length.is_calendar else self.length
        # Where a clock is put on or back, a start may be as much later, and a window as much longer.
        spare = Duration(3, "h").ticks(self.clock.precision) if self.clock.offset is None else 0
        return f"range({wall}, {wall} - {reach.ticks(self.clock.precision) + spare}, -{self.step})"

    def end(self, wall: str) -> str:
        """The last instant of the window that starts when the clock shows `wall`."""
        if self.sliding.is_calendar:
            return f"({self.clock.instant(self.moved(wall, str(self.length.months)))} - 1)"
        if self.length.is_calendar:
            return f"({self.clock.instant(self.clock.later(wall, str(self.length.months)))} - 1)"
        return f"({self.clock.instant(f'({wall} + {self.length.ticks(self.clock.precision)})')} - 1)"

    def exists(self, wall: str) -> str:
        """Whether a start is one. Of two that would be the same instant, since the clock leaves one out, the later is meant."""
        if self.clock.offset is not None or self.sliding.is_calendar:
            return "true"
        shown = self.clock.wall(self.clock.instant(wall))
        return f"({shown} = {wall} OR {floored(f'({shown}) - {self.fixed_offset}', self.step)} <> 0)"

    @property
    def fixed_offset(self) -> int:
        return 0 if self.offset.is_calendar else self.offset.ticks(self.clock.precision)

    def between(self, first: str, last: str) -> str:
        """The wall clock at all starts from one to another, both walls of starts."""
        if not self.sliding.is_calendar:
            return f"range({first}, {last} + 1, {self.step})"
        ends = (self.clock.months(f"({wall} - {self.shift})") for wall in (last, first))
        count = f"(({' - '.join(ends)}) // {self.sliding.months})"
        return f"list_transform(range(0, {count} + 1), lambda i: {self.moved(first, f'i * {self.sliding.months}')})"


def interval(grid: Grid, rows: OrderedRows) -> str:
    """Every window with `start <= ts < start + length`."""
    latest = f"SELECT *, {grid.latest(TS)} AS _latest FROM {rows.relation}"
    spread = f"SELECT * EXCLUDE (_latest), unnest({grid.starts('_latest')}) AS _wall FROM ({latest})"
    ended = f"SELECT * EXCLUDE (_wall), {grid.clock.instant('_wall')} AS {START}, {grid.end('_wall')} AS {END} FROM ({spread})"
    ended += f" WHERE {grid.exists('_wall')}"
    return f"SELECT *, {START} AS {NUMBER} FROM ({ended}) WHERE {START} <= {TS} AND {TS} <= {END}"


def numbered(rows: OrderedRows, relation: str, breaks: str) -> str:
    """Windows that end where a condition on a row and the one before it holds."""
    marked = f"SELECT *, CASE WHEN {breaks} THEN 1 ELSE 0 END AS _break FROM {relation}"
    number = f"sum(_break) {rows.over('ROWS UNBOUNDED PRECEDING')}"
    return f"SELECT * EXCLUDE (_break), {number} AS {NUMBER}, {TS} AS {START}, {TS} AS {END} FROM ({marked})"


def session(window: SessionClause, rows: OrderedRows) -> str:
    """A row farther than the gap from the one before it begins a window."""
    gap = window.gap.ticks(rows.compiler.precision)
    return numbered(rows, rows.relation, f"{TS} - lag({TS}) {rows.over()} > {gap}")


def state(window: StateClause, rows: OrderedRows) -> str:
    """Rows without a state do not count; a row with another state than the one before it begins a window."""
    value = rows.compiler.value(window.expression)
    known = f"(SELECT *, {value.sql} AS _state FROM {rows.relation} WHERE {value.sql} IS NOT NULL)"
    return numbered(rows, known, f"_state IS DISTINCT FROM lag(_state) {rows.over()}")


def event(window: EventClause, rows: OrderedRows) -> str:
    """Rows from a START to the first END at or after it. Starts that have the same END are of one window, the first begins it."""
    start, end = (rows.compiler.condition(node) for node in (window.start, window.end))
    ranked = f"SELECT *, row_number() {rows.over()} AS _rank FROM {rows.relation}"
    to_come = rows.over("ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING")
    ended = f"SELECT *, min(CASE WHEN {end} THEN _rank END) {to_come} AS {NUMBER} FROM ({ranked})"
    keys = ", ".join([*rows.keys, NUMBER])
    opened = f"SELECT *, min(CASE WHEN {start} THEN _rank END) OVER (PARTITION BY {keys}) AS _opened FROM ({ended})"
    inside = f"{NUMBER} IS NOT NULL AND _rank >= _opened"
    return f"SELECT * EXCLUDE (_rank, _opened), {TS} AS {START}, {TS} AS {END} FROM ({opened}) WHERE {inside}"


def count(window: CountClause, rows: OrderedRows) -> str:
    """Every `sliding` rows a window of the next `count` rows begins."""
    step = window.sliding or window.count
    ranked = f"SELECT *, row_number() {rows.over()} - 1 AS _rank FROM {rows.relation}"
    first = f"greatest(0, (_rank - {window.count} + {step}) // {step})"
    numbers = f"unnest(range(CAST({first} AS BIGINT), _rank // {step} + 1))"
    return f"SELECT * EXCLUDE (_rank), {numbers} AS {NUMBER}, {TS} AS {START}, {TS} AS {END} FROM ({ranked})"


def shortest(window: WindowClause, rows: OrderedRows) -> str | None:
    """The condition that TRUE_FOR puts on a window's ends."""
    least = window.true_for if isinstance(window, StateClause | EventClause) else None
    return None if least is None else f"{END} - {START} >= {least.ticks(rows.compiler.precision)}"
