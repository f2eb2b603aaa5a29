"""Shares of the tables that plans read, for evaluation by kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.compute.columnar import UnsupportedError
from headrace.compute.shares import KernelUse, WantedShares
from headrace.context import Context
from headrace.model.tables import TableKind
from headrace.storage.delta.pruning import Bounds
from headrace.storage.delta.shares import ALL_SERIES, SeriesRange
from headrace.storage.values.scalars import stored_units_per_tick

if TYPE_CHECKING:
    from pyspark.errors import PythonException

    from headrace.compute import Scan
    from headrace.storage.delta.shares import Share

MIN_ROWS: Final = 1_000_000
"""For fewer rows, Spark SQL is about as fast."""


@dataclass(frozen=True, slots=True)
class TableShares:
    """Shares of tables at their newest version, or at `version`.

    `first` and `last` (ticks, inclusive), and `series`, restrict rows further.
    """

    context: Context
    use: KernelUse
    version: int | None = None
    first: int | None = None
    last: int | None = None
    series: SeriesRange = ALL_SERIES

    def is_large(self, scan: Scan) -> bool:
        """Return whether a table has `MIN_ROWS` rows."""
        return scan.table.kind is not TableKind.TREE and self.context.tables.rows(scan.table) >= MIN_ROWS

    def shares(self, wanted: WantedShares) -> Sequence[Share]:
        """Divide the rows of a scan among tasks; see `ShareProvider`."""
        scan, (first, last) = wanted.scan, wanted.range
        return self.context.tables.shares(
            scan.table,
            wanted.columns,
            self.context.spark().sparkContext.defaultParallelism,
            version=self.version,
            bounds=stored_bounds(scan, largest(first, self.first), least(last, self.last)),
            series=self.series if scan.subtable is None else single_series(scan.subtable),
            by_series=wanted.by_series,
            windows=None if wanted.windows is None else wanted.windows.scaled(stored_units_per_tick(scan.database.precision)),
        )


def single_series(name: str) -> SeriesRange:
    return SeriesRange(name, f"{name}\0")


def largest(one: int | None, other: int | None) -> int | None:
    """Return the later of two lower limits; None is no limit."""
    return max((limit for limit in (one, other) if limit is not None), default=None)


def least(one: int | None, other: int | None) -> int | None:
    """Return the earlier of two upper limits; None is no limit."""
    return min((limit for limit in (one, other) if limit is not None), default=None)


def stored_bounds(scan: Scan, first: int | None, last: int | None) -> Bounds | None:
    """Return a range of ticks in the unit of stored timestamps; None for all."""
    if first is None and last is None:
        return None
    return Bounds.of_ticks(first, last, scan.database.precision)


def is_unsupported(error: PythonException) -> bool:
    """Return whether a task failed because kernels do not handle a value."""
    return UnsupportedError.__name__ in str(error)
