"""Ranges of time: of a query that is verified within one, and the windows of GROUP BY."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headrace.errors import LimitError
from headrace.model.expressions import Call, ColumnRef, Expression, Literal, columns_of, conjuncts
from headrace.model.time import Precision
from headrace.model.tree_queries import CompoundDuration, GroupByTime, TimeRange, TreeQuery
from headrace.verify.expressions import Compiler
from headrace.verify.iotdb.operators import later, ticks_of
from headrace.verify.steps import END, START
from headrace.verify.values import unsupported

MAX_WINDOWS: Final = 1_000_000
MAX_TICKS: Final = 2**63 - 1
DAYS: Final = {"n": 30, "y": 365}
CALENDAR_UNITS: Final = {"n": 1, "y": 12}
"""Months of the units whose length depends on the calendar."""


EDGES: Final = ("_time", "_end", START, END)
"""The columns of a window: the time that its row shows, its end as `__endTime` shows it, and its first and last instant."""


def within(query: TreeQuery, start: int, end: int) -> TreeQuery:
    """Return a query restricted to `[start, end)` in ticks: as the range of GROUP BY time, else by a condition on time."""
    grouping = query.grouping
    if grouping is not None and grouping.time is not None:
        if grouping.time.range is not None:
            raise unsupported("a range of time for a query whose GROUP BY has one")
        time = replace(grouping.time, range=TimeRange(Literal(start), Literal(end)))
        return replace(query, grouping=replace(grouping, time=time))
    bounds = [Call(">=", (ColumnRef("time"), Literal(start))), Call("<", (ColumnRef("time"), Literal(end)))]
    condition: Expression = Call("and", tuple(bounds))
    return replace(query, where=condition if query.where is None else Call("and", (query.where, condition)))


def bounds_of(query: TreeQuery, compiler: Compiler) -> tuple[int, int]:
    """Return the least and greatest instant of rows that a query can need, by its range and the conditions that AND joins."""
    low, high = -MAX_TICKS, MAX_TICKS
    for node in conjuncts(query.where):
        match node:
            case Call(function=">" | ">=", arguments=(ColumnRef(name="time"), bound)) if not columns_of(bound):
                low = max(low, ticks_of(compiler, bound))
            case Call(function="<" | "<=", arguments=(ColumnRef(name="time"), bound)) if not columns_of(bound):
                high = min(high, ticks_of(compiler, bound))
    time = None if query.grouping is None else query.grouping.time
    if time is not None and time.range is not None:
        low, high = max(low, ticks_of(compiler, time.range.start)), min(high, ticks_of(compiler, time.range.end))
    return low, high


def _length_of(duration: CompoundDuration, precision: Precision) -> tuple[int, int]:
    """Return a duration of GROUP BY time as calendar months, and ticks after them."""
    months = sum(part.count * CALENDAR_UNITS.get(part.unit, 0) for part in duration)
    return months, fixed_ticks(tuple(part for part in duration if part.unit not in CALENDAR_UNITS), precision)


def fixed_ticks(duration: CompoundDuration, precision: Precision) -> int:
    """Return a duration in ticks; a month has 30 days, a year 365."""
    day = 86_400 * precision.ticks_per_second
    return sum(DAYS[part.unit] * day * part.count if part.unit in DAYS else part.ticks(precision) for part in duration)


def windows_of(clause: GroupByTime, compiler: Compiler) -> list[tuple[int, int, int, int]]:
    """Return the columns of `EDGES` of every window of GROUP BY time, also those without rows."""
    if clause.range is None:
        raise unsupported("GROUP BY time without a range")
    first, end = ticks_of(compiler, clause.range.start), ticks_of(compiler, clause.range.end)
    length, step = (_length_of(part, compiler.precision) for part in (clause.interval, clause.step or clause.interval))
    # In `(start, end]` an instant belongs where the one before it belongs in `[start, end)`.
    shift = 1 if clause.range.left_open else 0
    windows: list[tuple[int, int, int, int]] = []
    # Months are counted from the start of the range.
    while (start := later(first, step[0] * len(windows), step[1] * len(windows), compiler)) < end:
        if len(windows) == MAX_WINDOWS:
            raise LimitError(f"verify recomputes at most {MAX_WINDOWS} windows", hint="make the range shorter")
        stop = later(first, step[0] * len(windows) + length[0], step[1] * len(windows) + length[1], compiler)
        last = min(stop, end) - 1 + shift
        windows.append((last if shift else start, last, start + shift, last))
    return windows
