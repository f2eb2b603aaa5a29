"""The values of a measurement in the layout of a tablet: big-endian numbers, texts with their lengths, dates as decimal digits."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.errors import DataError
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.pipes.events import Measurement

TYPE_CODES: Final[dict[str, int]] = {
    "BOOLEAN": 0,
    "INT32": 1,
    "INT64": 2,
    "FLOAT": 3,
    "DOUBLE": 4,
    "TEXT": 5,
    "TIMESTAMP": 8,
    "DATE": 9,
    "BLOB": 10,
    "STRING": 11,
}
IOTDB_TYPES: Final[dict[TypeKind, str]] = {
    TypeKind.BOOL: "BOOLEAN",
    TypeKind.TINYINT: "INT32",
    TypeKind.SMALLINT: "INT32",
    TypeKind.INT: "INT32",
    TypeKind.BIGINT: "INT64",
    TypeKind.UTINYINT: "INT32",
    TypeKind.USMALLINT: "INT32",
    TypeKind.UINT: "INT64",
    TypeKind.UBIGINT: "INT64",
    TypeKind.FLOAT: "FLOAT",
    TypeKind.DOUBLE: "DOUBLE",
    TypeKind.DECIMAL: "DOUBLE",
    TypeKind.VARCHAR: "TEXT",
    TypeKind.NCHAR: "STRING",
    TypeKind.JSON: "TEXT",
    TypeKind.GEOMETRY: "TEXT",
    TypeKind.VARBINARY: "BLOB",
    TypeKind.TIMESTAMP: "TIMESTAMP",
    TypeKind.DATE: "DATE",
}
"""IoTDB's type for each type of ours: the smallest that has all of its values."""

NUMBERS: Final[dict[str, tuple[pa.DataType, str]]] = {
    "BOOLEAN": (pa.uint8(), "u1"),
    "INT32": (pa.int32(), ">i4"),
    "INT64": (pa.int64(), ">i8"),
    "FLOAT": (pa.float32(), ">f4"),
    "DOUBLE": (pa.float64(), ">f8"),
    "TIMESTAMP": (pa.int64(), ">i8"),
    "DATE": (pa.int32(), ">i4"),
}
"""How numbers, instants and dates are serialized."""
TEXTS: Final = ("TEXT", "STRING", "BLOB")
IS_PRESENT: Final = b"\x01"
"""The flag before a text that is there."""
PLAIN: Final = 0
UNCOMPRESSED: Final = 0
LENGTH_BYTES: Final = 4
NO_DATE: Final = 10_000_101
"""The first date that IoTDB has takes the place of NULL, since each value has to be a date."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """The values of a measurement.

    Attributes:
        name: The measurement.
        schema: Its name and type as tablets have it.
        values: All values.
        valid: Which values are not NULL; None if all are.
        width: Bytes of a value; 0 if they differ.
        offsets: Where each value begins, and where the last ends, if the bytes of values differ.
    """

    name: str
    schema: bytes
    values: bytes
    valid: npt.NDArray[np.bool_] | None
    width: int
    offsets: Integers | None = None

    def part(self, first: int, end: int) -> bytes:
        """Return the values of some rows."""
        if self.offsets is None:
            return self.values[first * self.width : end * self.width]
        return self.values[self.offsets[first] : self.offsets[end]]


def encode_text(text: str) -> bytes:
    """Return a text with its length."""
    encoded = text.encode()
    return struct.pack(">i", len(encoded)) + encoded


def encode_column(measurement: Measurement, values: pa.Array, precision: Precision, receiver: Precision) -> EncodedColumn:
    """Return the values of a measurement in IoTDB's layout.

    Args:
        measurement: The name and type.
        values: A value for each row.
        precision: The unit of instants.
        receiver: Their unit at the receiver.

    Raises:
        DataError: A value is out of the range of IoTDB's type.
    """
    values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    kind = IOTDB_TYPES[measurement.type.kind]
    schema = b"\x01" + encode_text(measurement.name) + bytes([TYPE_CODES[kind], PLAIN, UNCOMPRESSED]) + struct.pack(">i", 0)
    valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
    if kind in TEXTS:
        encoded, offsets = encode_texts(values, IS_PRESENT)
        return EncodedColumn(measurement.name, schema, encoded, valid, 0, offsets)
    numbers = encode_dates(values) if kind == "DATE" else encode_numbers(kind, measurement.type, values)
    if kind == "TIMESTAMP":
        numbers = to_precision(numbers, precision, receiver).astype(">i8")
    return EncodedColumn(measurement.name, schema, numbers.tobytes(), valid, numbers.dtype.itemsize)


def encode_numbers(kind: str, type_: DataType, values: pa.Array) -> npt.NDArray[np.generic]:
    """Return numbers, truth values or instants, with 0 in place of NULL."""
    stored, layout = NUMBERS[kind]
    try:
        numbers = values.cast(stored) if values.type != stored else values
    except pa.ArrowInvalid as error:
        raise DataError(f"a value of type {type_} is out of range for {kind}: {error}", hint="send it as another type") from None
    filled = numbers.fill_null(0) if numbers.null_count else numbers
    return np.asarray(filled.to_numpy(zero_copy_only=False)).astype(layout)


def encode_dates(values: pa.Array) -> npt.NDArray[np.generic]:
    """Return dates as decimal digits: year, month, day."""
    days = values.cast(pa.date32()).cast(pa.int32()).fill_null(0).to_numpy().astype("datetime64[D]")
    months, years = days.astype("datetime64[M]"), days.astype("datetime64[Y]")
    year = years.astype(np.int64) + 1970
    month = (months - years).astype(np.int64) + 1
    day = (days - months).astype(np.int64) + 1
    digits = year * 10_000 + month * 100 + day
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid, digits, NO_DATE).astype(">i4")


def encode_texts(values: pa.Array, flag: bytes = b"") -> tuple[bytes, Integers]:
    """Return texts or bytes, each with a flag and its length before it, and where each begins."""
    plain = values.cast(pa.large_binary()).fill_null(b"")
    offsets = np.frombuffer(plain.buffers()[1], np.int64, len(plain) + 1, plain.offset * 8)
    content = np.frombuffer(plain.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    head = len(flag) + LENGTH_BYTES
    starts = offsets - offsets[0] + head * np.arange(len(plain) + 1)
    encoded = np.empty(starts[-1], np.uint8)
    headers = (starts[:-1, None] + np.arange(head)).ravel()
    is_content = np.ones(len(encoded), bool)
    is_content[headers] = False
    encoded[is_content] = content
    lengths = np.diff(offsets).astype(">i4").view(np.uint8).reshape(-1, LENGTH_BYTES)
    encoded[headers] = np.hstack([np.tile(np.frombuffer(flag, np.uint8), (len(plain), 1)), lengths]).ravel()
    return encoded.tobytes(), starts


def to_precision(ticks: npt.NDArray[np.generic], precision: Precision, receiver: Precision) -> Integers:
    """Return instants in the receiver's unit, rounded down.

    Raises:
        DataError: An instant is out of the range of the receiver's unit.
    """
    numbers = ticks.astype(np.int64)
    if precision == receiver:
        return numbers
    if precision.nanoseconds < receiver.nanoseconds:
        return numbers // (receiver.nanoseconds // precision.nanoseconds)
    factor = precision.nanoseconds // receiver.nanoseconds
    limit = np.iinfo(np.int64).max // factor
    if len(numbers) and (numbers.max() > limit or numbers.min() < -limit):
        raise DataError(f"an instant is out of range for the receiver, whose times are in {receiver}")
    return numbers * factor
