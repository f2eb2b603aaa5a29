"""What is known of the tables that plans read, which chooses among ways to the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.compute.plan import Scan

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Of a large table: about how many ticks lie between two rows of a subtable, and every series that has rows: a table
    whose first column is the series key.
    """

    spacing: int
    subtables: pa.Table


class StatisticsProvider(Protocol):
    """Facts about tables, as of now."""

    def size(self, scan: Scan) -> TableStatistics | None:
        """The size of a scan's table; None where it is not large, or not known."""

    def subtables(self, scan: Scan) -> pa.Table:
        """`tbname` and tags of every subtable of a scan's table; a plain table has its one name."""
