"""Checks of durations when a statement is planned, and their conversion to ticks."""

from __future__ import annotations

from headrace.errors import LimitError
from headrace.model.spans import Span
from headrace.model.time import UNIT_NAMES, Duration, Precision


def fixed_ticks(duration: Duration, what: str, precision: Precision, span: Span | None) -> int:
    """Return a duration of fixed length in ticks.

    Raises:
        LimitError: It is in months or years, negative, or no multiple of the tick.
    """
    if duration.is_calendar:
        raise LimitError(
            f"{what} may not be in months or years, as {duration} is", hint="use weeks, days or shorter units", span=span
        )
    if duration.count < 0:
        raise LimitError(f"{what} {duration} is negative", span=span)
    check_ticks(what, duration, precision, span)
    return duration.ticks(precision)


def check_ticks(what: str, duration: Duration, precision: Precision, span: Span | None) -> None:
    """Raise `LimitError` if a duration is not a multiple of the tick, which would truncate it."""
    if not duration.is_calendar and duration.nanoseconds % precision.nanoseconds:
        unit = UNIT_NAMES[tick_unit(precision)]
        raise LimitError(f"{what} {duration} is not a multiple of one {unit}, the tick of the database", span=span)


def tick_unit(precision: Precision) -> str:
    """Return the duration unit of one tick, such as `a` for milliseconds."""
    return {"ms": "a", "us": "u", "ns": "b"}[precision.value]
