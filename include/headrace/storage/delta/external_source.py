"""What a Delta table of another writer is, and whether its data files alone define its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable

from headrace.errors import NotFoundError, NotSupportedError
from headrace.model.external_tables import ExternalFormat
from headrace.storage.delta import iceberg_tables, parquet_folders, text_folders
from headrace.storage.delta.external_rows import file_schema
from headrace.storage.delta.handles import open_table, stored_schema, translate_errors
from headrace.storage.object_store import delta_options

PARTITION_TYPES: Final = (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_boolean)


@dataclass(frozen=True, slots=True)
class ExternalSource:
    """What another writer has: the id of a Delta table, the columns, and which of them are partitions of files."""

    table_id: str
    schema: pa.Schema
    partitions: tuple[str, ...] = ()

    @property
    def columns(self) -> pa.Schema:
        """The columns with the types that the files have."""
        return file_schema(self.schema)


def place_in_catalog(catalog: Sequence[str]) -> str:
    """Return where a table of a catalog is; raise what `iceberg_tables.in_catalog` raises."""
    return iceberg_tables.in_catalog(catalog).location()


def read_source(location: str, format: ExternalFormat, catalog: Sequence[str] = ()) -> ExternalSource:
    """Look at a Delta table, or at the files of another writer.

    Raises:
        NotFoundError: There is none.
        NotSupportedError: It uses something that is not read.
        StorageError: It cannot be read.
    """
    name = f"the table at {location}"
    with translate_errors(name):
        if format is ExternalFormat.PARQUET:
            schema, partitions = parquet_folders.read_schema(location)
            return ExternalSource("", schema, tuple(partitions))
        if format.is_text:
            return ExternalSource("", text_folders.read_schema(location, format))
        if format is ExternalFormat.ICEBERG:
            return ExternalSource("", iceberg_tables.read_schema(location, catalog))
        if not DeltaTable.is_deltatable(location, storage_options=delta_options(location)):
            raise NotFoundError(f"there is no Delta table at {location}", hint="name the folder that has its _delta_log")
        delta = open_table(location)
        refuse_unreadable(delta, name)
        return ExternalSource(str(delta.metadata().id), stored_schema(delta))


def refuse_unreadable(delta: DeltaTable, name: str) -> None:
    """Raise `NotSupportedError` if a table is partitioned by values that a log writes in several ways."""
    metadata = delta.metadata()
    schema = stored_schema(delta)
    for column in metadata.partition_columns:
        type_ = schema.field(column).type
        if not any(is_type(type_) for is_type in PARTITION_TYPES):
            raise NotSupportedError(
                f"{name} is partitioned by {column}, which is {type_}", hint="partition by a text, a whole number or a date"
            )
