"""INTERVAL in Spark SQL: the windows an instant lies in, as arithmetic on ticks."""

from __future__ import annotations

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


def starts(window: IntervalWindow, sql: str, precision: Precision) -> str:
    """All window starts that an instant lies in, as an array, latest first."""
    latest = start(window, sql, precision)
    step = window.sliding.ticks(precision)
    candidates = f"transform(sequence(0, {window.most_slides(precision) - 1}), i -> {latest} - i * {ticks(step)})"
    return f"filter({candidates}, s -> {end(window, 's', precision)} >= {sql})"
