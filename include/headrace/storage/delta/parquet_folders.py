"""Folders in which Parquet files land, as sources of mirrors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from headrace.errors import NotFoundError, StorageError
from headrace.storage.delta.external_rows import NANOSECONDS
from headrace.storage.delta.log_entries import is_local
from headrace.storage.delta.mirrors import FILE, SourceChange, SourceFile, ranges
from headrace.storage.object_store import S3, file_system

SUFFIXES: Final = (".parquet", ".parq")
IGNORED: Final = ("_", ".")
"""How names of files and folders begin that writers have not finished, or that are not data."""
NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
MAX_FILES: Final = 5_000
"""Files of a version."""
FOOTER_THREADS: Final = 8
MAX_WRITING_S: Final = 60.0
"""A file that cannot be read is taken for one that is being written, for so long after its last change."""
UNSIGNED: Final = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}


@dataclass(frozen=True, slots=True)
class ParquetFolder:
    """The Parquet files of a folder and those below it, named `column=value` if they are partitions."""

    location: str

    def changes(self, known: Callable[[], set[str]], mark: str) -> Iterator[SourceChange]:  # noqa: ARG002
        """Yield files that have landed, the oldest first, and those that are gone."""
        listed = list_files(self.location, SUFFIXES)
        before = known()
        gone = sorted(before - listed.keys())
        new = sorted((info.mtime_ns or 0, uri) for uri, info in listed.items() if uri not in before)
        if gone:
            yield SourceChange((), gone)
        for start in range(0, len(new), MAX_FILES):
            part = [uri for _, uri in new[start : start + MAX_FILES]]
            with ThreadPoolExecutor(FOOTER_THREADS) as executor:
                described = list(executor.map(partial(self._describe, listed), part))
            if added := [file for file in described if file is not None]:
                yield SourceChange(added, ())

    def _describe(self, listed: dict[str, pafs.FileInfo], uri: str) -> SourceFile | None:
        """Return what a log says of a file; None if it is being written."""
        info = listed[uri]
        try:
            metadata = pq.read_metadata(info.path, filesystem=file_system(self.location)[0])
        except FileNotFoundError:
            return None
        except (pa.ArrowException, OSError) as error:
            if time.time() - (info.mtime_ns or 0) / 1e9 < MAX_WRITING_S:
                return None
            raise StorageError(f"{unquote(uri)} is no Parquet file: {error}", hint="move it out of the folder") from error
        statistics: dict[str, Any] = {"numRecords": metadata.num_rows, **column_ranges(metadata)}
        modified_ms = (info.mtime_ns or 0) // 1_000_000
        return SourceFile(uri, info.size or 0, modified_ms, partition_values(self.location, uri), statistics)


def column_ranges(metadata: pq.FileMetaData) -> dict[str, dict[str, Any]]:
    """Return the ranges of columns of times and whole numbers by a footer."""
    stored = metadata.schema.to_arrow_schema()
    schema = pa.schema([delta_field(one) for one in stored])
    ends: dict[str, tuple[int, int]] = {}
    for number in range(metadata.num_columns):
        column = metadata.schema.column(number)
        if column.path not in stored.names or not has_range(stored.field(column.path).type):
            continue
        groups = [metadata.row_group(group).column(number).statistics for group in range(metadata.num_row_groups)]
        if groups and all(one is not None and one.has_min_max for one in groups):
            scale = 1_000 if '"timeUnit": "milliseconds"' in column.logical_type.to_json() else 1
            ends[column.path] = (scale * min(one.min_raw for one in groups), scale * max(one.max_raw for one in groups))
    return ranges(ends, schema)


def has_range(type_: pa.DataType) -> bool:
    """Return whether statistics of a type are whole numbers. Those of large unsigned ones seem to be negative."""
    return bool(pa.types.is_timestamp(type_) or pa.types.is_signed_integer(type_))


def list_files(location: str, suffixes: tuple[str, ...]) -> dict[str, pafs.FileInfo]:
    """Return the files of a folder by their URIs, whose names end in one of some ways."""
    system, root = file_system(location)
    selector = pafs.FileSelector(root, allow_not_found=True, recursive=True)
    files = (info for info in system.get_file_info(selector) if info.type is pafs.FileType.File)
    return {uri_of(location, info.path): info for info in files if is_data(info.path.removeprefix(f"{root}/"), suffixes)}


def is_data(path: str, suffixes: tuple[str, ...]) -> bool:
    """Return whether a path below a folder is that of a data file which its writer has finished."""
    return path.endswith(suffixes) and not any(part.startswith(IGNORED) for part in path.split("/"))


def uri_of(location: str, path: str) -> str:
    """Return the URI of a file by its path in the file system, escaped as in a log."""
    return f"{FILE if is_local(location) else S3}{quote(path)}"


def partition_values(location: str, uri: str) -> dict[str, str | None]:
    """Return the values of the folders between the location and a file that are named `column=value`."""
    system_path = file_system(location)[1]
    folders = unquote(uri.partition("://")[2]).removeprefix(f"{system_path}/").split("/")[:-1]
    pairs = (folder.partition("=") for folder in folders)
    return {name: None if value == NULL_PARTITION else unquote(value) for name, equals, value in pairs if equals}


def read_schema(location: str) -> tuple[pa.Schema, Sequence[str]]:
    """Return the columns of the newest file as Delta Lake has them, and which of them are partitions.

    Raises:
        NotFoundError: There is no file.
    """
    newest, info = newest_file(location, SUFFIXES, "Parquet")
    stored = pq.read_schema(info.path, filesystem=file_system(location)[0])
    partitions = list(partition_values(location, newest))
    fields = [delta_field(one) for one in stored if one.name not in partitions]
    return pa.schema([*fields, *(pa.field(name, pa.string()) for name in partitions)]), partitions


def newest_file(location: str, suffixes: tuple[str, ...], kind: str) -> tuple[str, pafs.FileInfo]:
    """Return the URI of the newest file of a kind below a folder, and the file; raise `NotFoundError` if there is none."""
    listed = list_files(location, suffixes)
    if not listed:
        hint = "name the folder where files land, once there is one"
        raise NotFoundError(f"there is no {kind} file below {location}", hint=hint)
    newest = max(listed, key=lambda uri: (listed[uri].mtime_ns or 0, uri))
    return newest, listed[newest]


def delta_field(field: pa.Field) -> pa.Field:
    """Return a column of a file as Delta Lake has it. Its metadata says what the files have if that is another type."""
    type_ = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_timestamp(type_):
        if type_.unit == "ns":
            return pa.field(field.name, pa.int64(), metadata={NANOSECONDS: b"UTC" if type_.tz else b""})
        return pa.field(field.name, pa.timestamp("us", "UTC" if type_.tz else None))
    return pa.field(field.name, UNSIGNED.get(type_, type_))
