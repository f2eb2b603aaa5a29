"""What evaluation knows of tables: statistics of large ones, and shares that tasks read themselves, without Spark's reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from headrace.compute.plan_sources import Scan
from headrace.model.windows import WindowGrid

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """The approximate ticks between rows of a subtable of a large table, and its series that have rows, by the first column."""

    spacing: int
    subtables: pa.Table


class StatisticsProvider(Protocol):
    """A source of current statistics."""

    def size(self, scan: Scan) -> TableStatistics | None:
        """Return the statistics of a scan's table, or None if it is not large or has no statistics."""

    def subtables(self, scan: Scan) -> pa.Table:
        """Return series key and tags of every subtable of a scan's table. A plain table has one row."""


class KernelUse(StrEnum):
    """When windows are computed by kernels: for large tables, whenever kernels can compute them, or never."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class TaskShare(Protocol):
    """The rows of one task; sent to Spark's workers."""

    @property
    def by_series(self) -> bool:
        """Whether it has all rows of its series. Such shares are in the order of series."""

    def read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns of the rows in large batches, each ordered by series and time, the series key as a dictionary.

        If shares are made by series and not by windows, a batch has all rows of its series, and batches are in the order of series.
        """


@dataclass(frozen=True, slots=True)
class WantedShares:
    """What tasks are to read, and how it is to be divided among them.

    Attributes:
        scan: The scan.
        columns: Stored columns, series key and tags.
        range: First and last instant in ticks, both inclusive; None for no limit. Rows outside of the range are left out.
        by_series: Whether each share has all rows of its series. With `windows`, whether each of them has rows of one series.
        windows: Windows that do not overlap, of which each share has all rows.
    """

    scan: Scan
    columns: Sequence[str]
    range: tuple[int | None, int | None] = (None, None)
    by_series: bool = False
    windows: WindowGrid | None = None


class ShareProvider(Protocol):
    """A source of shares of tables."""

    @property
    def use(self) -> KernelUse:
        """When windows are computed by kernels."""

    def is_large(self, scan: Scan) -> bool:
        """Return whether the table is large enough for Spark's Python workers to pay off."""

    def shares(self, wanted: WantedShares) -> Sequence[TaskShare]:
        """Divide the rows of a scan among tasks. Raises `NotSupportedError` if the rows cannot be read in this way."""
