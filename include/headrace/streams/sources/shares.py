"""Shares of the tables that plans read, for evaluation by kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.compute.shares import KernelUse, WantedShares
from headrace.context import Context
from headrace.model.tables import TableKind
from headrace.storage.delta.pruning import Bounds
from headrace.storage.delta.shares import ALL_SERIES, SeriesRange
from headrace.storage.values.scalars import stored_units_per_tick

if TYPE_CHECKING:
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
            bounds=stored_bounds(
                scan,
                max((tick for tick in (first, self.first) if tick is not None), default=None),
                min((tick for tick in (last, self.last) if tick is not None), default=None),
            ),
            series=self.series if scan.subtable is None else SeriesRange(scan.subtable, f"{scan.subtable}\0"),
            by_series=wanted.by_series,
            windows=None if wanted.windows is None else wanted.windows.scaled(stored_units_per_tick(scan.database.precision)),
        )


def stored_bounds(scan: Scan, first: int | None, last: int | None) -> Bounds | None:
    """Return a range of ticks in the unit of stored timestamps; None for all."""
    if first is None and last is None:
        return None
    return Bounds.of_ticks(first, last, scan.database.precision)
