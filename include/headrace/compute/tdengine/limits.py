"""TDengine's window clauses, with their limits checked when a statement is planned."""

from __future__ import annotations

from typing import Final

from headrace.compute.binding.binder import Binder
from headrace.compute.binding.environment import Environment
from headrace.compute.instants import check_ticks, fixed_ticks, is_utc, tick_unit
from headrace.compute.nodes import FALSE, call
from headrace.compute.plan import STATE
from headrace.compute.window_plans import Argument
from headrace.compute.windows.counts import CountWindow
from headrace.compute.windows.events import EventWindow
from headrace.compute.windows.intervals import IntervalWindow
from headrace.compute.windows.sessions import SessionWindow
from headrace.compute.windows.states import StateWindow
from headrace.errors import LimitError, ProgrammingError, TypeMismatchError
from headrace.model.expressions import ColumnRef
from headrace.model.queries import CountClause, EventClause, IntervalClause, SessionClause, StateClause
from headrace.model.time import UNIT_NAMES, Duration, Precision
from headrace.model.types import INTEGERS, STRINGS, TypeKind

MAX_INTERVAL: Final = Duration(1000, "y")
MAX_SLIDES: Final = 100
MIN_SLIDING: Final = Duration(1, "a")
MONTH_TO_COMPARE: Final = Duration(28, "d")
MAX_COUNT_WINDOW_ROWS: Final = 2**31 - 1


def interval_window(window: IntervalClause, _: Binder, names: Environment) -> IntervalWindow:
    """Bind `INTERVAL`, or raise `LimitError`."""
    precision, zone = names.precision, names.timezone
    length = window.length
    sliding, offset = window.sliding or length, window.offset or Duration(0, length.unit)
    check_length(length, precision)
    check_offset(length, offset)
    if window.sliding is not None:
        check_sliding(length, sliding, precision)
    for what, part in (("INTERVAL", length), ("the INTERVAL offset", offset), ("SLIDING", sliding)):
        check_ticks(what, part, precision)
    calendar = any(part.unit in "dwny" for part in (length, sliding, offset))
    return IntervalWindow(length, sliding, offset, zone if calendar and not is_utc(zone) else None)


def check_length(length: Duration, precision: Precision) -> None:
    """Raise `LimitError` if the length of INTERVAL is out of range."""
    if length.count <= 0 or (not length.is_calendar and length.ticks(precision) < 1):
        message = f"INTERVAL {length} is shorter than 1 {UNIT_NAMES[tick_unit(precision)]}, the tick of the database"
        raise LimitError(message, hint="use a longer interval", span=length.span)
    if size(length) > size(MAX_INTERVAL):
        raise LimitError(f"INTERVAL {length} is longer than 1000 years", hint="use a shorter interval", span=length.span)


def check_offset(length: Duration, offset: Duration) -> None:
    """Raise `LimitError` if the offset of INTERVAL is out of range or its unit does not match."""
    if offset.count < 0:
        raise LimitError(f"the INTERVAL offset {offset} is negative", hint="use 0 or more", span=offset.span)
    if offset.unit == "y" and length.unit == "n":
        raise LimitError(f"the offset {offset} in years cannot be combined with INTERVAL {length} in months", span=offset.span)
    if offset.count and size(offset) >= size(length):
        raise LimitError(f"the INTERVAL offset {offset} should be shorter than the interval {length}", span=offset.span)
    if offset.is_calendar and not length.is_calendar and offset.count:
        raise LimitError(
            f"the calendar offset {offset} cannot be combined with INTERVAL {length} of fixed length", span=offset.span
        )


def check_sliding(length: Duration, sliding: Duration, precision: Precision) -> None:
    """Raise `LimitError` if SLIDING is out of range."""
    if sliding.is_calendar:
        if sliding == length:
            return
        raise LimitError(f"SLIDING {sliding} may not be in months or years", hint="use days or weeks", span=sliding.span)
    if sliding.nanoseconds < max(MIN_SLIDING.nanoseconds, precision.nanoseconds):
        raise LimitError(f"SLIDING {sliding} is shorter than 1 millisecond", hint="use 1a or more", span=sliding.span)
    if sliding.nanoseconds > size(length):
        raise LimitError(f"the sliding value {sliding} is larger than the interval value {length}", span=sliding.span)
    if size(length) > MAX_SLIDES * sliding.nanoseconds:
        raise LimitError(f"the sliding value {sliding} is less than 1% of the interval value {length}", span=sliding.span)


def session_window(window: SessionClause, _: Binder, names: Environment) -> SessionWindow:
    """Bind `SESSION` over the primary timestamp, with a fixed gap greater than 0."""
    column, time = window.timestamp, names.time and names.time.name
    if column.name != time:
        message = f"SESSION requires the primary timestamp column, not {column.name}"
        raise ProgrammingError(message, hint=f"write SESSION({time}, {window.gap})", span=column.span or window.span)
    gap = fixed_ticks(window.gap, "the SESSION gap", names.precision)
    if gap <= 0:
        raise LimitError(f"the SESSION gap {window.gap} must be greater than 0", span=window.gap.span)
    return SessionWindow(gap)


def state_window(window: StateClause, row_binder: Binder, names: Environment) -> StateWindow:
    """Bind `STATE_WINDOW` over integers, booleans and text, but not over tags."""
    node, span = window.expression, window.expression.span or window.span
    if isinstance(node, ColumnRef) and names.column(node).tag:
        raise ProgrammingError(f"STATE_WINDOW is not allowed on the tag {node.name}", span=span)
    term = row_binder.bind(node)
    if term.type is None or term.type.kind not in (*INTEGERS, *STRINGS, TypeKind.BOOL):
        message = f"STATE_WINDOW takes integers, booleans or text, not {term.type}"
        raise TypeMismatchError(message, hint="cast it, as in STATE_WINDOW(CAST(x AS INT))", span=span)
    return StateWindow(Argument(STATE, term.node, term.type), true_for(window.true_for, names.precision))


def event_window(window: EventClause, row_binder: Binder, names: Environment) -> EventWindow:
    """Bind `EVENT_WINDOW`. A condition that is NULL does not hold."""
    shortest = true_for(window.true_for, names.precision)
    start, end = row_binder.condition(window.start), row_binder.condition(window.end)
    return EventWindow(call("coalesce", start, FALSE), call("coalesce", end, FALSE), shortest)


def count_window(window: CountClause, _: Binder, __: Environment) -> CountWindow:
    """Bind `COUNT_WINDOW` of at least 2 rows."""
    if not 2 <= window.count <= MAX_COUNT_WINDOW_ROWS:
        raise LimitError(f"COUNT_WINDOW takes 2 to {MAX_COUNT_WINDOW_ROWS} rows, not {window.count}", span=window.count_span)
    sliding = window.count if window.sliding is None else window.sliding
    if not 1 <= sliding <= window.count:
        raise LimitError(f"the sliding value of COUNT_WINDOW must be 1 to {window.count}, not {sliding}", span=window.sliding_span)
    return CountWindow(window.count, sliding)


def true_for(duration: Duration | None, precision: Precision) -> int | None:
    """Return the minimum length of a window, in ticks."""
    return None if duration is None else fixed_ticks(duration, "TRUE_FOR", precision)


def size(duration: Duration) -> int:
    """Return a duration in nanoseconds for comparison of lengths, with months of 28 days."""
    return duration.months * MONTH_TO_COMPARE.nanoseconds if duration.is_calendar else duration.nanoseconds
