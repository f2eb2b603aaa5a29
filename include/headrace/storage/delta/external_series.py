"""The series of external tables with their last tags, collected from the data files, as no catalog lists them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Table, TableId
from headrace.storage.delta.handles import Handle, translate_errors

READ_ROWS: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class KnownSeries:
    """What the files read so far have: the series key, the tags, and the last time of each series."""

    table: Table
    files: frozenset[str]
    rows: pa.Table


class ExternalSeries:
    """Reads each data file once. A series whose rows are removed stays until the process ends, as a subtable without rows does."""

    def __init__(self) -> None:
        """Begin without any table."""
        self._mutex = threading.Lock()
        self._known: dict[TableId, KnownSeries] = {}

    def read(self, handle: Handle, table: Table) -> pa.Table:
        """Return the series key and the tags of every series at the newest version, ordered by series."""
        with handle.latest_snapshot() as newest:
            paths, schema = newest.files["path"].to_pylist(), newest.schema
        columns = [table.series_key, *(tag.name for tag in table.tags)]
        with self._mutex, translate_errors(handle.name):
            known = self._known.get(table.id)
            if known is None or known.table != table:
                fields = [schema.field(name) for name in (*columns, table.timestamp.name)]
                known = KnownSeries(table, frozenset(), pa.schema(fields).empty_table())
            new = [path for path in paths if path not in known.files]
            if new or len(paths) < len(known.files):
                known = self._known[table.id] = KnownSeries(table, frozenset(paths), _with_files(known, handle, new))
            return known.rows.select(columns)


def _with_files(known: KnownSeries, handle: Handle, paths: list[str]) -> pa.Table:
    rows, series = known.rows, (known.table.series_key, None)
    batches = handle.data.batches(paths, rows.schema, rows.column_names, None, series, encoded=False, max_rows=READ_ROWS)
    for batch in batches if paths else ():
        rows = _last_tags(pa.concat_tables([rows, pa.Table.from_batches([batch]).cast(rows.schema)]), known.table)
    return rows.sort_by(known.table.series_key)


def _last_tags(rows: pa.Table, table: Table) -> pa.Table:
    """Return the last row of each series."""
    key, time = table.series_key, table.timestamp.name
    keep_null = pc.ScalarAggregateOptions(skip_nulls=False, min_count=0)
    others = [name for name in rows.column_names if name != key]
    last = rows.sort_by(time).group_by(key, use_threads=False).aggregate([(name, "last", keep_null) for name in others])
    return last.rename_columns({f"{name}_last": name for name in others}).select(rows.column_names).cast(rows.schema)
