"""Reading of scans for queries that are evaluated in this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.queries import running
from headrace.streams.sources.shares import stored_bounds

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.compute.plan_sources import Scan
    from headrace.context import Context


UNKNOWN_ROWS: Final = 2**63 - 1
"""Counted if statistics do not tell the number of rows: more than any limit."""


@dataclass(frozen=True, slots=True)
class LocalReader:
    """Reads the data files of tables with Arrow."""

    context: Context

    def count(self, scan: Scan, devices: tuple[str, ...], first: int | None, last: int | None) -> int:
        """Return the greatest number of rows that `batches` may return."""
        rows = self.context.tables.count_scanned(scan.table, devices, stored_bounds(scan, first, last))
        return UNKNOWN_ROWS if rows is None else rows

    def batches(self, scan: Scan, devices: tuple[str, ...], first: int | None, last: int | None) -> Iterator[pa.RecordBatch]:
        """Return the columns of the scan as stored, the series key dictionary-encoded."""
        return self.context.tables.batches(scan.table, scan.columns, devices, stored_bounds(scan, first, last))


@dataclass
class CountedReader:
    """A reader that counts the rows that it has read."""

    reader: LocalReader
    rows: int = 0

    def count(self, scan: Scan, devices: tuple[str, ...], first: int | None, last: int | None) -> int:
        """See `LocalReader`."""
        return self.reader.count(scan, devices, first, last)

    def batches(self, scan: Scan, devices: tuple[str, ...], first: int | None, last: int | None) -> Iterator[pa.RecordBatch]:
        """See `LocalReader`."""
        for batch in self.reader.batches(scan, devices, first, last):
            running.check()
            self.rows += batch.num_rows
            yield batch
