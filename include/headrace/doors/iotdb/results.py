"""Results as IoTDB's clients read them: a part at a time, as rows of the older form or as blocks of the newer one."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.pipes.iotdb.blocks import BINARIES, BYTES, INT32S, INT64S
from headrace.pipes.iotdb.columns import NUMBERS, TYPE_CODES, encode_dates, encode_texts
from headrace.pipes.iotdb.messages import Rows
from headrace.service.results import Result

TIME: Final = "Time"
LONG_INSTANTS: Final = frozenset({"__endTime"})
"""Columns that are instants here and INT64 for clients."""
DEFAULT_FETCH_ROWS: Final = 5_000
MAX_FETCH_ROWS: Final = 1_000_000
MAX_PART_BYTES: Final = 8 << 20
MAX_RESULT_BYTES: Final = 4 << 30
"""Bytes of all results that are open, of which a user has half. Large ones are in files."""
IN_BLOCKS: Final = {"STRING": "TEXT", "BLOB": "TEXT", "DATE": "INT32", "TIMESTAMP": "INT64"}
"""Types that blocks name by how their values are stored."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column that is not the time of rows: its name, IoTDB's name of its type, and its values in types that are serialized."""

    name: str
    type: str
    values: pa.ChunkedArray


class ResultReader:
    """Reads a result a part at a time. Columns of the same name are sent once."""

    def __init__(self, result: Result, strings: Collection[str] = ()) -> None:
        """Take a result, and the names of its columns that are declared as STRING."""
        table = result.table if result.table is not None else pa.table({})
        self.ignores_time = not has_time(table)
        self._times = None if self.ignores_time else milliseconds(table.column(0))
        first = 0 if self.ignores_time else 1
        self.columns = [
            with_declared(column_of(name, table.column(at + first)), strings) for at, name in enumerate(table.column_names[first:])
        ]
        self.distinct = list({column.name: column for column in reversed(self.columns)}.values())[::-1]
        self.bytes = min(table.nbytes, MAX_RESULT_BYTES)
        """What it counts as while it is open, which is never more than there is for all."""
        self.row_bytes = max(1, table.nbytes // max(1, table.num_rows))
        self._rows, self._at = table.num_rows, 0

    @property
    def has_more(self) -> bool:
        """Whether there are rows that were not read."""
        return bool(self._at < self._rows)

    @property
    def indexes(self) -> dict[str, int]:
        """The place of each column among those that are sent."""
        return {column.name: at for at, column in enumerate(self.distinct)}

    def _take(self, fetch_rows: int | None) -> tuple[int, int]:
        """Return the next rows: as many as the client asks for, but not too many bytes."""
        asked = min(fetch_rows, MAX_FETCH_ROWS) if fetch_rows and fetch_rows > 0 else DEFAULT_FETCH_ROWS
        count = min(max(1, min(asked, MAX_PART_BYTES // self.row_bytes)), self._rows - self._at)
        first = self._at
        self._at += count
        return first, count

    def rows(self, fetch_rows: int | None) -> Rows:
        """Read rows in the older form."""
        first, count = self._take(fetch_rows)
        values, bitmaps = [], []
        for column in self.distinct:
            part = column.values.slice(first, count).combine_chunks()
            values.append(serialized(part.drop_null(), column.type))
            bitmaps.append(np.packbits(part.is_valid().to_numpy(zero_copy_only=False)).tobytes())
        return Rows(time=self._time_values(first, count).tobytes(), valueList=values, bitmapList=bitmaps)

    def blocks(self, fetch_rows: int | None) -> list[bytes]:
        """Read rows as a block; no block if there are none."""
        first, count = self._take(fetch_rows)
        return [self._block(first, count)] if count else []

    def _time_values(self, first: int, count: int) -> npt.NDArray[np.generic]:
        if self._times is None:
            return np.zeros(count, ">i8")
        return np.asarray(self._times.slice(first, count).to_numpy().astype(">i8"))

    def _block(self, first: int, count: int) -> bytes:
        parts = [(column.type, column.values.slice(first, count).combine_chunks()) for column in self.distinct]
        head = struct.pack(">i", len(parts)) + bytes(TYPE_CODES[IN_BLOCKS.get(type_, type_)] for type_, _ in parts)
        encodings = bytes([INT64S, *(encoding_of(type_) for type_, _ in parts)])
        times = b"\x00" + self._time_values(first, count).tobytes()
        columns = (piece for type_, values in parts for piece in block_column(type_, values))
        return b"".join([head, struct.pack(">i", count), encodings, times, *columns])


def has_time(table: pa.Table) -> bool:
    """Return whether the first column is the time of the rows."""
    return table.column_names[:1] == [TIME] and bool(pa.types.is_timestamp(table.schema.field(0).type))


def milliseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return instants in the unit that clients expect."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    return column.cast(pa.int64())


def column_of(name: str, values: pa.ChunkedArray) -> ResultColumn:
    """Return a column with the type that clients get. What IoTDB has no type for is text."""
    type_ = values.type
    if pa.types.is_dictionary(type_):
        return column_of(name, values.cast(type_.value_type))
    if pa.types.is_timestamp(type_):
        return ResultColumn(name, "INT64" if name in LONG_INSTANTS else "TIMESTAMP", milliseconds(values))
    for test, own, stored in KINDS:
        if test(type_):
            return ResultColumn(name, own, values if values.type == stored else values.cast(stored))
    return ResultColumn(
        name,
        "TEXT",
        pa.chunked_array([pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())]),
    )


def with_declared(column: ResultColumn, strings: Collection[str]) -> ResultColumn:
    """Return a column of texts with its declared type."""
    return replace(column, type="STRING") if column.type == "TEXT" and column.name in strings else column


KINDS: Final = (
    (pa.types.is_boolean, "BOOLEAN", pa.bool_()),
    (lambda type_: pa.types.is_integer(type_) and type_.bit_width <= 32 and type_ != pa.uint32(), "INT32", pa.int32()),
    (pa.types.is_integer, "INT64", pa.int64()),
    (pa.types.is_float32, "FLOAT", pa.float32()),
    (pa.types.is_float64, "DOUBLE", pa.float64()),
    (pa.types.is_date, "DATE", pa.date32()),
    (pa.types.is_string, "TEXT", pa.string()),
    (pa.types.is_large_string, "TEXT", pa.large_string()),
    (pa.types.is_binary, "BLOB", pa.binary()),
    (pa.types.is_large_binary, "BLOB", pa.large_binary()),
)
"""IoTDB's types for Arrow's."""


def encoding_of(type_: str) -> int:
    if type_ == "BOOLEAN":
        return BYTES
    if type_ not in NUMBERS:
        return BINARIES
    return INT64S if NUMBERS[type_][0].bit_width == 64 else INT32S


def block_column(type_: str, values: pa.Array) -> Iterator[bytes]:
    """Yield a column of a block: bits of the rows that are NULL, if some are, and the others' values."""
    if values.null_count:
        yield b"\x01"
        yield np.packbits(values.is_null().to_numpy(zero_copy_only=False)).tobytes()
    else:
        yield b"\x00"
    if type_ == "BOOLEAN":
        yield np.packbits(values.fill_null(False).to_numpy(zero_copy_only=False)).tobytes()
    else:
        yield serialized(values.drop_null() if values.null_count else values, type_)


def serialized(values: pa.Array, type_: str) -> bytes:
    """Return values that are not NULL one after the other."""
    if type_ == "DATE":
        return encode_dates(values).tobytes()
    if type_ in NUMBERS:
        return bytes(values.to_numpy(zero_copy_only=False).astype(NUMBERS[type_][1]).tobytes())
    return encode_texts(values)[0]
