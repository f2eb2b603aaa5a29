"""ASOF joins by DuckDB: for each row a search for the closest rows of the other side."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headrace.model.expressions import Call, ColumnRef, Expression
from headrace.model.queries import Join
from headrace.verify.frames import Column, Frame, conjuncts, on_frame
from headrace.verify.values import unsupported

KINDS: Final = ("left asof", "right asof")
LABELS: Final = ("l", "r")


def asof_frame(join: Join, left: Frame, right: Frame) -> Frame:
    """Return the frame that ON sees, with the time of the driving side.

    Raises:
        NotSupportedError: The other side may have rows of equal times, of which any may be the closest.
    """
    other = (right, left)[KINDS.index(join.kind)]
    if not other.single or other.key is not None:
        raise unsupported("an ASOF JOIN of a table that may have several rows of one instant")
    inside, driving = on_frame(left, right), KINDS.index(join.kind)
    return replace(inside, time=times_of(inside, left, right)[driving])


def asof_sql(join: Join, sides: tuple[Frame, Frame], inside: Frame, on: str) -> str:
    """Return the FROM clause of a join, of relations `l` and `r`. `on` is its condition."""
    driving = KINDS.index(join.kind)
    times = [column.sql for column in times_of(inside, *sides)]
    if not any(is_rule(part, sides) for part in conjuncts(join.condition)):
        on = f"({on}) AND {times[driving]} >= {times[1 - driving]}"
    closest = (
        f"SELECT * FROM {sides[1 - driving].relation} {LABELS[1 - driving]} WHERE {on} "
        f"ORDER BY abs({times[0]} - {times[1]}) LIMIT {join.limit or 1}"
    )
    return f"{sides[driving].relation} {LABELS[driving]} LEFT JOIN LATERAL ({closest}) {LABELS[1 - driving]} ON true"


def times_of(inside: Frame, left: Frame, right: Frame) -> list[Column]:
    """Return the time columns of both sides, as ON sees them."""
    sides = [*left.columns, *right.columns]
    return [new for new, old in zip(inside.columns, sides, strict=True) if old is left.time or old is right.time]


def is_rule(part: Expression, sides: tuple[Frame, Frame]) -> bool:
    """Return whether a condition compares the timestamps of both sides.

    Raises:
        NotSupportedError: It compares values that are computed.
    """
    if not isinstance(part, Call) or not all(isinstance(argument, ColumnRef) for argument in part.arguments):
        raise unsupported("a computed value in ON of an ASOF JOIN")
    names = {frame.time.name for frame in sides if frame.time is not None}
    return part.function != "=" or all(isinstance(value, ColumnRef) and value.name in names for value in part.arguments)
