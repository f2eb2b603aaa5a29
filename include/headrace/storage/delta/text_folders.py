"""Folders in which files of lines land, as sources of mirrors: each is converted to a Parquet file beside the log.

Lines and values that cannot be read are left out, and the file says how many. Rows stay when their file is gone, and a file that
is written again replaces its rows.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.fs as pafs
import pyarrow.json
import pyarrow.parquet as pq

from headrace import durable
from headrace.errors import DataError
from headrace.model.external_tables import External, ExternalFormat
from headrace.model.tables import Column, Table
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.storage.delta.external_rows import NANOSECONDS, file_schema
from headrace.storage.delta.log_entries import is_local
from headrace.storage.delta.mirrors import SourceChange, SourceFile
from headrace.storage.delta.parquet_folders import column_ranges, list_files, newest_file, partition_values
from headrace.storage.loading.lines import BLOCK_BYTES, LF, first_line, line_end, nonblank_lines
from headrace.storage.loading.splits import NULLS, FileSplit, SplitContent, describe, parse_lines, read_lines, split_files
from headrace.storage.object_store import file_system
from headrace.storage.types import arrow_type
from headrace.storage.types import field as stored_field
from headrace.storage.values.columns import MAX_EXAMPLES, InvalidValue, InvalidValues, Values, to_array, to_stored_column
from headrace.storage.values.scalars import TimeContext

COMPRESSED: Final = ("", ".gz", ".zst")
SUFFIXES: Final = {
    ExternalFormat.CSV: tuple(f"{suffix}{end}" for suffix in (".csv", ".tsv") for end in COMPRESSED),
    ExternalFormat.NDJSON: tuple(f"{suffix}{end}" for suffix in (".ndjson", ".jsonl", ".json") for end in COMPRESSED),
}
CONVERTED: Final = "converted"
"""The folder of the converted files, below that of the log."""
DETAILS: Final = b"headrace.file"
"""Metadata of a converted file: its `Details`."""
DELIMITERS: Final = ",;\t|"
SAMPLE_BYTES: Final = BLOCK_BYTES
"""What columns and their types are read from."""
QUIET_S: Final = 2.0
"""A local file that was changed later than so long ago may be being written."""
MAX_LOOKS: Final = 3
"""How often lines that cannot be read are left out of a split, before all others are."""
MAX_FILES: Final = 100
"""Files of a version, so that a conversion that is interrupted continues behind them."""
MAX_TEXT_BYTES: Final = 16 << 30
"""Bytes of a file that is not compressed any more: a small one can expand to any size."""
WHOLE: Final = DataType(TypeKind.BIGINT)
Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Details:
    """What has become of a file.

    Attributes:
        uri: The file.
        bytes: Its size.
        modified_ms: When it was changed, in epoch ms.
        rejected: Rows that were left out.
        reasons: The first of them, and why.
        failed: Whether it could not be read at all.
    """

    uri: str
    bytes: int
    modified_ms: int
    rejected: int = 0
    reasons: list[str] = field(default_factory=list)
    failed: bool = False

    @classmethod
    def of(cls, metadata: pq.FileMetaData) -> Details:
        """Return what a converted file says."""
        return cls(**json.loads(metadata.metadata[DETAILS]))

    def reject(self, split: FileSplit, values: Sequence[InvalidValue], count: int) -> None:
        """Count rows of a split that are left out."""
        self.rejected += count
        self.reasons += [describe(split, value) for value in values[: MAX_EXAMPLES - len(self.reasons)]]


class InvalidLines(InvalidValues):
    """Invalid values that know all of their rows."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        super().__init__()
        self.lines: set[int] = set()

    def add_text(self, row: int, column: str, value: str, allowed: str) -> None:
        super().add_text(row, column, value, allowed)
        self.lines.add(row)


@dataclass(frozen=True, slots=True)
class TextFolder:
    """The files of lines of a folder and those below it, for the log at a URI."""

    uri: str
    table: Table
    external: External

    def changes(self, known: Callable[[], set[str]], mark: str) -> Iterator[SourceChange]:  # noqa: ARG002
        """Convert files that have landed or were written again, the oldest first."""
        location = self.external.location
        listed = list_files(location, SUFFIXES[self.external.format])
        latest = time.time_ns() - int(QUIET_S * 1e9) if is_local(location) else None
        before = known()
        earlier = {file_key(path): path for path in before}
        new = sorted(
            (info.mtime_ns or 0, uri)
            for uri, info in listed.items()
            if converted_path(uri, info) not in before and (latest is None or (info.mtime_ns or 0) <= latest)
        )
        for start in range(0, len(new), MAX_FILES):
            part = [uri for _, uri in new[start : start + MAX_FILES]]
            files = [file for file in (self._convert(uri, listed[uri]) for uri in part) if file is not None]
            yield SourceChange(files, [earlier[key] for key in map(file_key, (file.uri for file in files)) if key in earlier])

    def _convert(self, uri: str, info: pafs.FileInfo) -> SourceFile | None:
        """Convert a file, and return what the log says of the new one; None if it is gone."""
        path = converted_path(uri, info)
        target = Path(file_system(self.uri)[1], path)
        details = Details(uri, info.size or 0, (info.mtime_ns or 0) // 1_000_000)
        try:
            durable.make_folder(target.parent)
            durable.write(target, lambda file: self._write(info, file, details))
        except FileNotFoundError:
            return None
        metadata = pq.read_metadata(target)
        statistics: dict[str, Any] = {"numRecords": metadata.num_rows, **column_ranges(metadata)}
        return SourceFile(path, target.stat().st_size, details.modified_ms, {}, statistics)

    def _write(self, info: pafs.FileInfo, file: IO[bytes], details: Details) -> None:
        """Write the rows of a file; none if it cannot be read."""
        schema = file_schema(log_schema(self.table, self.external))
        constants = partition_values(self.external.location, details.uri)
        with pq.ParquetWriter(file, schema.remove_metadata(), compression="zstd") as writer:
            try:
                with local_text(self.external.location, info) as text:
                    for split in text_splits(text, self.external.format):
                        writer.write_table(self._rows(split, constants, details).cast(writer.schema))
            except DataError as error:
                details.failed, details.reasons = True, [error.message]
            writer.add_key_value_metadata({DETAILS.decode(): json.dumps(asdict(details))})

    def _rows(self, split: FileSplit, constants: Mapping[str, str | None], details: Details) -> pa.Table:
        """Return the rows of a split that can be read."""
        content, numbers = valid_lines(split, details)
        invalid, is_bad = InvalidValues(), np.zeros(content.rows, np.bool_)
        context = TimeContext(details.modified_ms, self.external.timezone, self.external.precision)
        stored = []
        for column, path in zip(converted_columns(self.table, self.external), self.external.sources, strict=True):
            name, is_time = name_in(content.columns, path[0]), column.name == self.table.timestamp.name
            if name is None and is_time and split.names and path[0] not in constants:
                raise DataError(f"{split.name} has no column {path[0]}", hint="it has to have the time of each row")
            values: Values = [constants.get(path[0])] * content.rows if name is None else content.columns[name]
            values = parts_of(values, path[1:])
            stored.append(to_stored_column(values, column, context, invalid, is_key=is_time, is_time=False))
            is_bad |= lost_values(values, stored[-1])
        is_bad |= np.asarray(pc.is_null(stored[0]))
        details.reject(split, [replace(value, row=numbers[value.row]) for value in invalid.first()], int(is_bad.sum()))
        rows = pa.Table.from_arrays(stored, schema=converted_schema(self.table, self.external))
        return rows.filter(pa.array(~is_bad))


def valid_lines(split: FileSplit, details: Details) -> tuple[SplitContent, Sequence[int]]:
    """Return the lines of a split that can be read, and their numbers among the rows of the split."""
    text, invalid = read_lines(split), InvalidLines()
    content = parse_lines(split, text, invalid)
    if not invalid.count:
        return content, range(content.rows)
    lines = list(nonblank_lines(text))
    numbers: Sequence[int] = range(len(lines))
    for _ in range(MAX_LOOKS):
        details.reject(split, [replace(value, row=numbers[value.row]) for value in invalid.first()], len(invalid.lines))
        numbers = [number for row, number in enumerate(numbers) if row not in invalid.lines]
        invalid = InvalidLines()
        content = parse_lines(split, b"".join(lines[number] + split.line_end for number in numbers), invalid)
        if not invalid.count:
            return content, numbers
    details.reject(split, [replace(value, row=numbers[value.row]) for value in invalid.first()], len(numbers))
    return SplitContent({}, 0), ()


def name_in(columns: Mapping[str, Values], name: str) -> str | None:
    """Return the name that a file has for a column, if it has it. Case does not matter if that is the only difference."""
    if name in columns:
        return name
    return next((one for one in columns if one.strip().lower() == name.lower()), None)


def lost_values(values: Values, stored: pa.Array) -> Bools:
    """Return a mask of the values that are none any more."""
    source = to_array(values)
    was_null = pa.array([value is None for value in source]) if isinstance(source, list) else pc.is_null(source)
    return np.asarray(pc.and_not(pc.is_null(stored), was_null)).astype(np.bool_)


def parts_of(values: Values, path: Sequence[str]) -> Values:
    """Return what a path leads to in nested values."""
    if not path:
        return values
    parts: list[Any] = list(values)
    for name in path:
        parts = [value.get(name) if isinstance(value, dict) else None for value in parts]
    return parts


def converted_columns(table: Table, external: External) -> list[Column]:
    """Return the columns of converted files: those of the table, and its tags. A time with a unit is a whole number."""
    columns = [*table.columns, *table.tags]
    return [replace(columns[0], type=WHOLE), *columns[1:]] if external.unit else columns


def converted_schema(table: Table, external: External) -> pa.Schema:
    """Return the columns of converted files as values are converted to them."""
    columns = converted_columns(table, external)
    return pa.schema([pa.field(column.name, arrow_type(column.type, external.precision)) for column in columns])


def log_schema(table: Table, external: External) -> pa.Schema:
    """Return the columns of converted files as the log has them."""
    is_long = external.precision is Precision.NANOSECOND
    return pa.schema(
        pa.field(column.name, pa.int64(), metadata={NANOSECONDS: b"UTC"})
        if is_long and column.type.kind is TypeKind.TIMESTAMP
        else stored_field(column, external.precision)
        for column in converted_columns(table, external)
    )


def file_key(path: str) -> str:
    """Return what is equal for all conversions of one file."""
    return PurePosixPath(path).name.partition("-")[0]


def converted_path(uri: str, info: pafs.FileInfo) -> str:
    """Return the path of the converted file below the log, by the place, size and time of the file."""
    key = hashlib.sha256(uri.encode()).hexdigest()[:32]
    version = hashlib.sha256(f"{info.size} {info.mtime_ns}".encode()).hexdigest()[:16]
    return f"{CONVERTED}/{key}-{version}.parquet"


def text_splits(path: Path, format: ExternalFormat) -> list[FileSplit]:
    """Return the splits of a file of lines; raise `DataError` if it is no text."""
    delimiter = delimiter_of(path) if format is ExternalFormat.CSV else ","
    return split_files([path], format.lower(), delimiter)


def delimiter_of(path: Path) -> str:
    """Return what separates the names in the first line of a CSV file: the most frequent of the usual ones."""
    header, _ = first_line(path, line_end(path))
    return max(DELIMITERS, key=header.count)


@contextmanager
def local_text(location: str, info: pafs.FileInfo) -> Iterator[Path]:
    """Provide a file of lines as one of the local disk that is not compressed.

    Raises:
        DataError: It cannot be decompressed, or is too large.
        FileNotFoundError: It is gone.
    """
    if is_local(location) and not info.path.endswith(COMPRESSED[1:]):
        yield Path(info.path)
        return
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        copy = Path(folder, plain_name(info.path))
        with open_text(location, info) as source, copy.open("wb") as target, reading(copy.name):
            while block := source.read(BLOCK_BYTES):
                target.write(block)
                if target.tell() > MAX_TEXT_BYTES:
                    raise DataError(f"{copy.name} has more than {MAX_TEXT_BYTES >> 30} GiB", hint="divide it")
        yield copy


def open_text(location: str, info: pafs.FileInfo) -> pa.NativeFile:
    """Open a file to read, which Arrow decompresses by its name."""
    return file_system(location)[0].open_input_stream(info.path)


def plain_name(path: str) -> str:
    """Return the name of a file without what says how it is compressed."""
    name = PurePosixPath(path)
    return name.stem if name.suffix in COMPRESSED[1:] else name.name


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Raise `DataError` if a file is not what its name says."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{name} cannot be read: {error}", hint="write the file again") from error


def read_schema(location: str, format: ExternalFormat) -> pa.Schema:
    """Return the columns of the first lines of the newest file, with types for which these are right, and those of its folders.

    Raises:
        DataError: They are no lines of this format.
        NotFoundError: There is no file.
    """
    uri, info = newest_file(location, SUFFIXES[format], format)
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        sample = Path(folder, plain_name(info.path))
        with reading(sample.name):
            with open_text(location, info) as source:
                head = source.read(SAMPLE_BYTES)
            sample.write_bytes(head)
            end = line_end(sample)  # names what is no text
            if len(head) == SAMPLE_BYTES:
                sample.write_bytes(head[: head.rfind(end) + 1])
            schema = sample_schema(sample, format)
    partitions = partition_values(location, uri)
    fields = [pa.field(one.name.strip(), sampled_type(one.type)) for one in schema if one.name not in partitions]
    return pa.schema([*fields, *(pa.field(name, pa.string()) for name in partitions)])


def sample_schema(sample: Path, format: ExternalFormat) -> pa.Schema:
    if format is ExternalFormat.NDJSON:
        objects = [line for line in nonblank_lines(sample.read_bytes()) if line.lstrip().startswith(b"{")]
        return pyarrow.json.read_json(pa.BufferReader(LF.join(objects))).schema
    parse = csv.ParseOptions(delimiter=delimiter_of(sample), invalid_row_handler=lambda row: "skip")  # noqa: ARG005
    convert = csv.ConvertOptions(null_values=NULLS, strings_can_be_null=True, quoted_strings_can_be_null=False)
    return csv.read_csv(sample, parse_options=parse, convert_options=convert).schema


def sampled_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of a column as Delta Lake has it; text if there is none."""
    if pa.types.is_null(type_) or pa.types.is_time(type_):
        return pa.string()
    return pa.timestamp("us", type_.tz) if pa.types.is_timestamp(type_) else type_
