"""Versions of local tables, which Headrace's own commits lead from one to the next.

delta-rs takes milliseconds to read a log entry, however small. The process that has just written it knows what it says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from deltalake import DeltaTable


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
