"""What tables are divided into: their rows in pieces, and ranges of series with about equally many rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Table
from headrace.storage.delta import scans
from headrace.storage.delta.pruning import Bounds
from headrace.storage.delta.shares import SeriesRange
from headrace.storage.tables import Tables


def scan_pieces(
    tables: Tables,
    table: Table,
    columns: Sequence[str],
    *,
    filter: pc.Expression | None = None,
    version: int | None = None,
    tbnames: Collection[str] | None = None,
    bounds: Bounds | None = None,
) -> Iterator[pa.Table]:
    """Yield what `Tables.scan` returns, about a million rows at a time; `filter` may not compare text."""
    return scans.scan_pieces(tables._handles.reader(table), table, columns, filter, version, tbnames, bounds)


def series_ranges(tables: Tables, table: Table, version: int, rows: int) -> list[tuple[SeriesRange, int]]:
    """Divide the series of a table, as of a version, among ranges of about this many rows; return the rows of each too.

    Raises:
        NotSupportedError: The files do not define the rows alone.
    """
    names = tables.tags.read(table)[table.series_key].to_pylist() if table.tags else []
    return tables._footers.series_ranges(table, version, names, rows)
