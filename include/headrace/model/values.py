"""What statements of all languages have in common."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.expressions import Scalar


class Statement:
    """A statement of any language."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Now:
    """`now [+|- duration]` as a value to be inserted; `offset` in nanoseconds.

    `today`: counted from the start of the current day in the database's time zone, as `today()` is.
    """

    offset: int = 0
    today: bool = False


RowValue = Scalar | Now
