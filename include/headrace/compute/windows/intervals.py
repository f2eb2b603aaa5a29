"""INTERVAL in Spark SQL: the windows an instant lies in, as arithmetic on ticks.

In a zone, windows start when its wall clock shows the points of a grid. Where a clock is put forward it leaves out points: those
windows start as much later as is left out, and of two that would start at one instant the later on the grid is meant. Where it is
put back it shows points twice: the first time counts.
"""

from __future__ import annotations

from typing import Final

from headrace.compute import calendar
from headrace.compute.plan import IntervalWindow
from headrace.compute.terms import ticks
from headrace.model.time import Duration, Precision

DAY: Final = Duration(1, "d")
MAX_SHIFTED_SLIDES: Final = Duration(3, "h")
"""No zone puts its clock on or back by more (but for a change of the date line, which is at midnight)."""

FEW: Final = 8
"""Up to so many windows are written out, which Spark compiles; more are made by a lambda, which it does not."""


def start(window: IntervalWindow, sql: str, precision: Precision) -> str:
    """The latest window start at or before an instant."""
    if window.zone is None:
        return floor(window, sql, precision)
    if not broken(window, precision):
        return calendar.to_utc(wall(window, sql, precision), window.zone, precision)
    return f"array_max(filter({around(window, sql, 1, precision)}, s -> s <= {sql}))"


def floor(window: IntervalWindow, here: str, precision: Precision) -> str:
    """The latest point of the grid that a wall clock has shown."""
    if window.sliding.is_calendar:
        return month_floor(window, here, precision)
    step, offset = window.sliding.ticks(precision), shift(window.offset, precision)
    moved = f"({here} - {ticks(offset)})" if offset else here
    return f"({here} - pmod({moved}, {ticks(step)}))"


def month_floor(window: IntervalWindow, here: str, precision: Precision) -> str:
    """The first instant of a wall clock's group of months, moved by the offset."""
    count = window.length.months
    if window.offset.is_calendar:
        month = f"({calendar.months(here, precision)} - {window.offset.months}L)"
        return calendar.month_start(f"({floored(month, count)} + {window.offset.months}L)", precision)
    offset = shift(window.offset, precision)
    moved = f"({here} - {ticks(offset)})" if offset else here
    first = calendar.month_start(floored(calendar.months(moved, precision), count), precision)
    return f"({first} + {ticks(offset)})" if offset else first


def floored(month: str, count: int) -> str:
    return month if count == 1 else f"({month} - pmod({month}, {count}L))"


def shift(offset: Duration, precision: Precision) -> int:
    return 0 if offset.is_calendar else offset.ticks(precision)


def wall(window: IntervalWindow, start_: str, precision: Precision) -> str:
    """The point of the grid at which the window begins that starts at an instant."""
    if window.zone is None:
        return start_
    return floor(window, calendar.to_local(start_, window.zone, precision), precision)


def moved(window: IntervalWindow, point: str, count: str, precision: Precision) -> str:
    """The point of the grid so many slides on."""
    if not window.sliding.is_calendar:
        return f"({point} + {count} * {ticks(window.sliding.ticks(precision))})"
    offset, months = shift(window.offset, precision), f"CAST({count} * {window.sliding.months}L AS INT)"
    if not offset:
        return calendar.add_months(point, months, precision)
    return f"({calendar.add_months(f'({point} - {ticks(offset)})', months, precision)} + {ticks(offset)})"


def end(window: IntervalWindow, start_: str, precision: Precision) -> str:
    """The last instant of the window that starts at `start_`, inclusive."""
    if window.zone is None and not window.length.is_calendar:
        return f"({start_} + {ticks(window.length.ticks(precision) - 1)})"
    point = wall(window, start_, precision)
    if window.sliding.is_calendar:
        last = moved(window, point, "1L", precision)
    elif window.length.is_calendar:
        last = calendar.add_months(point, window.length.months, precision)
    else:
        last = f"({point} + {ticks(window.length.ticks(precision))})"
    return f"({calendar.to_utc(last, window.zone or 'UTC', precision)} - 1L)"


def even(window: IntervalWindow) -> bool:
    """Whether windows are whole multiples of the slide, so that rows of one slide lie in the same windows."""
    if window.length.is_calendar or window.zone is not None:
        return False
    return window.length.nanoseconds % window.sliding.nanoseconds == 0


def broken(window: IntervalWindow, precision: Precision) -> bool:
    """Whether windows may start in an hour that a clock leaves out or repeats: where the grid is not of whole days."""
    if window.zone is None:
        return False
    parts = [part for part in (window.sliding, window.offset) if not part.is_calendar]
    return any(part.ticks(precision) % DAY.ticks(precision) for part in parts)


def starts(window: IntervalWindow, sql: str, precision: Precision) -> str:
    """All window starts that an instant lies in, as an array, latest first."""
    if even(window):
        return slides(window, start(window, sql, precision), precision)
    if window.zone is None:
        candidates = slides(window, start(window, sql, precision), precision)
        return f"filter({candidates}, s -> {end(window, 's', precision)} >= {sql})"
    candidates = around(window, sql, window.most_slides(precision), precision)
    return f"array_distinct(filter({candidates}, s -> s <= {sql} AND {end(window, 's', precision)} >= {sql}))"


def around(window: IntervalWindow, sql: str, count: int, precision: Precision) -> str:
    """In a zone, the window starts from the latest back as many slides, and as many beside as the clock may shift, as an array."""
    spare = 0
    if broken(window, precision):
        spare = 1 if window.sliding.is_calendar else -(-MAX_SHIFTED_SLIDES.ticks(precision) // window.sliding.ticks(precision))
    place = moved(window, wall(window, sql, precision), "-i", precision)
    return f"transform(sequence({-spare}L, {count - 1 + spare}L), i -> {calendar.to_utc(place, window.zone or 'UTC', precision)})"


def slides(window: IntervalWindow, latest: str, precision: Precision) -> str:
    """The window starts from the latest back as many slides as a window may have, as an array."""
    step, count = window.sliding.ticks(precision), window.most_slides(precision)
    if count <= FEW:
        return f"array({', '.join(f'{latest} - {ticks(step * number)}' for number in range(count))})"
    return f"transform(sequence(0, {count - 1}), i -> {latest} - i * {ticks(step)})"
