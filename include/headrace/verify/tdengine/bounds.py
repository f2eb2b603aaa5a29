"""The range of instants that a WHERE clause admits."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.expressions import Call, ColumnRef, Expression, walk
from headrace.verify.expressions import MIRRORED, Compiler, conjuncts
from headrace.verify.tdengine.conversions import to_instant
from headrace.verify.tdengine.frames import ROW_TIME, Frame


@dataclass(frozen=True, slots=True)
class Range:
    """First and last instant, inclusive, that WHERE admits; None if it sets no bound."""

    first: int | None = None
    last: int | None = None


def time_range(where: Expression | None, frame: Frame, compiler: Compiler) -> Range:
    """Return the range of instants that the conjuncts of WHERE admit."""
    bounds = [bound for condition in conjuncts(where) for bound in _bounds(condition, frame, compiler)]
    firsts = [ticks for sign, ticks in bounds if sign in (">=", "=")]
    lasts = [ticks for sign, ticks in bounds if sign in ("<=", "=")]
    return Range(max(firsts, default=None), min(lasts, default=None))


def _bounds(node: Expression, frame: Frame, compiler: Compiler) -> list[tuple[str, int]]:
    """Return the inclusive bounds that one condition puts on the timestamp, as `(sign, ticks)`."""
    match node:
        case Call(function="between", arguments=(subject, low, high)) if _is_time(subject, frame):
            ends = (ticks_of(low, compiler), ticks_of(high, compiler))
            return [(">=", ends[0]), ("<=", ends[1])] if ends[0] is not None and ends[1] is not None else []
        case Call(function=sign, arguments=(left, right)) if sign in MIRRORED:
            if _is_time(right, frame) and not _is_time(left, frame):
                left, right, sign = right, left, MIRRORED[sign]
            ticks = ticks_of(right, compiler) if _is_time(left, frame) else None
            return [] if ticks is None else [{"<": ("<=", ticks - 1), ">": (">=", ticks + 1)}.get(sign, (sign, ticks))]
    return []


def _is_time(node: Expression, frame: Frame) -> bool:
    if not isinstance(node, ColumnRef) or frame.time is None:
        return False
    return node.name in (frame.time.name, *ROW_TIME) and node.table in (None, frame.time.qualifier)


def ticks_of(node: Expression, compiler: Compiler) -> int | None:
    """Return a constant as an instant, or None if it is not constant."""
    if any(isinstance(part, ColumnRef) for part in walk(node)):
        return None
    value = compiler.value(node)
    if not value.is_constant or value.constant is None:
        return None
    ticks = to_instant(compiler, value).constant
    return ticks if isinstance(ticks, int) else None
