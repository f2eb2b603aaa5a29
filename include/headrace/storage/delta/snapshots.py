"""Versions of local tables, which Headrace's own commits lead from one to the next.

delta-rs takes milliseconds to read a log entry, however small. The process that has just written it knows what it says.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.storage.delta.column_mapping import MAPPED, mapping_mode
from headrace.storage.delta.deletion_vectors import VECTOR

if TYPE_CHECKING:
    from deltalake import DeltaTable

NO_FILES: Final = ("commitInfo", "txn", "cdc")
"""Actions of a log entry that leave a table's data files and columns as they are."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of a table, with what a commit needs that builds on it.

    The `schema` has all stored columns. Data `files` are as of `list_files`; statistics that are not known are NULL.
    """

    number: int
    schema: pa.Schema
    files: pa.Table
    properties: Mapping[str, str]
    is_partitioned: bool
    writer_version: int

    @classmethod
    def of(cls, delta: DeltaTable, schema: pa.Schema, files: pa.Table) -> Snapshot:
        """Return the version at which delta-rs has a table open."""
        metadata = delta.metadata()
        is_partitioned, writer_version = bool(metadata.partition_columns), delta.protocol().min_writer_version
        return cls(delta.version(), schema, files, metadata.configuration, is_partitioned, writer_version)

    def version(self) -> int:
        """Return the version, as a table of delta-rs does."""
        return self.number

    def after(self, removed: Collection[str], added: Sequence[pa.Table]) -> Snapshot:
        """Return the next version, which lacks some files by their paths, and has others."""
        files = self.files
        if removed:
            files = files.filter(pc.invert(pc.is_in(files["path"], pa.array(removed, pa.string()))))
        files = pa.concat_tables([files, *added], promote_options="permissive").combine_chunks()
        return replace(self, number=self.number + 1, files=files)

    def followed_by(self, entries: Sequence[bytes]) -> Snapshot | None:
        """Return the version after further log entries; None if these do more than to add and remove whole files."""
        if mapping_mode(self.properties) in MAPPED:
            return None  # the statistics have other names
        removed, added = set[str](), dict[str, dict[str, Any]]()
        try:
            for name, content in (action for entry in entries for action in _actions(entry)):
                if name == "add" and is_plain(content):
                    added[content["path"]] = content
                elif name == "remove" and not content.get(VECTOR) and "%" not in content["path"]:
                    added.pop(content["path"], None)
                elif name not in NO_FILES:
                    return None
                removed.update([content["path"]] if name not in NO_FILES else [])
            rows = [_file_rows(list(added.values()), self.schema)] if added else []
        except (ValueError, KeyError, TypeError, pa.ArrowException):
            return None  # delta-rs explains it
        return replace(self.after(removed, rows), number=self.number + len(entries))


def _actions(entry: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    if not entry:
        raise ValueError("an empty log entry")
    for line in entry.splitlines():
        yield next(iter(json.loads(line).items()))


def is_plain(added: dict[str, Any]) -> bool:
    """Return whether a file that is added needs no more than its path and statistics to be read."""
    return not (added.get("partitionValues") or added.get(VECTOR) or "%" in added["path"])


def _file_rows(added: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return the rows of added files in those of `list_files`."""
    statistics = [json.loads(action.get("stats") or "{}") for action in added]
    columns = {
        "path": pa.array([action["path"] for action in added], pa.string()),
        "size_bytes": pa.array([action["size"] for action in added], pa.int64()),
        "num_records": pa.array([own.get("numRecords") for own in statistics], pa.int64()),
    }
    for prefix, part in (("min", "minValues"), ("max", "maxValues")):
        known = [own.get(part) or {} for own in statistics]
        for name in dict.fromkeys(name for own in known for name in own):
            columns[f"{prefix}.{name}"] = pa.array([own.get(name) for own in known]).cast(schema.field(name).type)
    return pa.table(columns)
