"""Constant instants of the IoTDB language: texts, numbers of ticks, and `now()` with durations added."""

from __future__ import annotations

from headrace.compute.iotdb.windows import duration_ticks
from headrace.context import Context
from headrace.errors import DataError, NotSupportedError
from headrace.model.expressions import Call, Cast, DurationLiteral, Expression, Literal
from headrace.model.instants import add_months, parse_instant
from headrace.model.time import Duration, Precision


def present_ticks(context: Context, precision: Precision) -> int:
    """Return the present in ticks of a precision."""
    return context.clock.now() * precision.ticks_per_second // 1000


def text_ticks(text: str, context: Context, precision: Precision) -> int:
    """Return the instant that a text means in the session's zone, in ticks; raise `DataError` if it means none."""
    ticks = parse_instant(text, context.settings.timezone, precision)
    if ticks is None:
        hint = "write 2024-05-01T12:30:00, 2024-05-01 12:30:00+02:00, or a whole number"
        raise DataError(f"Input time format {text} error", hint=hint)
    return ticks


def shifted_ticks(ticks: int, sign: int, duration: Duration, zone: str, precision: Precision) -> int:
    """Return an instant moved by a duration: months are those of the calendar of a zone, a year has 365 days."""
    if duration.unit == "n":
        return add_months(ticks, sign * duration.count, zone, precision)
    return ticks + sign * duration_ticks((duration,), precision)


def constant_ticks(node: Expression, context: Context, precision: Precision) -> int:
    """Return a constant instant in ticks; raise `NotSupportedError` if the expression is not one."""
    match node:
        case Literal(value=int(ticks)) if not isinstance(ticks, bool):
            return ticks
        case Literal(value=str(text)) | Cast(operand=Literal(value=str(text))):
            return text_ticks(text, context, precision)
        case Call(function="now", arguments=()):
            return present_ticks(context, precision)
        case Call(function="+" | "-" as sign, arguments=(left, DurationLiteral(value=duration))):
            base = constant_ticks(left, context, precision)
            return shifted_ticks(base, 1 if sign == "+" else -1, duration, context.settings.timezone, precision)
    raise NotSupportedError("an instant has to be a constant", hint="write a time, a whole number, or now() - 1h", span=node.span)
