"""The rows of virtual tables: columns of stored tables, aligned by time.

A row of a virtual table is a series and an instant at which the table of a referenced column has a row. Columns whose table has
none are NULL. Only the tables of columns that a query reads take part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Scan
from headrace.context import Context
from headrace.model.positions import Offsets, source_id
from headrace.model.tables import ColumnReference, Table, TableId
from headrace.storage import Bounds
from headrace.storage.row_matching import row_ids
from headrace.storage.types import rows_schema


@dataclass(frozen=True, slots=True)
class OriginColumns:
    """Columns of one stored table, the origin, that fill columns of some series of a virtual table.

    `columns` has pairs of a column of the virtual table and a stored column, `series` pairs of a series of the stored and of the
    virtual table.
    """

    origin: TableId
    columns: tuple[tuple[str, str], ...]
    series: tuple[tuple[str, str], ...]

    @property
    def mappings(self) -> list[dict[str, str]]:
        """The pairs of series as mappings from the stored to the virtual table. A stored series may fill several virtual ones."""
        mappings: list[dict[str, str]] = []
        for stored, virtual in self.series:
            mapping = next((mapping for mapping in mappings if stored not in mapping), None)
            if mapping is None:
                mappings.append(mapping := {})
            mapping[stored] = virtual
        return mappings


def origin_columns(references: Iterable[ColumnReference]) -> list[OriginColumns]:
    """Group references by stored table and by the columns that fill the same columns."""
    columns: dict[tuple[TableId, str, str], list[tuple[str, str]]] = {}
    for reference in references:
        pair = (reference.origin, reference.origin_series, reference.series)
        columns.setdefault(pair, []).append((reference.column, reference.origin_column))
    series: dict[tuple[TableId, tuple[tuple[str, str], ...]], list[tuple[str, str]]] = {}
    for (origin, stored, virtual), filled in columns.items():
        series.setdefault((origin, tuple(filled)), []).append((stored, virtual))
    return [OriginColumns(origin, filled, tuple(pairs)) for (origin, filled), pairs in series.items()]


def origin_tables(context: Context, references: Iterable[ColumnReference]) -> dict[TableId, Table]:
    origins = dict.fromkeys(reference.origin for reference in references)
    return {origin: context.catalog.tables.get(origin.database, origin.name) for origin in origins}


def virtual_schema(scan: Scan) -> pa.Schema:
    schema = rows_schema(scan.table, scan.database)
    return pa.schema([schema.field(name) for name in (scan.table.timestamp.name, *scan.values, scan.table.series_key)])


def scan_virtual(
    context: Context, scan: Scan, offsets: Offsets, series: Collection[str] | None = None, bounds: Bounds | None = None
) -> pa.Table:
    """Return the rows of a virtual table as of offsets of its origins, of some series, within bounds (stored, inclusive)."""
    references = [one for one in scan.references_read if series is None or one.series in series]
    tables = origin_tables(context, references)
    parts = {origin: scan_origin(context, table, references, offsets, bounds=bounds) for origin, table in tables.items()}
    return align(scan, parts, tables, references)


def scan_origin(
    context: Context,
    table: Table,
    references: Sequence[ColumnReference],
    offsets: Offsets,
    *,
    series: Collection[str] | None = None,
    bounds: Bounds | None = None,
) -> pa.Table:
    """Return the rows of a stored table that references name: timestamp, columns, series key; `series` restricts them further.

    Origins have the precision of the virtual table.
    """
    own = [reference for reference in references if reference.origin == table.id]
    names = {reference.origin_series for reference in own} if series is None else set(series)
    return context.tables.scan(
        table,
        columns=stored_columns(table, own),
        version=offsets[source_id(table.database, table.name)],
        tbnames=sorted(names),
        bounds=bounds,
    )


def stored_columns(table: Table, references: Iterable[ColumnReference]) -> list[str]:
    """Return the columns of a stored table that references name, with its timestamp and series key."""
    columns = (reference.origin_column for reference in references if reference.origin == table.id)
    return list(dict.fromkeys([table.timestamp.name, *columns, table.series_key]))


def align(
    scan: Scan, parts: Mapping[TableId, pa.Table], tables: Mapping[TableId, Table], references: Iterable[ColumnReference]
) -> pa.Table:
    schema = virtual_schema(scan)
    pieces = [
        piece
        for columns in origin_columns(references)
        if columns.origin in parts
        for piece in rename_rows(scan, columns, parts[columns.origin], tables[columns.origin], schema)
    ]
    combined = pa.concat_tables([schema.empty_table(), *pieces], promote_options="default").select(schema.names)
    return combined if len(pieces) < 2 else merge_instants(combined, [scan.table.series_key, scan.table.timestamp.name])


def rename_rows(scan: Scan, columns: OriginColumns, rows: pa.Table, origin: Table, schema: pa.Schema) -> list[pa.Table]:
    """Return rows of an origin with the names of the virtual table, one table for each mapping of series."""
    key, timestamp = scan.table.series_key, scan.table.timestamp.name
    stored_series = rows[origin.series_key].cast(pa.string())
    # A query that reads no column has rows of all origins.
    sources = {timestamp: origin.timestamp.name} | {name: stored for name, stored in columns.columns if name in schema.names}
    target = pa.schema([schema.field(key), *(schema.field(name) for name in sources)])
    pieces = []
    for mapping in columns.mappings:
        index = pc.index_in(stored_series, pa.array(list(mapping), pa.string()))
        is_mapped = pc.is_valid(index)
        series = pa.array(list(mapping.values()), pa.string()).take(index.filter(is_mapped))
        selected = rows.filter(is_mapped)
        values = [series, *(selected[name] for name in sources.values())]
        pieces.append(pa.table(values, [key, *sources]).cast(target))
    return pieces


def merge_instants(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Merge the rows of each key into one. At most one of them has a value in a column."""
    (ids,) = row_ids([rows], key)
    first = np.unique(ids, return_index=True)[1]
    if len(first) == len(ids):
        return rows
    columns = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if name in key:
            columns.append(column.take(pa.array(first)))
            continue
        valid = np.flatnonzero(np.asarray(column.is_valid()))
        index = np.full(len(first), -1)
        index[ids[valid]] = valid
        columns.append(column.take(pa.array(index, mask=index < 0)))
    return pa.table(columns, schema=rows.schema)
