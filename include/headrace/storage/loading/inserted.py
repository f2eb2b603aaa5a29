"""Files of `INSERT … FILE`: values by position or by the names in the first line, for one subtable each."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.errors import Error, ProgrammingError
from headrace.model.spans import Span
from headrace.model.tables import Database, Table
from headrace.storage.loading.conversion import ConvertedSplit, LoadTarget, match_columns
from headrace.storage.loading.lines import first_lines
from headrace.storage.loading.splits import DOUBLE_QUOTE, FileSplit, split_files
from headrace.storage.values.scalars import InvalidValueError, to_stored

SINGLE_QUOTE = "'"


@dataclass(frozen=True, slots=True)
class InsertedFile:
    """A file, the subtable of its rows (None: a column names it), its columns in order if they are listed, and its position."""

    path: Path
    tbname: str | None
    columns: tuple[str, ...] | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class InsertedFiles:
    """Where the splits of several files are loaded to: subtables of one table. `targets` are those of splits by number."""

    table: Table
    targets: dict[int, LoadTarget]

    def convert(self, file_split: FileSplit) -> ConvertedSplit:
        """Read and convert a split."""
        return self.targets[file_split.number].convert(file_split)


def split_inserted(
    files: Sequence[InsertedFile], table: Table, database: Database, now: int
) -> tuple[list[FileSplit], InsertedFiles]:
    """Split files, and match their columns.

    Raises:
        NotFoundError: A file or column does not exist; has the file's position.
        ProgrammingError: The key is incomplete, or the files have different columns.
    """
    work: list[FileSplit] = []
    targets: dict[int, LoadTarget] = {}
    columns: frozenset[str] | None = None
    for file in files:
        target = LoadTarget(table, database, file.tbname, now)
        try:
            splits = [_name_columns(split, file, target) for split in split_files([file.path], None, ",")]
            own = _columns(splits, target)
            _check_same_columns(file, own if columns is None else columns, own)
        except Error as error:
            error.span = error.span or file.span
            raise
        columns = own
        for split in splits:
            targets[len(work)] = target
            work.append(replace(split, number=len(work)))
    return work, InsertedFiles(table, targets)


def _columns(splits: Sequence[FileSplit], target: LoadTarget) -> frozenset[str]:
    names = splits[0].names if splits else ()
    return frozenset(match_columns(names, target, splits[0].name)) if names else frozenset()


def _check_same_columns(file: InsertedFile, first: frozenset[str], own: frozenset[str]) -> None:
    if own != first:
        raise ProgrammingError(
            f"{file.path.name} has other columns than the first file: {', '.join(sorted(own ^ first))}",
            hint="write a statement for each of them",
        )


def _name_columns(split: FileSplit, file: InsertedFile, target: LoadTarget) -> FileSplit:
    """Name the columns of a CSV file without a line of names, or with listed columns."""
    if split.format != "csv":
        return split
    split, values = quoted_split(split)
    names = file.columns or tuple(column.name for column in target.table.columns)
    if _is_row(values, names, target):
        return without_header(split, names)
    return split if file.columns is None else replace(split, names=names)


def quoted_split(split: FileSplit) -> tuple[FileSplit, list[str]]:
    """Return a split of a CSV file with the quotes that the file uses, and the values of its first line."""
    lines = first_lines(Path(split.path))
    quote = SINGLE_QUOTE if any(_has_single_quotes(line) for line in lines) else DOUBLE_QUOTE
    values = next(csv.reader(lines[:1], delimiter=split.delimiter, quotechar=quote, skipinitialspace=True), [])
    return replace(split, quote=quote), values


def _has_single_quotes(line: str) -> bool:
    return line.startswith(SINGLE_QUOTE) or f",{SINGLE_QUOTE}" in line.replace(" ", "")


def without_header(split: FileSplit, names: tuple[str, ...]) -> FileSplit:
    """Return a split of a CSV file whose first line is a row, with names of its columns."""
    return replace(split, names=names, start=0 if split.start == split.data_start else split.start, data_start=0)


def _is_row(values: Sequence[str], names: Sequence[str], target: LoadTarget) -> bool:
    """Return True if a line has a timestamp where one is expected: it is a row then, and no line of names."""
    timestamp = target.table.timestamp
    position = names.index(timestamp.name) if timestamp.name in names else 0
    if position >= len(values):
        return False
    try:
        to_stored(values[position].strip(), timestamp.type, target.time_context)
    except InvalidValueError:
        return False
    return True
