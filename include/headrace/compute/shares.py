"""Shares of tables that tasks read themselves, without Spark's reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from headrace.compute.kernels.windows import Grid
from headrace.compute.plan_sources import Scan

if TYPE_CHECKING:
    import pyarrow as pa


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


class ShareProvider(Protocol):
    """A source of shares of tables."""

    @property
    def use(self) -> KernelUse:
        """When windows are computed by kernels."""

    def is_large(self, scan: Scan) -> bool:
        """Return whether the table is large enough for Spark's Python workers to pay off."""

    def shares(
        self,
        scan: Scan,
        columns: Sequence[str],
        first: int | None,
        last: int | None,
        *,
        by_series: bool = False,
        windows: Grid | None = None,
    ) -> Sequence[TaskShare]:
        """Divide the rows of a scan among tasks.

        Args:
            scan: The scan.
            columns: Stored columns, series key and tags that the tasks will read.
            first: First instant in ticks; None for no limit. Rows outside of the range are left out.
            last: Last instant, inclusive.
            by_series: Whether each share has all rows of its series. With `windows`, whether each of them has rows of one series.
            windows: Windows that do not overlap, of which each share has all rows.

        Raises:
            NotSupportedError: The rows cannot be read in this way.
        """
