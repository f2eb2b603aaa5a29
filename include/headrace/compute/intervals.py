"""INTERVAL in Spark SQL: the windows an instant lies in, as arithmetic on ticks."""

from __future__ import annotations

from typing import Final

from headrace.compute import calendar
from headrace.compute.plan import IntervalWindow
from headrace.compute.terms import ticks
from headrace.model.time import Duration, Precision


def start(window: IntervalWindow, sql: str, precision: Precision) -> str:
    """The latest window start at or before an instant."""
    zone = window.zone or "UTC"
    here = calendar.local(sql, zone, precision)
    if window.sliding.is_calendar:
        return calendar.to_utc(month_floor(window, here, precision), zone, precision)
    step, offset = window.sliding.ticks(precision), shift(window.offset, precision)
    moved = f"({here} - {ticks(offset)})" if offset else here
    return calendar.to_utc(f"({here} - pmod({moved}, {ticks(step)}))", zone, precision)


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


def end(window: IntervalWindow, start_: str, precision: Precision) -> str:
    """The last instant of the window that starts at `start_`, inclusive."""
    zone = window.zone or "UTC"
    here = calendar.local(start_, zone, precision)
    if not window.length.is_calendar:
        length = window.length.ticks(precision)
        if window.zone is None:
            return f"({start_} + {ticks(length - 1)})"
        return f"({calendar.to_utc(f'({here} + {ticks(length)})', zone, precision)} - 1L)"
    return f"({calendar.to_utc(calendar.plus_months(here, window.length.months, precision), zone, precision)} - 1L)"


FEW: Final = 8
"""Up to so many windows are written out, which Spark compiles; more are made by a lambda, which it does not."""


def even(window: IntervalWindow) -> bool:
    """Whether windows are whole multiples of the slide, so that rows of one slide lie in the same windows."""
    if window.length.is_calendar or window.zone is not None:
        return False
    return window.length.nanoseconds % window.sliding.nanoseconds == 0


def starts(window: IntervalWindow, sql: str, precision: Precision) -> str:
    """All window starts that an instant lies in, as an array, latest first."""
    candidates = slides(window, start(window, sql, precision), precision)
    return candidates if even(window) else f"filter({candidates}, s -> {end(window, 's', precision)} >= {sql})"


def slides(window: IntervalWindow, latest: str, precision: Precision) -> str:
    """The window starts from the latest back as many slides as a window may have, as an array."""
    step, count = window.sliding.ticks(precision), window.most_slides(precision)
    if count <= FEW:
        return f"array({', '.join(f'{latest} - {ticks(step * number)}' for number in range(count))})"
    return f"transform(sequence(0, {count - 1}), i -> {latest} - i * {ticks(step)})"
