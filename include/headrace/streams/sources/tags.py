"""Reading a source: changes and rows, with the tags that its streams read."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Table
from headrace.storage import Tables


def with_tags(tables: Tables, source: Table, rows: pa.Table, tags: Collection[str]) -> pa.Table:
    """Rows with these tags of their subtables, as they are now; NULL where a subtable has none."""
    if not tags:
        return rows
    known = tables.read_tags(source)
    rows = rows.drop_columns([name for name in tags if name in rows.column_names])  # an undeclared column may have the name
    place = pc.index_in(rows[source.series_key], known[source.series_key])
    for name in tags:
        rows = rows.append_column(known.schema.field(name), pc.take(known[name], place))
    return rows
