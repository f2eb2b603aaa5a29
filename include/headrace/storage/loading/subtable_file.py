"""A CSV file of subtables: `tbname` and tags, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.tables import Column, Database, Table
from headrace.model.types import DataType, TypeKind
from headrace.storage.loading.inserted import quoted_split, without_header
from headrace.storage.loading.loader import refuse_invalid
from headrace.storage.loading.splits import FileSplit, position_of, read_split, split_files
from headrace.storage.types import assemble, tags_schema
from headrace.storage.values.columns import InvalidValues, to_stored_column
from headrace.storage.values.scalars import TimeContext

MAX_NAME_BYTES: Final = 192
VALID_NAME: Final = f"a name of 1 to {MAX_NAME_BYTES} bytes, without '/' and not beginning with '.'"


@dataclass(frozen=True, slots=True)
class NamedSubtables:
    """Some lines of a file as rows of the tags table. Tags that the file does not have are NULL."""

    file_split: FileSplit
    tags: pa.Table
    invalid_values: InvalidValues


@dataclass(frozen=True, slots=True)
class SubtableFile:
    """The subtables of a file as rows of the tags table, in the order of its lines."""

    parts: tuple[NamedSubtables, ...]
    tags: pa.Table

    def position(self, row: int) -> str:
        """Return where a row is in the file."""
        part, row = part_of(self.parts, row)
        return position_of(part.file_split, row)


def read_subtables(path: Path, columns: Sequence[str], table: Table, database: Database, now: int) -> SubtableFile:
    """Read a file of subtables with these columns in order, `tbname` and tags; its first line may have their names.

    Raises:
        NotFoundError: There is no such file.
        DataError: A value or name is invalid, or a name is there twice; nothing was created.
    """
    splits = [_name_columns(split, tuple(columns)) for split in split_files([path], "csv", ",")]
    parts = tuple(_convert(split, table, database, now) for split in splits)
    refuse_invalid(parts)
    tags = pa.concat_tables([part.tags for part in parts])
    for row in repeated_rows(tags[table.series_key]):
        part, index = part_of(parts, row)
        part.invalid_values.add(index, key_column(table), tags[table.series_key][row].as_py(), "a name that no earlier row has")
    refuse_invalid(parts)
    return SubtableFile(parts, tags)


def part_of(parts: Sequence[NamedSubtables], row: int) -> tuple[NamedSubtables, int]:
    for part in parts:
        if row < part.tags.num_rows:
            return part, row
        row -= part.tags.num_rows
    raise IndexError(row)


def repeated_rows(names: pa.ChunkedArray) -> list[int]:
    rows = pa.table({"name": names, "row": np.arange(len(names))})
    first = rows.group_by("name").aggregate([("row", "min")])["row_min"]
    repeated: list[int] = np.setdiff1d(np.arange(len(names)), first.to_numpy()).tolist()
    return repeated


def key_column(table: Table) -> Column:
    return Column(table.series_key, DataType(TypeKind.VARCHAR, MAX_NAME_BYTES))


def _name_columns(split: FileSplit, columns: tuple[str, ...]) -> FileSplit:
    split, values = quoted_split(split)
    is_header = [value.strip().lower() for value in values] == [name.lower() for name in columns]
    return replace(split, names=columns) if is_header else without_header(split, columns)


def _convert(split: FileSplit, table: Table, database: Database, now: int) -> NamedSubtables:
    invalid, context = InvalidValues(), TimeContext(now, database.timezone, database.precision)
    content = read_split(split, invalid)
    key = key_column(table)
    stored: dict[str, pa.Array] = {}
    for column in (key, *table.tags):
        if column.name in content.columns:
            values = content.columns[column.name]
            stored[column.name] = to_stored_column(values, column, context, invalid, is_key=column is key, is_time=False)
    if key.name in stored:
        _check_names(stored[key.name], key, invalid)
    return NamedSubtables(split, assemble(stored, tags_schema(table, database), content.rows), invalid)


def _check_names(names: pa.Array, key: Column, invalid: InvalidValues) -> None:
    is_bad = pc.or_(pc.match_substring_regex(names, r"^\.|/|\x00"), pc.equal(pc.binary_length(names), 0))
    for row in pc.indices_nonzero(is_bad).to_pylist():
        invalid.add(row, key, names[row].as_py(), VALID_NAME)
