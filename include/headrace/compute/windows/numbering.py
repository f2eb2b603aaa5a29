"""Numbering of windows that depend on neighboring rows: column `_window` says which window of its partition a row belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW_NUMBER: Final = "_window"
THROUGH_CURRENT_ROW: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
BEFORE_CURRENT_ROW: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
FROM_CURRENT_ROW: Final = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """Prepared rows, or segments, with the columns of their groups, and those that order a group, by time first.

    Attributes:
        apart: A condition for segments that are complete runs of a state. Two neighbors that meet it are never of one run.
        unique: Whether the first column orders the rows of a group without ties.
    """

    frame: DataFrame
    keys: Sequence[str]
    order: Sequence[str]
    apart: str | None = None
    unique: bool = False

    def over(self, extent: str = "") -> str:
        """Return the OVER clause of a group's rows in order."""
        return over(self.keys, self.order, extent)

    def number_by_breaks(self, condition: str) -> DataFrame:
        """Number windows that begin where a condition on a row and its predecessors holds."""
        marked = self.frame.selectExpr("*", f"if({condition}, 1L, 0L) AS _break")
        return marked.selectExpr("*", f"sum(_break) {self.over(THROUGH_CURRENT_ROW)} AS {WINDOW_NUMBER}").drop("_break")


def over(keys: Sequence[str], order: Sequence[str], frame: str = "") -> str:
    """Return an OVER clause."""
    partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
    return f"OVER ({partition}ORDER BY {', '.join(order)} {frame})"


def window_number(position: str, length: int, step: int) -> str:
    """Return the numbers of the windows that a position is in, exploded if there may be several. One starts every `step`."""
    return f"({position} div {step}L)" if step == length else f"explode({window_numbers(position, length, step)})"


def window_numbers(position: str, length: int, step: int) -> str:
    """Return what `window_number` does as an array."""
    latest = f"({position} div {step}L)"
    if step == length:
        return f"array({latest})"
    earliest = f"greatest(0L, ({position} - {length}L) div {step}L + if({position} >= {length}L, 1L, 0L))"
    return f"if({earliest} <= {latest}, sequence({earliest}, {latest}), array())"
