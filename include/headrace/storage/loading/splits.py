"""Files to load, split into parts that are read and converted one by one, here or by Spark's workers."""

from __future__ import annotations

import csv as python_csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from headrace.errors import DataError, NotFoundError, ProgrammingError
from headrace.storage.loading.lines import BLOCK_BYTES, LF, LineEnd, first_line, has_open_quote, line_end, nonblank_lines, read_line
from headrace.storage.values.columns import InvalidValue, InvalidValues, Values

# A worker holds one split in memory: about a million rows.
SPLIT_BYTES: Final = 32 * 2**20
SPLIT_ROWS: Final = 1_000_000
# The column of an invalid value if the whole line is invalid.
LINE: Final = "line"
ONE_LINE: Final = "one line for each row"
MAX_SHOWN_CHARACTERS: Final = 60
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


@dataclass(frozen=True, slots=True)
class FileSplit:
    """Bytes `start` to `end` of a file of lines (the lines that start there), or row groups of a Parquet file.

    `quote` encloses values of CSV; `escape` makes the next character part of a value. `line_end` is LF, maybe after a CR, or CR.
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
    line_end: LineEnd = LF

    @property
    def name(self) -> str:
        """The file's name, without its folder."""
        return Path(self.path).name

    @property
    def reader_options(self) -> dict[str, Any]:
        """How Python reads its lines: after a delimiter, blanks may precede a single quote."""
        own = {"delimiter": self.delimiter, "quotechar": self.quote, "skipinitialspace": self.quote != DOUBLE_QUOTE}
        return own if self.escape is None else {**own, "escapechar": self.escape}


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
    size, end_of_line = path.stat().st_size, line_end(path)
    tab = path.suffix.lower() == ".tsv" and delimiter == ","
    separator = "\t" if tab else delimiter
    names, begin = _header(path, separator, end_of_line) if format_name == "csv" else ((), 0)
    for start in range(begin, max(size, begin + 1), piece_bytes):
        end = min(start + piece_bytes, size)
        own = end - (start if start > begin else 0)
        yield FileSplit(number, str(path), format_name, start, end, separator, names, begin, own, line_end=end_of_line)
        number += 1


def _header(path: Path, delimiter: str, end_of_line: bytes) -> tuple[tuple[str, ...], int]:
    """Return the names in the first line of a CSV file that is not blank, and the offset of the next line."""
    line, offset = first_line(path, end_of_line)
    if not line:
        raise DataError(f"{path.name} does not begin with a line of column names", hint="check that it is a CSV file with a header")
    return tuple(name.strip() for name in next(python_csv.reader([line], delimiter=delimiter))), offset


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
    return parse_lines(file_split, read_lines(file_split), invalid_values)


def parse_lines(file_split: FileSplit, text: bytes, invalid_values: InvalidValues) -> SplitContent:
    """Return the values of lines of a split; those that cannot be read are added to `invalid_values`."""
    return _csv(file_split, text, invalid_values) if file_split.format == "csv" else _ndjson(text, invalid_values)


def read_lines(file_split: FileSplit) -> bytes:
    """Return the lines that start in a split."""
    with open(file_split.path, "rb") as file:
        start = file_split.start
        if start > file_split.data_start:
            file.seek(start - 1)
            start += len(read_line(file, file_split.line_end)) - 1
        if start >= file_split.end:
            return b""
        file.seek(start)
        text = file.read(file_split.end - start)
        return text if text.endswith(file_split.line_end) else text + read_line(file, file_split.line_end)


def _csv(file_split: FileSplit, text: bytes, invalid_values: InvalidValues) -> SplitContent:
    nothing = SplitContent({name: [] for name in file_split.names}, 0)
    if not text.strip():
        return nothing
    if file_split.quote != DOUBLE_QUOTE:
        return _quoted_csv(file_split, text, invalid_values)
    wrong: dict[int, csv.InvalidRow] = {}

    def invalid(row: csv.InvalidRow) -> str:
        wrong[row.number - 1] = row
        return "skip"

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
        _add_unreadable(file_split, text, invalid_values, str(error))
        return nothing
    spans_lines = DOUBLE_QUOTE.encode() in text and _spans_lines(table)
    if spans_lines or b"\0" in text or has_open_quote(_last_line(text), file_split.reader_options):
        _add_unreadable(file_split, text, invalid_values, "")
        return nothing
    for number, row in wrong.items():
        _add_wrong_row(file_split, number, row.text, row.actual_columns, invalid_values)
    # Rows after a skipped line would be miscounted, so their values are validated only once all lines can be read.
    return nothing if invalid_values.count else SplitContent({name: table[name] for name in table.column_names}, table.num_rows)


def _spans_lines(table: pa.Table) -> bool:
    """Return whether a value has a line end within its quotes, as if a quote is not closed: it would take the next rows along."""
    return any(pc.any(pc.match_substring_regex(values, "[\r\n]")).as_py() for values in table.columns)


def _last_line(text: bytes) -> str:
    lines = text[-BLOCK_BYTES:].splitlines()
    return lines[-1].decode(errors="replace")


def _quoted_csv(file_split: FileSplit, text: bytes, invalid_values: InvalidValues) -> SplitContent:
    """Read CSV whose values are in other quotes than Arrow reads."""
    rows: list[list[str]] = []
    try:
        lines = [line.decode("utf-8-sig") for line in nonblank_lines(text)]
    except UnicodeDecodeError as error:
        _add_unreadable(file_split, text, invalid_values, str(error))
        return SplitContent({}, 0)
    options = file_split.reader_options
    for number, line in enumerate(lines):
        row = next(python_csv.reader([line], **options))
        if len(row) != len(file_split.names) or "\0" in line or has_open_quote(line, options):
            _add_wrong_row(file_split, number, line, len(row), invalid_values)
        rows.append(row)
    if invalid_values.count:
        return SplitContent({}, 0)
    values = [[None if value in NULLS else value for value in column] for column in zip(*rows, strict=True)]
    return SplitContent(dict(zip(file_split.names, values, strict=True)), len(rows))


def _add_unreadable(file_split: FileSplit, text: bytes, invalid_values: InvalidValues, error: str) -> None:
    """Find the lines that are no CSV in UTF-8."""
    before = invalid_values.count
    for row, line in enumerate(nonblank_lines(text)):
        try:
            decoded = line.decode()
        except UnicodeDecodeError:
            invalid_values.add_text(row, LINE, repr(line[:MAX_SHOWN_CHARACTERS]), "text in UTF-8")
            continue
        if "\0" in decoded or has_open_quote(decoded, file_split.reader_options):
            _add_wrong_row(file_split, row, decoded, 0, invalid_values)
    if invalid_values.count == before:
        invalid_values.add_text(0, LINE, error.partition("\n")[0][:MAX_SHOWN_CHARACTERS], "a line of CSV")


def _add_wrong_row(file_split: FileSplit, row: int, line: str, values: int, invalid_values: InvalidValues) -> None:
    """Say what is wrong with a line."""
    shown = repr(line[:MAX_SHOWN_CHARACTERS])
    if "\0" in line:
        invalid_values.add_text(row, LINE, f"{shown} has a NUL byte", "text")
    elif has_open_quote(line, file_split.reader_options):
        invalid_values.add_text(row, LINE, f"a quote opens and does not close on its line, {shown}", ONE_LINE)
    else:
        named = "names in the first line" if file_split.quote == DOUBLE_QUOTE else "columns"
        allowed = f"one value for each of the {len(file_split.names)} {named}"
        invalid_values.add_text(row, LINE, f"{values} values", allowed)


def _ndjson(text: bytes, invalid_values: InvalidValues) -> SplitContent:
    columns: dict[str, list[object]] = {}
    rows = 0
    for row, line in enumerate(nonblank_lines(text)):
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
    end = file_split.line_end
    lines, block = 0, end
    with open(file_split.path, "rb") as file:
        file.seek(file_split.data_start)
        left = file_split.start - file_split.data_start
        while left > 0:
            block = file.read(min(left, BLOCK_BYTES))
            lines += block.count(end)
            left -= len(block)
    # A line that continues beyond the start of this split belongs to the previous one.
    return lines if block.endswith(end) else lines + 1


def position_of(file_split: FileSplit, row: int) -> str:
    return f"{file_split.name}, row {rows_before(file_split) + row + 1}"


def describe(file_split: FileSplit, invalid_value: InvalidValue) -> str:
    """Return the position of an invalid value and what is allowed."""
    position = position_of(file_split, invalid_value.row)
    if invalid_value.column == LINE:
        return f"{position}: {invalid_value.value}, where {invalid_value.allowed} is expected"
    return f"{position}: {invalid_value.value} is not valid for {invalid_value.column}; give it {invalid_value.allowed}"
