"""Tables of Iceberg as sources of mirrors: each snapshot of the table is a version."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs as pafs

from headrace.errors import ConfigurationError, HistoryGoneError, NotFoundError, NotSupportedError, StorageError
from headrace.storage.delta.mirrors import FILE, SourceChange, SourceFile, ranges
from headrace.storage.delta.parquet_folders import MAX_WRITING_S, delta_field, uri_of
from headrace.storage.object_store import S3, S3A, file_system, is_object_store, object_store

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import StaticTable, Table
    from pyiceberg.table.snapshots import Snapshot

NEEDS_PYICEBERG: Final = "tables of Iceberg need PyIceberg"
INSTALL: Final = "pip install 'headrace[iceberg]'"
METADATA_FILE: Final = re.compile(r"v?(\d+)(-[^/]*)?\.metadata\.json")
PLAIN: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary(), pa.time64("us"): None}
STORABLE: Final = (
    *(pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_string),
    *(pa.types.is_binary, pa.types.is_timestamp, pa.types.is_date32),
)


class IcebergTable:
    """A table of Iceberg by the folder that has its `metadata`, or by its name in a catalog, which knows the newest."""

    def __init__(self, location: str, catalog: Sequence[str] = ()) -> None:
        self._location = location
        self._catalog = catalog
        # The newest metadata that was read: a table without changes since has no other file.
        self._seen = ""

    def changes(self, known: Callable[[], set[str]], mark: str) -> Iterator[SourceChange]:
        """Yield what each snapshot since the mark has changed; all that differs if the mark is none of its ancestors."""
        newest = newest_metadata(self._location, self._catalog)
        if newest == self._seen:
            return
        try:
            table = load(self._location, newest)
        except StorageError:
            if is_recent(self._location, newest):  # on a disk its writer may not have finished it
                return
            raise
        current = table.current_snapshot()
        if current is not None and str(current.snapshot_id) != mark:
            check_columns(table, self._location)
            since = snapshots_since(table, current, mark)
            for snapshot in since or ():
                yield self._change(table, snapshot)
            if since is None:
                yield self._difference(table, current, known())
        self._seen = newest

    def _change(self, table: StaticTable, snapshot: Snapshot) -> SourceChange:
        """Return what a snapshot has added and removed."""
        from pyiceberg.manifest import ManifestEntryStatus
        from pyiceberg.table.snapshots import Operation

        entries = [entry for entry in entries_of(table, snapshot, self._location) if entry.snapshot_id == snapshot.snapshot_id]
        added = [entry for entry in entries if entry.status is ManifestEntryStatus.ADDED]
        removed = [entry for entry in entries if entry.status is ManifestEntryStatus.DELETED]
        is_compaction = snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE
        return SourceChange(
            [source_file(entry, snapshot, table) for entry in added],
            [data_uri(entry.data_file.file_path) for entry in removed],
            str(snapshot.snapshot_id),
            changes_rows=not is_compaction,
        )

    def _difference(self, table: StaticTable, snapshot: Snapshot, known: set[str]) -> SourceChange:
        from pyiceberg.manifest import ManifestEntryStatus

        entries = [
            entry for entry in entries_of(table, snapshot, self._location) if entry.status is not ManifestEntryStatus.DELETED
        ]
        files = {file.uri: file for file in (source_file(entry, snapshot, table) for entry in entries)}
        added = [file for uri, file in files.items() if uri not in known]
        return SourceChange(added, sorted(known - files.keys()), str(snapshot.snapshot_id))


def in_catalog(names: Sequence[str]) -> Table:
    """Return a table by its catalog, as PyIceberg's configuration has that, and its name there.

    Raises:
        ConfigurationError: PyIceberg is not installed, or not configured for the catalog.
        NotFoundError: There is no such table.
        StorageError: The catalog cannot be reached.
    """
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
        from pyiceberg.utils.config import Config
    except ImportError as error:
        raise ConfigurationError(NEEDS_PYICEBERG, hint=INSTALL) from error
    catalog, table = names[0], ".".join(names[1:])
    try:
        # What is configured now, not when PyIceberg was imported.
        properties = Config().get_catalog_config(catalog) or {}
        return load_catalog(catalog, **{name: str(value) for name, value in properties.items()}).load_table(tuple(names[1:]))
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise NotFoundError(f"catalog {catalog} has no table {table}", hint="check the names") from error
    except ValueError as error:
        hint = f"describe it in .pyiceberg.yaml, or by variables such as PYICEBERG_CATALOG__{catalog.upper()}__URI"
        raise ConfigurationError(f"catalog {catalog} is not configured: {error}", hint=hint) from error
    except Exception as error:  # each kind of catalog has its own
        raise StorageError(f"catalog {catalog} cannot be reached: {error}", hint="check its configuration") from error


def newest_metadata(location: str, catalog: Sequence[str] = ()) -> str:
    """Return the URI of the newest metadata of a table; raise `NotFoundError` if there is none.

    Without a catalog it is that of the highest number, which a commit that failed may have left too.
    """
    if catalog:
        return in_catalog(catalog).metadata_location
    system, root = file_system(location)
    files = system.get_file_info(pafs.FileSelector(f"{root}/metadata", allow_not_found=True))
    named = [(METADATA_FILE.fullmatch(info.base_name), info) for info in files]
    newest = max(((int(match[1]), info.mtime_ns or 0, info.path) for match, info in named if match), default=None)
    if newest is None:
        raise NotFoundError(f"there is no table of Iceberg at {location}", hint="name the folder that has its metadata folder")
    return uri_of(location, newest[2])


def is_recent(location: str, uri: str) -> bool:
    """Return whether a file was changed so lately that it may be being written."""
    info = file_system(location)[0].get_file_info(unquote(uri.partition("://")[2]))
    return time.time() - (info.mtime_ns or 0) / 1e9 < MAX_WRITING_S


def load(location: str, metadata: str) -> StaticTable:
    """Open a table at one state.

    Raises:
        ConfigurationError: PyIceberg is not installed.
        StorageError: The metadata is not complete.
    """
    try:
        from pyiceberg.exceptions import ValidationError
        from pyiceberg.table import StaticTable
    except ImportError as error:
        raise ConfigurationError(NEEDS_PYICEBERG, hint=INSTALL) from error

    try:
        return StaticTable.from_metadata(metadata, properties=io_properties(location))
    except ValidationError as error:
        hint = "wait until its writer has finished it, or remove it if its commit has failed"
        raise StorageError(f"{unquote(metadata)} is no complete metadata of Iceberg", hint=hint) from error


def io_properties(location: str) -> dict[str, str]:
    """Return how PyIceberg reaches an object store."""
    if not is_object_store(location):
        return {}
    store = object_store(location)
    properties = {
        "s3.endpoint": store.endpoint,
        "s3.region": store.region,
        "s3.access-key-id": store.access_key_id,
        "s3.secret-access-key": store.secret_access_key,
    }
    return {name: value for name, value in properties.items() if value}


def snapshots_since(table: StaticTable, current: Snapshot, mark: str) -> list[Snapshot] | None:
    """Return the snapshots after that of a mark, in order; None if it is not known, or not an ancestor."""
    found: list[Snapshot] = []
    snapshot: Snapshot | None = current
    while snapshot is not None:
        if str(snapshot.snapshot_id) == mark:
            return found[::-1]
        found.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return None


def entries_of(table: StaticTable, snapshot: Snapshot, location: str) -> Iterator[ManifestEntry]:
    """Yield the entries of all data files of a snapshot's manifests.

    Raises:
        NotSupportedError: Rows are deleted by files of deletes, or files are not Parquet.
    """
    from pyiceberg.manifest import FileFormat, ManifestContent

    for manifest in snapshot.manifests(table.io):
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        if manifest.content is ManifestContent.DELETES and entries:
            raise NotSupportedError(
                f"the table at {location} deletes rows by files of deletes, which are not read",
                hint="set write.delete.mode, write.update.mode and write.merge.mode to copy-on-write, and run rewrite_data_files",
            )
        for entry in entries:
            if entry.data_file.file_format is not FileFormat.PARQUET:
                raise NotSupportedError(f"the table at {location} has files of {entry.data_file.file_format}", hint="use Parquet")
            yield entry


def source_file(entry: ManifestEntry, snapshot: Snapshot, table: StaticTable) -> SourceFile:
    file = entry.data_file
    statistics = {"numRecords": file.record_count, **column_ranges(entry, table)}
    return SourceFile(data_uri(file.file_path), file.file_size_in_bytes, snapshot.timestamp_ms, statistics=statistics)


def column_ranges(entry: ManifestEntry, table: StaticTable) -> dict[str, dict[str, Any]]:
    """Return the ranges of columns of times and whole numbers by a manifest."""
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import IntegerType, LongType, TimestampType, TimestamptzType

    lower, upper = entry.data_file.lower_bounds or {}, entry.data_file.upper_bounds or {}
    ends: dict[str, tuple[int, int]] = {}
    for field in table.schema().fields:
        number, type_ = field.field_id, field.field_type
        if isinstance(type_, IntegerType | LongType | TimestampType | TimestamptzType) and number in lower and number in upper:
            ends[field.name] = (int(from_bytes(type_, lower[number])), int(from_bytes(type_, upper[number])))
    return ranges(ends, pa.schema([plain(one) for one in table.schema().as_arrow()]))


def data_uri(path: str) -> str:
    """Return the URI of a data file, escaped as in a Delta log."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return f"{FILE}{quote(path.removeprefix('file:'))}"
    return f"{S3 if f'{scheme}://' == S3A else f'{scheme}://'}{quote(rest)}"


def check_columns(table: StaticTable, location: str) -> None:
    """Raise `HistoryGoneError` if a name of a column has not always meant the same: old files have the old names."""
    names: dict[int, set[str]] = {}
    numbers: dict[str, set[int]] = {}
    for schema in table.metadata.schemas:
        for number, name in schema._lazy_id_to_name.items():
            names.setdefault(number, set()).add(name)
            numbers.setdefault(name, set()).add(number)
    changed = [name for name, own in numbers.items() if len(own) > 1 or len(names[min(own)]) > 1]
    if changed:
        raise HistoryGoneError(
            f"column {changed[0]} of {location} was renamed or made again, so that its files have it under other names",
            hint="rewrite the table under one name for each column",
        )


def read_schema(location: str, catalog: Sequence[str] = ()) -> pa.Schema:
    """Return the columns of a table that Delta Lake can name.

    Raises:
        NotFoundError: There is no table.
    """
    table = load(location, newest_metadata(location, catalog))
    check_columns(table, location)
    fields = (plain(one) for one in table.schema().as_arrow())
    return pa.schema([delta_field(one) for one in fields if is_storable(one.type)])


def plain(field: pa.Field) -> pa.Field:
    """Return a field with types that Delta Lake has, also in nested ones."""
    return pa.field(field.name, plain_type(field.type))


def plain_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([plain(part) for part in type_])
    return PLAIN.get(type_) or type_


def is_storable(type_: pa.DataType) -> bool:
    """Return whether Delta Lake has a type."""
    if pa.types.is_struct(type_):
        parts: Sequence[Any] = list(type_)
        return all(is_storable(part.type) for part in parts)
    return any(is_type(type_) for is_type in STORABLE)
