"""Statistics of tables, by which the evaluator chooses between equivalent execution strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.compute.plan_sources import Scan

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Statistics of a large table.

    Attributes:
        spacing: Approximate ticks between consecutive rows of a subtable.
        subtables: Every series that has rows; the first column is the series key.
    """

    spacing: int
    subtables: pa.Table


class StatisticsProvider(Protocol):
    """A source of current statistics."""

    def size(self, scan: Scan) -> TableStatistics | None:
        """Return the statistics of a scan's table, or None if it is not large or has no statistics."""

    def subtables(self, scan: Scan) -> pa.Table:
        """Return series key and tags of every subtable of a scan's table. A plain table has one row."""
