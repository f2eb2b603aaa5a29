"""Joins in DuckDB; ASOF joins search the closest rows of the other side for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headrace.model.expressions import Call, ColumnRef, Expression, conjuncts
from headrace.model.queries import Join
from headrace.verify.steps import Steps
from headrace.verify.tdengine.frames import Column, Frame, row_compiler
from headrace.verify.values import unsupported

ASOF: Final = ("left asof", "right asof")
KINDS: Final = ("inner", "left", "right", "full", "left semi", "left anti", *ASOF)


def join_frames(steps: Steps, join: Join, left: Frame, right: Frame) -> Frame:
    if join.kind not in KINDS:
        raise unsupported(f"{join.kind.upper()} JOIN")
    inside = _inside(left, right)
    if join.kind in ASOF:
        source, inside = _asof(join, (left, right), inside)
    else:
        on = "true" if join.condition is None else row_compiler(inside).condition(join.condition)
        source = f"{left.relation} l {join.kind} JOIN {right.relation} r ON {on}"
        if join.kind in ("left semi", "left anti"):
            word = "" if join.kind.endswith("semi") else "NOT "
            source = f"{left.relation} l WHERE {word}EXISTS (SELECT 1 FROM {right.relation} r WHERE {on})"
            inside = replace(inside, columns=inside.columns[: len(left.columns)])
    selected = ", ".join(f"{column.sql} AS c{number}" for number, column in enumerate(inside.columns))
    columns = tuple(replace(column, sql=f"c{number}") for number, column in enumerate(inside.columns))
    time = next((new for new, old in zip(columns, inside.columns, strict=True) if old is inside.time), None)
    return replace(inside, relation=steps.step("join", f"SELECT {selected} FROM {source}"), columns=columns, time=time)


def _inside(left: Frame, right: Frame) -> Frame:
    """Return the frame that ON sees, of relations `l` and `r`; the left side's timestamp is the join's."""
    columns = [
        replace(column, sql=f"{side}.{column.sql}") for side, frame in (("l", left), ("r", right)) for column in frame.columns
    ]
    return Frame("", tuple(columns), left.precision, left.timezone, _times(columns, left, right)[0])


def _times(columns: Sequence[Column], left: Frame, right: Frame) -> list[Column | None]:
    sides = [*left.columns, *right.columns]
    return [next((new for new, old in zip(columns, sides, strict=True) if old is frame.time), None) for frame in (left, right)]


def _asof(join: Join, sides: tuple[Frame, Frame], inside: Frame) -> tuple[str, Frame]:
    """Return the FROM clause of an ASOF join, and the frame that ON sees, with the time of the driving side."""
    driving, labels = ASOF.index(join.kind), ("l", "r")
    other = sides[1 - driving]
    if not other.single or other.key is not None:
        raise unsupported("an ASOF JOIN of a table that may have several rows of one instant")
    times = _times(inside.columns, *sides)
    inside = replace(inside, time=times[driving])
    on = "true" if join.condition is None else row_compiler(inside).condition(join.condition)
    instants = [time.sql for time in times if time is not None]
    if not any(_is_rule(part, sides) for part in conjuncts(join.condition)):
        on = f"({on}) AND {instants[driving]} >= {instants[1 - driving]}"
    closest = (
        f"SELECT * FROM {other.relation} {labels[1 - driving]} WHERE {on} "
        f"ORDER BY abs({instants[0]} - {instants[1]}) LIMIT {join.limit or 1}"
    )
    return f"{sides[driving].relation} {labels[driving]} LEFT JOIN LATERAL ({closest}) {labels[1 - driving]} ON true", inside


def _is_rule(part: Expression, sides: tuple[Frame, Frame]) -> bool:
    """Return whether a condition compares the timestamps of both sides; it must compare columns."""
    if not isinstance(part, Call) or not all(isinstance(argument, ColumnRef) for argument in part.arguments):
        raise unsupported("a computed value in ON of an ASOF JOIN")
    names = {frame.time.name for frame in sides if frame.time is not None}
    return part.function != "=" or all(isinstance(value, ColumnRef) and value.name in names for value in part.arguments)
