"""INTERVAL in Spark SQL: the windows that contain an instant, by arithmetic on ticks.

With a time zone, windows start when its wall clock shows the points of a regular grid. If the clock is put forward it skips points:
those windows start later by the skipped time, and of two that would start at the same instant the later on the grid applies. If the
clock is put back it repeats points: the first time counts.
"""

from __future__ import annotations

from typing import Final

from headrace.compute import calendar
from headrace.compute.nodes import bigint_sql, raw
from headrace.compute.window_plans import IntervalWindow
from headrace.model import zones
from headrace.model.time import MONTHS_BEFORE_1970, Duration, Precision

DAY: Final = Duration(1, "d")
MAX_UNROLLED_STARTS: Final = 8
"""Up to this many starts are written out, which Spark compiles. More are computed by a lambda, which it interprets."""


def start(window: IntervalWindow, sql: str, precision: Precision) -> str:
    """Return the latest window start at or before an instant."""
    if window.zone is None:
        return floor(window, sql, precision)
    if not has_shifted_starts(window, precision):
        return str(calendar.to_utc(raw(grid_point(window, sql, precision)), window.zone, precision))
    return f"array_max(filter({candidate_starts(window, sql, 1, precision)}, s -> s <= {sql}))"


def floor(window: IntervalWindow, wall: str, precision: Precision) -> str:
    """Return the latest grid point at or before a wall clock."""
    if window.sliding.is_calendar:
        return month_floor(window, wall, precision)
    step, offset = window.sliding.ticks(precision), window.offset.fixed_ticks(precision)
    shifted = f"({wall} - {bigint_sql(offset)})" if offset else wall
    return f"({wall} - pmod({shifted}, {bigint_sql(step)}))"


def month_floor(window: IntervalWindow, wall: str, precision: Precision) -> str:
    """Return the latest grid point at or before a wall clock, for slides in months."""
    count = window.length.months
    if window.offset.is_calendar:
        month = f"({calendar.months(raw(wall), precision)} - {window.offset.months}L)"
        return str(calendar.month_start(raw(f"({floor_months(month, count)} + {window.offset.months}L)"), precision))
    offset = window.offset.fixed_ticks(precision)
    shifted = f"({wall} - {bigint_sql(offset)})" if offset else wall
    first = calendar.month_start(raw(floor_months(str(calendar.months(raw(shifted), precision)), count)), precision)
    return f"({first} + {bigint_sql(offset)})" if offset else str(first)


def floor_months(month: str, count: int) -> str:
    """Return the first month of a group of months, both counted from January 1970."""
    return month if count == 1 else f"({month} - pmod({month} + {MONTHS_BEFORE_1970}L, {count}L))"


def grid_point(window: IntervalWindow, start_: str, precision: Precision) -> str:
    if window.zone is None:
        return start_
    return floor(window, str(calendar.to_local(raw(start_), window.zone, precision)), precision)


def add_slides(window: IntervalWindow, point: str, count: str, precision: Precision) -> str:
    if not window.sliding.is_calendar:
        return f"({point} + {count} * {bigint_sql(window.sliding.ticks(precision))})"
    offset, months = window.offset.fixed_ticks(precision), f"CAST({count} * {window.sliding.months}L AS INT)"
    if not offset:
        return str(calendar.add_months(raw(point), months, precision))
    return f"({calendar.add_months(raw(f'({point} - {bigint_sql(offset)})'), months, precision)} + {bigint_sql(offset)})"


def end(window: IntervalWindow, start_: str, precision: Precision) -> str:
    """Return the last instant of the window that starts at `start_`, inclusive."""
    if window.zone is None and not window.length.is_calendar:
        return f"({start_} + {bigint_sql(window.length.ticks(precision) - 1)})"
    point = grid_point(window, start_, precision)
    if window.sliding.is_calendar:
        last = add_slides(window, point, "1L", precision)
    elif window.length.is_calendar:
        last = str(calendar.add_months(raw(point), window.length.months, precision))
    else:
        last = f"({point} + {bigint_sql(window.length.ticks(precision))})"
    return f"({calendar.to_utc(raw(last), window.zone or 'UTC', precision)} - 1L)"


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


def starts(window: IntervalWindow, sql: str, precision: Precision) -> str:
    """Return the starts of all windows that contain an instant, as an array, latest first."""
    if has_whole_panes(window):
        return consecutive_starts(window, start(window, sql, precision), precision)
    if window.zone is None:
        candidates = consecutive_starts(window, start(window, sql, precision), precision)
        return f"filter({candidates}, s -> {end(window, 's', precision)} >= {sql})"
    candidates = candidate_starts(window, sql, window.max_windows_per_instant(precision), precision)
    return f"array_distinct(filter({candidates}, s -> s <= {sql} AND {end(window, 's', precision)} >= {sql}))"


def candidate_starts(window: IntervalWindow, sql: str, count: int, precision: Precision) -> str:
    """Return possible window starts around an instant in a zone, as an array.

    These are the latest `count` grid points, and as many before and after as a change of the clock may shift.
    """
    margin = 0
    if has_shifted_starts(window, precision):
        change = zones.max_change(window.zone or "UTC") * precision.ticks_per_second
        margin = 1 if window.sliding.is_calendar else -(-change // window.sliding.ticks(precision))
    point = add_slides(window, grid_point(window, sql, precision), "-i", precision)
    shifted = calendar.to_utc(raw(point), window.zone or "UTC", precision)
    return f"transform(sequence({-margin}L, {count - 1 + margin}L), i -> {shifted})"


def consecutive_starts(window: IntervalWindow, latest: str, precision: Precision) -> str:
    """Return the starts of as many windows as may contain an instant, from `latest` back, as an array."""
    step, count = window.sliding.ticks(precision), window.max_windows_per_instant(precision)
    if count <= MAX_UNROLLED_STARTS:
        return f"array({', '.join(f'{latest} - {bigint_sql(step * number)}' for number in range(count))})"
    return f"transform(sequence(0, {count - 1}), i -> {latest} - i * {bigint_sql(step)})"
