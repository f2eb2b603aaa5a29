"""Creating and dropping Delta tables."""

from __future__ import annotations

import itertools
import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake import DeltaTable

from headrace import durable
from headrace.errors import ExistsError, LimitError, NotSupportedError
from headrace.model.tables import Database, Table, TableKind
from headrace.storage.delta.handles import folder_uri, open_table, rows_uri, stored_schema, table_uri, tags_uri, translate_errors
from headrace.storage.delta.history import history_properties
from headrace.storage.delta.log import sync_versions
from headrace.storage.delta.log_entries import is_local
from headrace.storage.object_store import delta_options, file_system
from headrace.storage.types import rows_schema, tags_schema

DROPPED: Final = ".dropped-"
"""How the names of folders begin that are being removed."""
FOLDERS_ABOVE_TABLE: Final = 4
"""Those of the table with its tags, its database, all tables, and the one above."""
CHECKPOINT_INTERVAL: Final = "delta.checkpointInterval"
# More versions between checkpoints slow opening a table, which reads each commit since; fewer slow commits.
CHECKPOINT_INTERVAL_VERSIONS: Final = 100


def create_table(root: str, table: Table, database: Database) -> None:
    """Create the Delta tables of a table; an external one has none here.

    Empty ones, which an interrupted creation leaves, are reused or replaced.
    """
    check_storable(table, database)
    with translate_errors(f"table {table.database}.{table.name}"):
        if table.external is not None:
            return
        if table.kind is TableKind.SUPER:
            _ensure(tags_uri(root, table), tags_schema(table, database), (table.series_key,), change_feed=False)
        _ensure(rows_uri(root, table), rows_schema(table, database), table.primary_key, change_feed=True)


def create_mirror(uri: str, schema: pa.Schema, partitions: Sequence[str]) -> str:
    """Create a table that names files of another writer, replacing one that an interrupted creation left, and return its id."""
    if not is_local(uri):
        raise NotSupportedError(
            "files of other writers are only read if HEADRACE_WAREHOUSE is a folder", hint="write the rows to a Delta table"
        )
    _remove(uri)
    properties: dict[str, str | None] = {CHECKPOINT_INTERVAL: str(CHECKPOINT_INTERVAL_VERSIONS), **history_properties()}
    delta = DeltaTable.create(uri, schema, partition_by=list(partitions), configuration=properties)
    sync_created(uri)
    return str(delta.metadata().id)


def check_storable(table: Table, database: Database) -> None:
    """Raise `LimitError` if a table has types or names that Delta Lake cannot store."""
    for schema in (rows_schema(table, database), tags_schema(table, database)):
        seen: dict[str, str] = {}
        for name in schema.names:
            other = seen.setdefault(name.lower(), name)
            if other is not name:
                raise LimitError(
                    f"{table.name} cannot have columns {other} and {name}: Delta Lake ignores case in column names",
                    hint=f"rename {name}",
                )


def _ensure(uri: str, schema: pa.Schema, key: tuple[str, ...], *, change_feed: bool) -> None:
    if DeltaTable.is_deltatable(uri, storage_options=delta_options(uri)) and _is_reusable(uri, schema):
        return
    DeltaTable.create(uri, schema, configuration=_configuration(key, change_feed), storage_options=delta_options(uri))
    if is_local(uri):
        sync_created(uri)


def sync_created(uri: str) -> None:
    """Have a new local table survive a power failure, with the folders that were made for it."""
    sync_versions(uri, 0, 0)
    durable.sync(uri, *itertools.islice(Path(uri).parents, FOLDERS_ABOVE_TABLE))


def _configuration(key: tuple[str, ...], change_feed: bool) -> dict[str, str | None]:
    """Return the table's properties. Only key columns have statistics: they prune files, and every commit carries them."""
    indexed = ",".join(f"`{name}`" for name in key)
    configuration: dict[str, str | None] = {
        "delta.dataSkippingStatsColumns": indexed,
        CHECKPOINT_INTERVAL: str(CHECKPOINT_INTERVAL_VERSIONS),
    }
    if change_feed:
        configuration |= {"delta.enableChangeDataFeed": "true", **history_properties()}
    return configuration


def _is_reusable(uri: str, schema: pa.Schema) -> bool:
    """Return whether an empty table has these columns; remove one that has others and was never written to.

    Raises:
        ExistsError: The table has rows, or had some.
    """
    delta = open_table(uri)
    if not delta.file_uris() and stored_schema(delta) == schema:
        return True
    if delta.version() > 0:
        raise ExistsError(
            f"there is a Delta table at {uri} already",
            hint="if no other catalog uses this warehouse, an interrupted DROP has left it: repeat that, which removes it",
        )
    _remove(uri)
    return False


def drop_table(root: str, table: Table) -> None:
    """Remove a table's files; on a local disk atomically, by a rename first."""
    uri = table_uri(root, table)
    with translate_errors(f"table {table.database}.{table.name}"):
        if is_local(uri):
            _drop_local(Path(uri))
            with suppress(OSError):
                Path(uri).parent.rmdir()
        else:
            _drop_remote(uri, ("rows/_delta_log", "tags/_delta_log", ""))


def has_files(root: str, database: str, table: str | None) -> bool:
    """Return whether the folder of a database or table exists; on an object store, whether something is below it."""
    system, path = file_system(folder_uri(root, database, table))
    with translate_errors(f"the files of {database}"):
        return system.get_file_info(path).type is pafs.FileType.Directory


def drop_folder(root: str, database: str, table: str | None) -> None:
    """Remove the folder of a database or table with all its files, if it exists."""
    with translate_errors(f"the files of {database}"):
        _remove(folder_uri(root, database, table))


def _remove(uri: str) -> None:
    """Remove one Delta table."""
    if is_local(uri):
        _drop_local(Path(uri))
    else:
        _drop_remote(uri, ("_delta_log", ""))


def remove_dropped(root: str) -> None:
    """Remove the folders, renamed by drops, whose removal was interrupted. Object stores have none."""
    for depth in ("", "*/", "*/*/") if is_local(root) else ():
        for folder in Path(root).glob(f"{depth}{DROPPED}*"):
            shutil.rmtree(folder, ignore_errors=True)


def _drop_local(folder: Path) -> None:
    doomed = folder.with_name(f"{DROPPED}{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):
        folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def _drop_remote(uri: str, parts: tuple[str, ...]) -> None:
    """Delete the logs first: without its log a table does not exist."""
    system, path = file_system(uri)
    for part in parts:
        folder = f"{path}/{part}".rstrip("/")
        if system.get_file_info(folder).type is not pafs.FileType.NotFound:
            system.delete_dir(folder)
