"""The deletion vectors of a table's data files by the log: delta-rs lists files without them."""

from __future__ import annotations

import json
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from headrace.errors import StorageError
from headrace.storage.delta.deletion_vectors import VECTOR, Descriptor, is_same
from headrace.storage.delta.log_entries import LOG, read_entry, read_file
from headrace.storage.object_store import file_system

CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)")
"""A checkpoint, or one of several parts; the second group is how many."""
READ: Final = ("add.path", f"add.{VECTOR}", "sidecar.path")
Vectors = dict[str, Descriptor]


class VectorLog:
    """Follows the log of one table from the last checkpoint on. One thread uses it at a time."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._version = -1
        self._vectors: Vectors = {}

    def at(self, version: int) -> Mapping[str, Descriptor]:
        """Return the last vector of each file that has one, by its path in the log. Files that are gone may be among them."""
        if version < self._version:
            return VectorLog(self._uri).at(version)
        if self._version < 0:
            self._version, self._vectors = _checkpoint(self._uri, version)
        for number in range(self._version + 1, version + 1):
            entry = read_entry(self._uri, number)
            if entry is None:
                raise StorageError(f"log entry {number} of {self._uri} is missing", hint="restore the table from a backup")
            _follow(self._vectors, map(json.loads, entry.splitlines()))
            self._version = number
        return self._vectors


def _follow(vectors: Vectors, actions: Iterable[Mapping[str, Any]]) -> None:
    for action in actions:
        added, removed = action.get("add"), action.get("remove")
        if added is not None and added.get(VECTOR):
            vectors[added["path"]] = added[VECTOR]
        elif added is not None:
            vectors.pop(added["path"], None)
        elif removed is not None and is_same(vectors.get(removed["path"]), removed.get(VECTOR)):
            # Unless the commit has added the file with another vector before.
            vectors.pop(removed["path"], None)


def _checkpoint(uri: str, version: int) -> tuple[int, Vectors]:
    """Return the version of the newest checkpoint up to a version, and the vectors in it; -1 if there is none."""
    system, root = file_system(f"{uri}/{LOG}")
    names: dict[tuple[int, int, str], list[str]] = defaultdict(list)
    for info in system.get_file_info(pafs.FileSelector(root)):
        match = CHECKPOINT.fullmatch(info.base_name)
        if match and int(match[1]) <= version:
            parts = int(match[2] or 1)
            names[int(match[1]), parts, info.base_name if parts == 1 else ""].append(info.base_name)
    complete = [key for key, own in names.items() if len(own) == key[1]]
    if not complete:
        return -1, {}
    newest = max(complete)
    vectors: Vectors = {}
    for name in names[newest]:
        _follow(vectors, _checkpoint_actions(f"{uri}/{LOG}", name))
    return newest[0], vectors


def _checkpoint_actions(folder: str, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the files with vectors of a checkpoint, also those in the files that it names."""
    sidecars: list[str] = []
    if name.endswith(".json"):
        for action in map(json.loads, read_file(f"{folder}/{name}").splitlines()):
            yield action
            sidecars += [posixpath.basename(action["sidecar"]["path"])] if "sidecar" in action else []
    else:
        system, path = file_system(f"{folder}/{name}")
        with pq.ParquetFile(path, filesystem=system) as file:
            for batch in file.iter_batches(columns=list(READ)):
                yield from ({"add": added} for added in _having(batch, "add", VECTOR, "storageType"))
                sidecars += [posixpath.basename(one["path"]) for one in _having(batch, "sidecar", "path")]
    for sidecar in sidecars:
        yield from _checkpoint_actions(f"{folder}/_sidecars", sidecar)


def _having(batch: pa.RecordBatch, column: str, *part: str) -> list[dict[str, Any]]:
    """Return the values of a nested column of which a part is not NULL."""
    index = batch.schema.get_field_index(column)
    if index < 0 or batch.schema.field(index).type.get_field_index(part[0]) < 0:
        return []
    values = batch.column(index)
    return list(values.filter(pc.struct_field(values, list(part)).is_valid()).to_pylist())
