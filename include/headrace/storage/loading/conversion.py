"""Converts a split of a file into rows of a table: matches names, validates values, deduplicates keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.errors import NotFoundError, ProgrammingError
from headrace.model.tables import Column, Database, Table, TableKind
from headrace.model.types import DataType, TypeKind
from headrace.storage.delta.keys import keep_last_per_key
from headrace.storage.delta.staged_files import StagedFile, stage_rows
from headrace.storage.loading.splits import FileSplit, read_split
from headrace.storage.types import rows_schema, tags_schema
from headrace.storage.values.columns import InvalidValues, Values, to_stored_column
from headrace.storage.values.scalars import TimeContext

SERIES_TYPE = DataType(TypeKind.VARCHAR, 192)


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Where splits are loaded to: the table, the subtable of all rows (None: a column names it), and `now` (epoch ms)."""

    table: Table
    database: Database
    tbname: str | None
    now: int

    @property
    def fixed_name(self) -> str | None:
        return self.table.name if self.table.kind is TableKind.PLAIN else self.tbname

    @property
    def moment(self) -> TimeContext:
        return TimeContext(self.now, self.database.timezone, self.database.precision)


@dataclass(frozen=True, slots=True)
class ConvertedSplit:
    """A piece as rows of the table. `read_split` counts the file's rows, `given` are the table's columns that it has.

    `subtables` has `tbname` and those tags that have a column. If there are `invalid_values`, the rest is incomplete.
    """

    piece: FileSplit
    rows: pa.Table
    read: int
    given: frozenset[str]
    subtables: pa.Table
    invalid_values: InvalidValues = field(default_factory=InvalidValues)


@dataclass(frozen=True, slots=True)
class StagedSplit:
    """A converted split whose rows are in a staged file of the table; None if there are no rows."""

    piece: FileSplit
    action: StagedFile | None
    read: int
    given: frozenset[str]
    subtables: pa.Table
    invalid_values: InvalidValues


def match_columns(names: Iterable[str], target: LoadTarget, owner: str) -> dict[str, str]:
    """Map each column, tag and `tbname` to the file's name for it, ignoring case if that is unambiguous.

    Raises:
        NotFoundError: The table has no such column.
        ProgrammingError: Two names mean the same column, or the key is incomplete.
    """
    table = target.table
    known = [column.name for column in (*table.columns, *table.tags)] + ([table.series_key] if target.fixed_name is None else [])
    found: dict[str, str] = {}
    for name in names:
        wanted = name.strip()
        same = [each for each in known if each == wanted] or [each for each in known if each.lower() == wanted.lower()]
        if not same:
            raise NotFoundError(f"{owner}: {table.name} has no column {wanted!r}", hint=f"its columns are {', '.join(known)}")
        if same[0] in found:
            raise ProgrammingError(f"{owner}: {name!r} and {found[same[0]]!r} are one column", hint="name each column once")
        found[same[0]] = name
    _check_complete(found, target, owner)
    return found


def _check_complete(found: dict[str, str], target: LoadTarget, owner: str) -> None:
    for name in target.table.primary_key:
        if name in found or (name == target.table.series_key and target.fixed_name is not None):
            continue
        hint = "name the subtable of the rows" if name == target.table.series_key else "the first line must name the columns"
        raise ProgrammingError(f"{owner} has no column {name}, part of the key of every row", hint=hint)


def convert_split(piece: FileSplit, target: LoadTarget) -> ConvertedSplit:
    """Read and convert a split."""
    invalid_values = InvalidValues()
    raw = read_split(piece, invalid_values)
    found = match_columns(raw.columns, target, piece.name) if raw.rows else {}
    table, key = target.table, target.table.primary_key
    stored: dict[str, pa.Array] = {}
    for column in _columns(target):
        if column.name in found:
            values: Values = raw.columns[found[column.name]]
            is_time = column is table.timestamp
            stored[column.name] = to_stored_column(
                values, column, target.moment, invalid_values, is_key=column.name in key, is_time=is_time
            )
    if target.fixed_name is not None:
        stored[table.series_key] = pa.repeat(pa.scalar(target.fixed_name, pa.string()), raw.rows)
    rows = _assembled(stored, rows_schema(table, target.database), raw.rows)
    given = frozenset(column.name for column in table.columns if column.name in found)
    subtables = _subtables(stored, target, raw.rows)
    return ConvertedSplit(
        piece, rows if invalid_values.count else keep_last_per_key(rows, key), raw.rows, given, subtables, invalid_values
    )


def _columns(target: LoadTarget) -> Sequence[Column]:
    return (
        *target.table.columns,
        *target.table.tags,
        *((Column(target.table.series_key, SERIES_TYPE),) if target.fixed_name is None else ()),
    )


def _assembled(stored: dict[str, pa.Array], schema: pa.Schema, count: int) -> pa.Table:
    columns = [stored[each.name] if each.name in stored else pa.nulls(count, each.type) for each in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _subtables(stored: dict[str, pa.Array], target: LoadTarget, count: int) -> pa.Table:
    """Return the subtables of the rows, each with its last tags."""
    schema = tags_schema(target.table, target.database)
    named = pa.schema([each for each in schema if each.name in stored or each.name == target.table.series_key])
    return keep_last_per_key(_assembled(stored, named, count), [target.table.series_key])


def stage_split(piece: FileSplit, target: LoadTarget, uri: str) -> StagedSplit:
    """Convert a split and write its rows as a staged file, sorted by subtable and time."""
    return stage_converted(convert_split(piece, target), target, uri)


def stage_converted(converted: ConvertedSplit, target: LoadTarget, uri: str) -> StagedSplit:
    file = None
    if converted.rows.num_rows and not converted.invalid_values.count:
        file = stage_rows(converted.rows, target.table, uri)
    return StagedSplit(converted.piece, file, converted.read, converted.given, converted.subtables, converted.invalid_values)
