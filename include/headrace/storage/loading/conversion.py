"""Converts a split of a file into rows of a table: matches names, validates values, deduplicates keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.tables import Column, Database, Table, TableKind
from headrace.model.types import DataType, TypeKind
from headrace.storage.delta.keys import keep_last_per_key
from headrace.storage.delta.staged_files import StagedFile, stage_rows
from headrace.storage.loading.splits import FileSplit, read_split
from headrace.storage.types import assemble, rows_schema, tags_schema
from headrace.storage.values.columns import InvalidValues, Values, to_stored_column
from headrace.storage.values.scalars import TimeContext

SERIES_TYPE = DataType(TypeKind.VARCHAR, 192)


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Where splits are loaded to: the table, the subtable of all rows (None: a column names it), and `now` (epoch ms).

    `columns` has the columns of the table that columns of files with other names are for.
    """

    table: Table
    database: Database
    tbname: str | None
    now: int
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def fixed_name(self) -> str | None:
        """The subtable of all rows; None if a column names it."""
        return self.table.name if self.table.kind is TableKind.PLAIN else self.tbname

    @property
    def time_context(self) -> TimeContext:
        return TimeContext(self.now, self.database.timezone, self.database.precision)

    def convert(self, file_split: FileSplit) -> ConvertedSplit:
        """Read and convert a split."""
        return convert_split(file_split, self)


class SplitTarget(Protocol):
    """Where splits are loaded to; Spark's workers receive it."""

    @property
    def table(self) -> Table:
        """The table."""

    def convert(self, file_split: FileSplit) -> ConvertedSplit:
        """Read and convert a split."""


@dataclass(frozen=True, slots=True)
class ConvertedSplit:
    """A split as rows of the table in stored types; incomplete if there are `invalid_values`.

    `read` counts the rows of the file, including those with equal keys, and `present_columns` are the table's columns that it has.
    `subtables` has `tbname` and those tags that have a column.
    """

    file_split: FileSplit
    rows: pa.Table
    read: int
    present_columns: frozenset[str]
    subtables: pa.Table
    invalid_values: InvalidValues = field(default_factory=InvalidValues)


@dataclass(frozen=True, slots=True)
class StagedSplit:
    """A converted split whose rows are in a staged file of the table; None if there are no rows."""

    file_split: FileSplit
    action: StagedFile | None
    read: int
    present_columns: frozenset[str]
    subtables: pa.Table
    invalid_values: InvalidValues


def match_columns(names: Iterable[str], target: LoadTarget, owner: str) -> dict[str, str]:
    """Map each column, tag and `tbname` to the file's name for it, ignoring case if that is unambiguous.

    Raises:
        NotFoundError: The table has no such column.
        ProgrammingError: Two names mean the same column, or the key is incomplete.
    """
    table = target.table
    columns = [column.name for column in (*table.columns, *table.tags)] + ([table.series_key] if target.fixed_name is None else [])
    file_names: dict[str, str] = {}
    wanted = ((name, text) for name in names for text in target.columns.get(name.strip(), (name.strip(),)))
    for name, text in wanted:
        matches = [column for column in columns if column == text] or [
            column for column in columns if column.lower() == text.lower()
        ]
        if not matches:
            hint = f"its columns are {', '.join(columns)}; headrace load --map '{text}=COLUMN' says which is meant"
            raise NotFoundError(f"{owner}: {table.name} has no column {text!r}", hint=hint)
        if matches[0] in file_names:
            raise ProgrammingError(f"{owner}: {name!r} and {file_names[matches[0]]!r} are one column", hint="name each column once")
        file_names[matches[0]] = name
    _check_complete(file_names, target, owner)
    return file_names


def _check_complete(file_names: dict[str, str], target: LoadTarget, owner: str) -> None:
    for name in target.table.primary_key:
        if name in file_names or (name == target.table.series_key and target.fixed_name is not None):
            continue
        hint = "name the subtable of the rows" if name == target.table.series_key else "the first line must name the columns"
        raise ProgrammingError(f"{owner} has no column {name}, part of the key of every row", hint=hint)


def convert_split(file_split: FileSplit, target: LoadTarget) -> ConvertedSplit:
    invalid_values = InvalidValues()
    raw = read_split(file_split, invalid_values)
    file_names = match_columns(raw.columns, target, file_split.name) if raw.rows else {}
    table, key = target.table, target.table.primary_key
    stored: dict[str, pa.Array] = {}
    for column in _columns(target):
        if column.name in file_names:
            values: Values = raw.columns[file_names[column.name]]
            is_time = column is table.timestamp
            stored[column.name] = to_stored_column(
                values, column, target.time_context, invalid_values, is_key=column.name in key, is_time=is_time
            )
    if target.fixed_name is not None:
        stored[table.series_key] = pa.repeat(pa.scalar(target.fixed_name, pa.string()), raw.rows)
    rows = assemble(stored, rows_schema(table, target.database), raw.rows)
    present_columns = frozenset(column.name for column in table.columns if column.name in file_names)
    subtables = _subtables(stored, target, raw.rows)
    return ConvertedSplit(
        file_split,
        rows if invalid_values.count else keep_last_per_key(rows, key),
        raw.rows,
        present_columns,
        subtables,
        invalid_values,
    )


def _columns(target: LoadTarget) -> Sequence[Column]:
    return (
        *target.table.columns,
        *target.table.tags,
        *((Column(target.table.series_key, SERIES_TYPE),) if target.fixed_name is None else ()),
    )


def _subtables(stored: dict[str, pa.Array], target: LoadTarget, count: int) -> pa.Table:
    """Return the subtables of the rows, each with its last tags."""
    schema = tags_schema(target.table, target.database)
    named = pa.schema([field for field in schema if field.name in stored or field.name == target.table.series_key])
    return keep_last_per_key(assemble(stored, named, count), [target.table.series_key])


def stage_split(file_split: FileSplit, target: SplitTarget, uri: str) -> StagedSplit:
    """Convert a split and write its rows as a staged file, sorted by subtable and time."""
    return stage_converted(target.convert(file_split), target.table, uri)


def stage_converted(converted: ConvertedSplit, table: Table, uri: str) -> StagedSplit:
    file = None
    if converted.rows.num_rows and not converted.invalid_values.count:
        file = stage_rows(converted.rows, table, uri)
    return StagedSplit(
        converted.file_split, file, converted.read, converted.present_columns, converted.subtables, converted.invalid_values
    )
