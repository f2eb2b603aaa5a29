"""Tags of subtables: a small Delta table beside the rows, kept in memory while its version stands."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from headrace.model.tables import Table, TableKind
from headrace.storage.commits import properties
from headrace.storage.datafiles import read_files
from headrace.storage.handles import Handle, Handles
from headrace.storage.keys import among, conform, last_of_each_key, quoted, shared
from headrace.storage.writes import Writer

KEY: Final = [TableKind.SUPER.series_key]
# Tags come in by the handful. Each file costs every reader and writer a little; so many are made one.
MOST_FILES: Final = 50


class Tags:
    """Reads and writes tags; what was read is kept by version, as every query joins it."""

    def __init__(self, handles: Handles, writer: Writer) -> None:
        self._handles = handles
        self._writer = writer
        self._kept: dict[str, tuple[tuple[object, int], pa.Table]] = {}

    def read(self, table: Table) -> pa.Table:
        handle = self._handles.tags(table)
        with handle.latest() as delta:
            return self._current(handle, delta)

    def upsert(self, table: Table, rows: pa.Table) -> None:
        def work(handle: Handle, delta: DeltaTable) -> None:
            stored = self._current(handle, delta)
            wanted = last_of_each_key(conform(rows, stored.schema, KEY, handle.name), KEY)
            if wanted.num_rows == 0:
                return
            if shared(wanted.select(KEY), stored, KEY).num_rows:
                _merge(delta, wanted)
            else:
                write_deltalake(delta, wanted, mode="append", commit_properties=properties(None))
            if len(delta.file_uris()) > MOST_FILES:
                delta.optimize.compact()

        self._commit(table, work)

    def drop(self, table: Table, tbnames: Collection[str]) -> None:
        def work(_: Handle, delta: DeltaTable) -> None:
            if tbnames:
                delta.delete(among(sorted(tbnames), table.series_key), commit_properties=properties(None))

        self._commit(table, work)

    def _commit(self, table: Table, work: Callable[[Handle, DeltaTable], None]) -> None:
        with self._writer.exclusive(f"tags.{table.database}.{table.name}"):
            self._writer.attempts(self._handles.tags(table), work)

    def _current(self, handle: Handle, delta: DeltaTable) -> pa.Table:
        """All tags at this version, by name."""
        state = (delta.metadata().id, delta.version())
        kept = self._kept.get(handle.uri)
        if kept is None or kept[0] != state:
            schema = pa.schema(delta.schema().to_arrow())
            rows = read_files(handle.uri, handle.files(delta)["path"].to_pylist(), schema, None, None)
            kept = self._kept[handle.uri] = (state, rows.sort_by(KEY[0]))
        return kept[1]


def _merge(delta: DeltaTable, rows: pa.Table) -> None:
    values = {quoted(name): f"s.{quoted(name)}" for name in rows.column_names}
    merger = delta.merge(
        rows, f"t.{quoted(KEY[0])} = s.{quoted(KEY[0])}", source_alias="s", target_alias="t", commit_properties=properties(None)
    )
    merger.when_matched_update(values).when_not_matched_insert(values).execute()
