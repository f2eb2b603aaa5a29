"""The limits of windows, checked when a statement is planned."""

from __future__ import annotations

from typing import Final

from headrace.compute.instants import is_utc
from headrace.compute.plan import CountWindow, IntervalWindow, SessionWindow
from headrace.errors import LimitError, ProgrammingError
from headrace.model.expressions import ColumnRef
from headrace.model.queries import Count, Interval, Session
from headrace.model.spans import Span
from headrace.model.time import UNIT_NAMES, Duration, Precision

LONGEST: Final = Duration(1000, "y")
MOST_SLIDES: Final = 100
SHORTEST_SLIDING: Final = Duration(1, "a")
MONTH_TO_COMPARE: Final = Duration(28, "d")
MOST_COUNT: Final = 2**31 - 1


def interval(window: Interval, precision: Precision, zone: str) -> IntervalWindow:
    """`INTERVAL` within its limits."""
    length, span = window.length, window.span
    sliding, offset = window.sliding or length, window.offset or Duration(0, length.unit)
    check_length(length, precision, span)
    check_offset(length, offset, span)
    if window.sliding is not None:
        check_sliding(length, sliding, precision, span)
    for what, part in (("INTERVAL", length), ("the INTERVAL offset", offset), ("SLIDING", sliding)):
        check_ticks(what, part, precision, span)
    calendar = any(part.unit in "dwny" for part in (length, sliding, offset))
    return IntervalWindow(length, sliding, offset, zone if calendar and not is_utc(zone) else None)


def check_length(length: Duration, precision: Precision, span: Span | None) -> None:
    if length.count <= 0 or (not length.is_calendar and length.ticks(precision) < 1):
        raise LimitError(
            f"INTERVAL {length} is shorter than 1 {UNIT_NAMES[tick_unit(precision)]}, the tick of the database",
            hint="use a longer interval",
            span=span,
        )
    if size(length) > size(LONGEST):
        raise LimitError(f"INTERVAL {length} is longer than 1000 years", hint="use a shorter interval", span=span)


def check_offset(length: Duration, offset: Duration, span: Span | None) -> None:
    if offset.count < 0:
        raise LimitError(f"the INTERVAL offset {offset} is negative", hint="use 0 or more", span=span)
    if offset.unit == "y" and length.unit == "n":
        raise LimitError(f"the offset {offset} in years does not go with INTERVAL {length} in months", span=span)
    if offset.count and size(offset) >= size(length):
        raise LimitError(f"the INTERVAL offset {offset} should be shorter than the interval {length}", span=span)
    if offset.is_calendar and not length.is_calendar and offset.count:
        raise LimitError(f"the calendar offset {offset} does not go with INTERVAL {length} of fixed length", span=span)


def check_sliding(length: Duration, sliding: Duration, precision: Precision, span: Span | None) -> None:
    if sliding.is_calendar:
        if sliding == length:
            return
        raise LimitError(f"SLIDING {sliding} may not be in months or years", hint="use days or weeks", span=span)
    if sliding.nanoseconds < max(SHORTEST_SLIDING.nanoseconds, precision.nanoseconds):
        raise LimitError(f"SLIDING {sliding} is shorter than 1 millisecond", hint="use 1a or more", span=span)
    if sliding.nanoseconds > size(length):
        raise LimitError(f"the sliding value {sliding} is larger than the interval value {length}", span=span)
    if size(length) > MOST_SLIDES * sliding.nanoseconds:
        raise LimitError(f"the sliding value {sliding} is less than 1% of the interval value {length}", span=span)


def session(window: Session, time: str | None, precision: Precision) -> SessionWindow:
    """`SESSION` over the primary timestamp, with a fixed gap above 0."""
    column: ColumnRef = window.timestamp
    if column.name != time:
        raise ProgrammingError(
            f"SESSION is possible only on the primary timestamp column, not on {column.name}",
            hint=f"write SESSION({time}, {window.gap})",
            span=column.span or window.span,
        )
    gap = fixed(window.gap, "the SESSION gap", precision, window.span)
    if gap <= 0:
        raise LimitError(f"the SESSION gap {window.gap} must be greater than 0", span=window.span)
    return SessionWindow(gap)


def count(window: Count) -> CountWindow:
    """`COUNT_WINDOW` of 2 rows and more."""
    if not 2 <= window.count <= MOST_COUNT:
        raise LimitError(f"COUNT_WINDOW takes 2 to {MOST_COUNT} rows, not {window.count}", span=window.span)
    sliding = window.count if window.sliding is None else window.sliding
    if not 1 <= sliding <= window.count:
        raise LimitError(f"the sliding value of COUNT_WINDOW must be 1 to {window.count}, not {sliding}", span=window.span)
    return CountWindow(window.count, sliding)


def true_for(duration: Duration | None, precision: Precision, span: Span | None) -> int | None:
    """The least length of a window, in ticks."""
    return None if duration is None else fixed(duration, "TRUE_FOR", precision, span)


def fixed(duration: Duration, what: str, precision: Precision, span: Span | None) -> int:
    if duration.is_calendar:
        raise LimitError(f"{what} may not be in months or years, as {duration} is", hint="use b u a s m h d or w", span=span)
    if duration.count < 0:
        raise LimitError(f"{what} {duration} is negative", span=span)
    check_ticks(what, duration, precision, span)
    return duration.ticks(precision)


def check_ticks(what: str, duration: Duration, precision: Precision, span: Span | None) -> None:
    """Refuse fractions of the database's tick, which would be cut off."""
    if not duration.is_calendar and duration.nanoseconds % precision.nanoseconds:
        unit = UNIT_NAMES[tick_unit(precision)]
        raise LimitError(f"{what} {duration} is no whole number of {unit}s, the ticks of the database", span=span)


def size(duration: Duration) -> int:
    """Nanoseconds; of months 28 days each, as lengths are compared."""
    return duration.months * MONTH_TO_COMPARE.nanoseconds if duration.is_calendar else duration.nanoseconds


def tick_unit(precision: Precision) -> str:
    return {"ms": "a", "us": "u", "ns": "b"}[precision.value]
