"""Joining tags to rows of a source."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Table
from headrace.storage import Tables


def with_tags(tables: Tables, source: Table, rows: pa.Table, tags: Collection[str]) -> pa.Table:
    """Return the rows with these tags of their subtables as of now; NULL if a subtable has none."""
    if not tags:
        return rows
    tag_table = tables.tags.read(source)
    rows = rows.drop_columns([name for name in tags if name in rows.column_names])  # an undeclared column may have the name
    tag_row = row_of_series(rows[source.series_key], tag_table[source.series_key])
    for name in tags:
        rows = rows.append_column(tag_table.schema.field(name), pc.take(tag_table[name], tag_row))
    return rows


def row_of_series(series: pa.ChunkedArray, names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return for each series its position among names; NULL if it is not among them."""
    if not pa.types.is_dictionary(series.type):
        return pc.index_in(series, names)
    encoded = series.unify_dictionaries().combine_chunks()
    return pa.chunked_array([pc.index_in(encoded.dictionary, names).take(encoded.indices)])
