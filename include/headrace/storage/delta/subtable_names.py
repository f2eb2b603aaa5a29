"""Names of the subtables that have rows, whatever the tags table says."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from headrace.model.tables import TBNAME, Table
from headrace.storage.delta.handles import translate_errors
from headrace.storage.delta.table_handles import Handles
from headrace.storage.object_store import file_system, locate

EMPTY: Final = pa.nulls(0, pa.string())
"""Not made by `pa.array`, which imports pandas."""


@dataclass(slots=True)
class NameIndex:
    """The names in the data files of one table. A name is stored once, and per file as its position in `names`."""

    names: pa.Array = field(default_factory=lambda: EMPTY)
    by_file: dict[str, pa.Array] = field(default_factory=dict)

    def add(self, path: str, names: pa.Array) -> None:
        """Record the names in a data file."""
        new = names.filter(pc.invert(pc.is_in(names, self.names)))
        self.names = pa.concat_arrays([self.names, new])
        self.by_file[path] = pc.index_in(names, self.names)

    def keep(self, paths: Collection[str]) -> None:
        """Forget the files that are not among the paths."""
        kept = set(paths)
        self.by_file = {path: positions for path, positions in self.by_file.items() if path in kept}

    def all(self) -> pa.Array:
        """Return the names in all data files that are still part of the table."""
        positions = pa.chunked_array([*self.by_file.values(), pa.array([], pa.int32())]).unique()
        return self.names.take(positions)


class SubtableNames:
    """Reads `tbname` once per data file: a data file never changes, so its names are kept while the table has it."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self._mutex = threading.Lock()
        self._indexes: dict[str, NameIndex] = {}

    def read(self, table: Table) -> pa.Array:
        """Return the names at the newest version, each once."""
        handle = self._handles.reader(table)
        with handle.latest_snapshot() as newest:
            paths = newest.files["path"].to_pylist()
        system, root = file_system(handle.uri)
        with self._mutex, translate_errors(handle.name):
            index = self._indexes.setdefault(handle.uri, NameIndex())
            index.keep(paths)
            for path in paths:
                if path not in index.by_file:
                    index.add(path, file_names(system, root, path))
            return index.all()


def file_names(system: pafs.FileSystem, root: str, path: str) -> pa.Array:
    """Read the names in one data file, a row group at a time, as dictionaries: the values themselves are few."""
    with pq.ParquetFile(locate(root, path), filesystem=system, read_dictionary=[TBNAME]) as file:
        groups = [file.read_row_group(group, columns=[TBNAME])[TBNAME] for group in range(file.num_row_groups)]
    chunks = [pc.unique(chunk) for group in groups for chunk in group.chunks]
    decoded = [chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk for chunk in chunks]
    return pa.chunked_array([*(chunk.cast(pa.string()) for chunk in decoded), EMPTY]).unique()
