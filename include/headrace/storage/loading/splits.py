"""Files to load, split into parts that are read and converted one by one, here or by Spark's workers."""

from __future__ import annotations

import csv as python_csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from headrace.errors import DataError, NotFoundError, ProgrammingError
from headrace.storage.values.columns import InvalidValue, InvalidValues, Values

# A worker holds one split in memory: about a million rows.
SPLIT_BYTES: Final = 32 * 2**20
SPLIT_ROWS: Final = 1_000_000
# The column of an invalid value if the whole line is invalid.
LINE: Final = "line"
BLOCK_BYTES: Final = 2**20
NULLS: Final = ["", "NULL", "null", "\\N"]
FORMATS: Final = {
    "csv": "csv",
    "tsv": "csv",
    "parquet": "parquet",
    "pq": "parquet",
    "ndjson": "ndjson",
    "jsonl": "ndjson",
    "json": "ndjson",
}
DOUBLE_QUOTE: Final = '"'
BOM: Final = "\ufeff"


@dataclass(frozen=True, slots=True)
class FileSplit:
    """Bytes `start` to `end` of a file of lines (the lines that start there), or row groups of a Parquet file.

    `quote` encloses values of CSV; `escape` makes the next character part of a value.
    """

    number: int
    path: str
    format: str
    start: int
    end: int
    delimiter: str = ","
    names: tuple[str, ...] = ()
    data_start: int = 0

    bytes: int = 0
    escape: str | None = None
    quote: str = DOUBLE_QUOTE

    @property
    def name(self) -> str:
        """The file's name, without its folder."""
        return Path(self.path).name


@dataclass(frozen=True, slots=True)
class SplitContent:
    """The content of a split: values by the file's column names, `rows` of each."""

    columns: Mapping[str, Values]
    rows: int


def format_of(path: Path, requested: str | None) -> str:
    """Return csv, parquet or ndjson: as requested, else by the file's extension."""
    splits = FORMATS.get((requested or path.suffix.lstrip(".")).lower())
    if splits is None:
        raise ProgrammingError(
            f"{path.name}: {requested or path.suffix or 'no suffix'} is none of the formats csv, parquet, ndjson",
            hint="name the format",
        )
    return splits


def split_files(paths: Sequence[Path], format_: str | None, delimiter: str, piece_bytes: int = SPLIT_BYTES) -> list[FileSplit]:
    """Return all splits of the files, in order.

    Raises:
        NotFoundError: A file does not exist.
        DataError: A file does not have its format.
    """
    splits: list[FileSplit] = []
    for path in paths:
        if not path.is_file():
            raise NotFoundError(f"file {path} does not exist", hint="check the path")
        format_name = format_of(path, format_)
        splits.extend(
            _parquet(path, len(splits))
            if format_name == "parquet"
            else _lines(path, format_name, delimiter, piece_bytes, len(splits))
        )
    return splits


def _lines(path: Path, format_name: str, delimiter: str, piece_bytes: int, number: int) -> Iterator[FileSplit]:
    size = path.stat().st_size
    tab = path.suffix.lower() == ".tsv" and delimiter == ","
    separator = "\t" if tab else delimiter
    names, begin = _header(path, separator) if format_name == "csv" else ((), 0)
    for start in range(begin, max(size, begin + 1), piece_bytes):
        end = min(start + piece_bytes, size)
        yield FileSplit(number, str(path), format_name, start, end, separator, names, begin, end - (start if start > begin else 0))
        number += 1


def _header(path: Path, delimiter: str) -> tuple[tuple[str, ...], int]:
    """Return the names in the first line of a CSV file, and the offset of the second line."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        parsed = csv.read_csv(
            pa.BufferReader(line), csv.ReadOptions(autogenerate_column_names=True), csv.ParseOptions(delimiter=delimiter)
        )
        names = tuple(str(column[0].as_py() or "").removeprefix(BOM).strip() for column in parsed.columns)
    except (pa.ArrowInvalid, IndexError):
        raise DataError(
            f"{path.name} does not begin with a line of column names", hint="check that it is a CSV file with a header"
        ) from None
    return names, len(line)


def _parquet(path: Path, number: int) -> Iterator[FileSplit]:
    """Yield splits of row groups, about a million rows each."""
    try:
        metadata = pq.read_metadata(path)
        names = tuple(pq.read_schema(path).names)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path.name} is not a Parquet file: {error}", hint="check that it is complete") from None
    size = path.stat().st_size
    first, rows = 0, 0
    for group in range(metadata.num_row_groups):
        rows += metadata.row_group(group).num_rows
        if rows >= SPLIT_ROWS or group == metadata.num_row_groups - 1:
            share = size * rows // max(metadata.num_rows, 1)
            yield FileSplit(number, str(path), "parquet", first, group + 1, names=names, bytes=share)
            number, first, rows = number + 1, group + 1, 0


def read_split(file_split: FileSplit, invalid_values: InvalidValues) -> SplitContent:
    """Read the values of a split; lines that cannot be read are added to `invalid_values`."""
    if file_split.format == "parquet":
        table = pq.ParquetFile(file_split.path).read_row_groups(list(range(file_split.start, file_split.end)))
        return SplitContent({name: table[name] for name in table.column_names}, table.num_rows)
    text = _read_lines(file_split)
    return _csv(file_split, text, invalid_values) if file_split.format == "csv" else _ndjson(text, invalid_values)


def _read_lines(file_split: FileSplit) -> bytes:
    with open(file_split.path, "rb") as file:
        start = file_split.start
        if start > file_split.data_start:
            file.seek(start - 1)
            start += len(file.readline()) - 1
        if start >= file_split.end:
            return b""
        file.seek(start)
        return file.read(file_split.end - start) + _finish_line(file, file_split.end)


def _finish_line(file: BinaryIO, end: int) -> bytes:
    file.seek(end - 1)
    return b"" if file.read(1) == b"\n" else file.readline()


def _csv(file_split: FileSplit, text: bytes, invalid_values: InvalidValues) -> SplitContent:
    nothing = SplitContent({name: [] for name in file_split.names}, 0)

    def invalid(row: csv.InvalidRow) -> str:
        allowed = f"one value for each of the {row.expected_columns} names in the first line"
        invalid_values.add_text(row.number - 1, LINE, f"{row.actual_columns} values", allowed)
        return "skip"

    if not text.strip():
        return nothing
    if file_split.quote != DOUBLE_QUOTE:
        return _quoted_csv(file_split, text, invalid_values)
    try:
        table = csv.read_csv(
            pa.BufferReader(text),
            csv.ReadOptions(column_names=list(file_split.names), use_threads=False),
            csv.ParseOptions(delimiter=file_split.delimiter, escape_char=file_split.escape or False, invalid_row_handler=invalid),
            csv.ConvertOptions(
                column_types=dict.fromkeys(file_split.names, pa.string()),
                null_values=NULLS,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        _add_undecodable(text, invalid_values, str(error))
        return nothing
    # Rows after a skipped line would be miscounted, so their values are validated only once all lines can be read.
    return nothing if invalid_values.count else SplitContent({name: table[name] for name in table.column_names}, table.num_rows)


def _quoted_csv(file_split: FileSplit, text: bytes, invalid_values: InvalidValues) -> SplitContent:
    """Read CSV whose values are in other quotes than Arrow reads: after a delimiter, blanks may precede a quote."""
    try:
        lines = text.decode().splitlines()
    except UnicodeDecodeError as error:
        _add_undecodable(text, invalid_values, str(error))
        return SplitContent({}, 0)
    options: dict[str, Any] = {"delimiter": file_split.delimiter, "quotechar": file_split.quote, "skipinitialspace": True}
    rows: list[list[str]] = []
    for number, row in enumerate(python_csv.reader((line for line in lines if line.strip()), **options)):
        if len(row) == len(file_split.names):
            rows.append(row)
        else:
            allowed = f"one value for each of the {len(file_split.names)} columns"
            invalid_values.add_text(number, LINE, f"{len(row)} values", allowed)
    if invalid_values.count:
        return SplitContent({}, 0)
    columns = zip(*rows, strict=True) if rows else [()] * len(file_split.names)
    values = [[None if value in NULLS else value for value in column] for column in columns]
    return SplitContent(dict(zip(file_split.names, values, strict=True)), len(rows))


def _add_undecodable(text: bytes, invalid_values: InvalidValues, error: str) -> None:
    """Find the first line that is not UTF-8."""
    for row, line in enumerate(text.splitlines()):
        try:
            line.decode()
        except UnicodeDecodeError:
            invalid_values.add_text(row, LINE, repr(line[:60]), "text in UTF-8")
            return
    invalid_values.add_text(0, LINE, error.partition("\n")[0][:60], "a line of CSV")


def _ndjson(text: bytes, invalid_values: InvalidValues) -> SplitContent:
    columns: dict[str, list[object]] = {}
    rows = 0
    for row, line in enumerate(text.splitlines()):
        if not line.strip():
            continue
        for name, value in _parse_object(row, line, invalid_values).items():
            column = columns.setdefault(name, [])
            column.extend([None] * (rows - len(column)))
            column.append(value)
        rows += 1
    for column in columns.values():
        column.extend([None] * (rows - len(column)))
    return SplitContent({}, 0) if invalid_values.count else SplitContent(columns, rows)


def _parse_object(row: int, line: bytes, invalid_values: InvalidValues) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict):
        return parsed
    invalid_values.add_text(row, LINE, repr(line[:60].decode(errors="replace")), "a JSON object")
    return {}


def rows_before(file_split: FileSplit) -> int:
    """Count the rows of the file before a split; only messages need it."""
    if file_split.format == "parquet":
        metadata = pq.read_metadata(file_split.path)
        return sum(metadata.row_group(group).num_rows for group in range(file_split.start))
    lines, block = 0, b"\n"
    with open(file_split.path, "rb") as file:
        file.seek(file_split.data_start)
        left = file_split.start - file_split.data_start
        while left > 0:
            block = file.read(min(left, BLOCK_BYTES))
            lines += block.count(b"\n")
            left -= len(block)
    # A line that continues beyond the start of this split belongs to the previous one.
    return lines if block.endswith(b"\n") else lines + 1


def position_of(file_split: FileSplit, row: int) -> str:
    return f"{file_split.name}, row {rows_before(file_split) + row + 1}"


def describe(file_split: FileSplit, invalid_value: InvalidValue) -> str:
    """Return the position of an invalid value and what is allowed."""
    position = position_of(file_split, invalid_value.row)
    if invalid_value.column == LINE:
        return f"{position}: {invalid_value.value}, where {invalid_value.allowed} is expected"
    return f"{position}: {invalid_value.value} is not valid for {invalid_value.column}; give it {invalid_value.allowed}"
