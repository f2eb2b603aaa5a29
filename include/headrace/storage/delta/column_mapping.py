"""Column mapping of Delta Lake: the names that columns have in data files, statistics and partition values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from headrace.errors import HistoryGoneError, NotSupportedError

MODE: Final = "delta.columnMapping.mode"
PHYSICAL_NAME: Final = b"delta.columnMapping.physicalName"
DECLARED_ID: Final = b"delta.columnMapping.id"
STORED_ID: Final = b"PARQUET:field_id"
MAPPED: Final = ("name", "id")
BY_ID: Final = "id"
FORMERLY_MAPPED: Final = "none"
GENERATED_NAME: Final = re.compile(r"col-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def mapping_mode(properties: Mapping[str, str]) -> str:
    """Return `name` or `id`, `none` if the mapping was removed, or nothing if there has never been one."""
    return properties.get(MODE, "")


def physical_name(field: pa.Field) -> str:
    """Return the name of a column of the log in data files. It stays when the column is renamed."""
    name = (field.metadata or {}).get(PHYSICAL_NAME)
    return field.name if name is None else str(name.decode())


def physical_schema(fields: Iterable[pa.Field]) -> pa.Schema:
    """Return the columns of the log as they are in data files, also within nested ones."""
    return pa.schema([_physical_field(field) for field in fields])


def _physical_field(field: pa.Field) -> pa.Field:
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_physical_field(part) for part in type_])
    return pa.field(physical_name(field), type_)


def declared_path(schema: pa.Schema, physical: Sequence[str]) -> tuple[str, ...] | None:
    """Return the path by which a version of the log names a column of data files; None if it has none."""
    fields: Iterable[pa.Field] = schema
    path: list[str] = []
    for name in physical:
        field = next((one for one in fields if physical_name(one) == name), None)
        if field is None:
            return None
        path.append(field.name)
        fields = field.type if pa.types.is_struct(field.type) else ()
    return tuple(path)


def check_names(file: pa.Schema, declared: pa.Schema, time: str, mode: str, path: str) -> None:
    """Raise `HistoryGoneError` for a data file whose columns have names of a mapping that was removed since it was written.

    If the columns are mapped again, names that the log does not have may be those of dropped columns, unless the time is missing.
    """
    others = {name for name in file.names if GENERATED_NAME.fullmatch(name)}.difference(declared.names)
    if others and (mode == FORMERLY_MAPPED or time not in file.names):
        raise HistoryGoneError(
            f"the columns of {path} have names of the column mapping that was removed",
            hint="RESET STREAM computes the results again from the rows that there are now",
        )


def check_ids(file: pa.Schema, declared: pa.Schema, path: str) -> None:
    """Raise `NotSupportedError` if columns that a table finds by their numbers have other names in a data file than in its log.

    Delta Lake's writers give them the same; a table that was converted from Iceberg may have older ones.
    """
    stored = {number: names for number, names in _numbered(file, STORED_ID) if int(number) >= 0}
    expected = {number: names for number, names in _numbered(declared, DECLARED_ID) if number in stored}
    if not stored or any(stored[number] != names for number, names in expected.items()):
        raise NotSupportedError(
            f"the columns of {path} have other names or numbers than in the log",
            hint="write its rows again in Spark: INSERT OVERWRITE",
        )


def _numbered(fields: Iterable[pa.Field], key: bytes, prefix: tuple[str, ...] = ()) -> Iterator[tuple[bytes, tuple[str, ...]]]:
    """Yield the number of each column that has one, also within nested ones, and its path in data files."""
    for field in fields:
        path = (*prefix, physical_name(field))
        number = (field.metadata or {}).get(key)
        if number is not None:
            yield number, path
        if pa.types.is_struct(field.type):
            yield from _numbered(field.type, key, path)
