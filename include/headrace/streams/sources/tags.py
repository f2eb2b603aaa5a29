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
    tag_table = tables.read_tags(source)
    rows = rows.drop_columns([name for name in tags if name in rows.column_names])  # an undeclared column may have the name
    tag_row = pc.index_in(rows[source.series_key], tag_table[source.series_key])
    for name in tags:
        rows = rows.append_column(tag_table.schema.field(name), pc.take(tag_table[name], tag_row))
    return rows
