"""Durations in ticks of a database, checked when a statement is planned."""

from __future__ import annotations

from headrace.errors import LimitError
from headrace.model.spans import Span
from headrace.model.time import UNIT_NAMES, Duration, Precision


def fixed(duration: Duration, what: str, precision: Precision, span: Span | None) -> int:
    """Return the ticks of a duration of fixed length, 0 or more."""
    if duration.is_calendar:
        raise LimitError(
            f"{what} may not be in months or years, as {duration} is", hint="use weeks, days or shorter units", span=span
        )
    if duration.count < 0:
        raise LimitError(f"{what} {duration} is negative", span=span)
    check_ticks(what, duration, precision, span)
    return duration.ticks(precision)


def check_ticks(what: str, duration: Duration, precision: Precision, span: Span | None) -> None:
    """Refuse fractions of the database's tick, which would be cut off."""
    if not duration.is_calendar and duration.nanoseconds % precision.nanoseconds:
        unit = UNIT_NAMES[tick_unit(precision)]
        raise LimitError(f"{what} {duration} is no whole number of {unit}s, the ticks of the database", span=span)


def tick_unit(precision: Precision) -> str:
    return {"ms": "a", "us": "u", "ns": "b"}[precision.value]
