"""The rows of virtual tables in parts, so that many of them need not be in memory at once.

Rows of all origins are divided on the local disk by their instants: all that a row of the virtual table consists of is in one part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Scan
from headrace.context import Context
from headrace.model.positions import Offsets, source_id
from headrace.model.tables import Table, TableId
from headrace.storage import Bounds
from headrace.storage.delta.change_columns import changes_schema
from headrace.streams.sources.spill import Spill
from headrace.streams.sources.virtual_comparison import VirtualComparison
from headrace.streams.sources.virtual_rows import align, origin_tables, stored_columns, virtual_schema
from headrace.streams.state.hashing import hash_column
from headrace.streams.windows.change_batch import Changes

SLOTS: Final = 1 << 24
"""Bytes of a filter of instants."""


@dataclass
class InstantFilter:
    """Says of most instants that were not added that they were not, and of none that was added."""

    bounds: Bounds | None = None
    _slots: np.ndarray[tuple[int], np.dtype[np.bool_]] = field(default_factory=lambda: np.zeros(SLOTS, np.bool_))

    def add(self, instants: pa.ChunkedArray) -> None:
        if len(instants) == 0:
            return
        ends = pc.min_max(instants.cast(pa.int64()))
        low, high = ends["min"].as_py(), ends["max"].as_py()
        self.bounds = Bounds(low, high) if self.bounds is None else Bounds(min(low, self.bounds.low), max(high, self.bounds.high))
        self._slots[hash_column(instants) % np.uint64(SLOTS)] = True

    def matching(self, rows: pa.Table, name: str) -> pa.Table:
        """Return the rows whose instant may have been added."""
        return rows.filter(pa.array(self._slots[hash_column(rows[name]) % np.uint64(SLOTS)]))


class DividedOrigins:
    """The rows of origins, divided by their instants."""

    def __init__(self, stack: ExitStack, tables: Mapping[TableId, Table], rows: int) -> None:
        self._tables = tables
        self._spills = {origin: stack.enter_context(Spill.open([table.timestamp.name], rows)) for origin, table in tables.items()}
        self._schemas: dict[TableId, pa.Schema] = {}

    def add(self, origin: TableId, pieces: Iterable[pa.Table]) -> None:
        for piece in pieces:
            self._schemas.setdefault(origin, piece.schema)
            self._spills[origin].add(piece)
        self._spills[origin].finish()

    def parts(self) -> list[int]:
        """Return the numbers of the parts that have rows."""
        return sorted({number for spill in self._spills.values() for number in spill.parts()})

    def read(self, number: int) -> dict[TableId, pa.Table]:
        """Return the rows of a part of each origin to which rows were added."""
        return {
            origin: self._spills[origin].read(number) if number in self._spills[origin].parts() else schema.empty_table()
            for origin, schema in self._schemas.items()
        }


def compare_in_parts(
    context: Context, comparison: VirtualComparison, writes: Mapping[TableId, Sequence[Changes]], reached: Offsets, count: int
) -> Iterator[pa.Table]:
    """Yield the changes of the rows of a virtual table, all of an instant together.

    `writes` are the `count` changes of its origins, `reached` the offsets after them.
    """
    yield changes_schema(virtual_schema(comparison.scan)).empty_table()
    tables = comparison.tables
    with ExitStack() as stack:
        changed, stored = (DividedOrigins(stack, tables, count * len(tables)) for _ in range(2))
        touched = InstantFilter()
        for origin, parts in writes.items():
            changed.add(origin, own_pieces(comparison, tables[origin], parts, touched))
        for origin, table in tables.items():
            stored.add(origin, stored_pieces(context, comparison, table, reached, touched))
        for number in changed.parts():
            yield comparison.compare(changed.read(number), partial(rows_of, stored.read(number)))


def rows_of(rows: Mapping[TableId, pa.Table], table: Table, _: pa.Table) -> pa.Table:
    return rows[table.id]


def own_pieces(comparison: VirtualComparison, table: Table, parts: Sequence[Changes], touched: InstantFilter) -> Iterator[pa.Table]:
    for part in parts:
        for piece in part.pieces():
            own = comparison.own_changes(table, piece)
            touched.add(own[table.timestamp.name])
            yield own


def stored_pieces(
    context: Context, comparison: VirtualComparison, table: Table, reached: Offsets, touched: InstantFilter
) -> Iterator[pa.Table]:
    """Yield the stored rows of an origin that virtual rows at touched instants may consist of; first a table without rows."""
    schema, columns = context.tables.schema(table, comparison.scan.database), stored_columns(table, comparison.references)
    yield pa.schema([schema.field(name) for name in columns]).empty_table()
    if touched.bounds is None or comparison.has_single_sources:
        return
    pieces = context.tables.scan_pieces(
        table,
        columns,
        version=reached[source_id(table.database, table.name)],
        tbnames=comparison.series_of(table.id),
        bounds=touched.bounds,
    )
    yield from (touched.matching(piece, table.timestamp.name) for piece in pieces)


def virtual_pieces(
    context: Context, scan: Scan, offsets: Offsets, series: Collection[str] | None = None, bounds: Bounds | None = None
) -> Iterator[pa.Table]:
    references = [one for one in scan.references_read if series is None or one.series in series]
    tables = origin_tables(context, references)
    rows = sum(context.tables.rows(table) for table in tables.values())
    with ExitStack() as stack:
        divided = DividedOrigins(stack, tables, rows)
        for origin, table in tables.items():
            names = {reference.origin_series for reference in references if reference.origin == origin}
            columns, version = stored_columns(table, references), offsets[source_id(table.database, table.name)]
            divided.add(origin, context.tables.scan_pieces(table, columns, version=version, tbnames=sorted(names), bounds=bounds))
        for number in divided.parts():
            yield align(scan, divided.read(number), tables, references)
