"""Blocks of results: columns of values as IoTDB serializes them, read into Arrow arrays."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.errors import DataError, NotSupportedError

NUMBERS: Final[dict[int, tuple[str, pa.DataType]]] = {
    1: (">i4", pa.int32()),
    2: (">i8", pa.int64()),
    3: (">f4", pa.float32()),
    4: (">f8", pa.float64()),
    8: (">i8", pa.int64()),
    9: (">i4", pa.int32()),
}
"""Layout and Arrow type of numbers, instants and dates by IoTDB's code of the type."""
BOOLEAN: Final = 0
INT64: Final = 2
BYTES, INT32S, INT64S, BINARIES, RUN_LENGTH = range(5)
"""How a column is encoded."""
MAX_VALUES: Final = 1 << 26
"""Values of a block, of rows times columns."""

Mask = npt.NDArray[np.bool_]


class BlockReader:
    """Reads one block from its first byte on."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def read(self) -> tuple[pa.Array, list[pa.Array]]:
        """Return the times of the rows, and their columns. Texts are bytes, and dates are integers such as 20240131.

        Raises:
            DataError: It is no block.
        """
        try:
            return self._read()
        except (IndexError, KeyError, ValueError, struct.error) as error:
            raise DataError(f"a block of a result cannot be read: {error}", hint="the server has to be IoTDB 1.3") from None

    def _read(self) -> tuple[pa.Array, list[pa.Array]]:
        (count,) = self._unpack(">i")
        types = list(self._take(count))
        (rows,) = self._unpack(">i")
        encodings = list(self._take(count + 1))
        # Values that are not there once for each row take memory that no bytes of the block stand for.
        if not 0 <= rows * (count + 1) <= MAX_VALUES or encodings[0] == RUN_LENGTH:
            raise ValueError(f"{rows} rows of {count} columns")
        times = self._column(encodings[0], INT64, rows)
        return times, [self._column(encoding, type_, rows) for encoding, type_ in zip(encodings[1:], types, strict=True)]

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._content):
            raise IndexError(f"it ends within {size} bytes")
        part = self._content[self._at : end]
        self._at = end
        return part

    def _unpack(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))

    def _bits(self, rows: int) -> Mask:
        packed = np.frombuffer(self._take((rows + 7) // 8), np.uint8)
        return np.unpackbits(packed, count=rows).astype(bool)

    def _column(self, encoding: int, type_: int, rows: int) -> pa.Array:
        if encoding == RUN_LENGTH:
            inner = self._column(self._take(1)[0], type_, 1)
            return inner.take(pa.array(np.zeros(rows, np.int64)))
        nulls = self._bits(rows) if self._take(1)[0] else None
        if encoding == BYTES:
            return pa.array(self._bits(rows), mask=nulls)
        size = rows if nulls is None else int(np.count_nonzero(~nulls))
        if encoding in (INT32S, INT64S):
            return spread(self._numbers(type_, size), nulls)
        if encoding == BINARIES:
            return spread(self._texts(size), nulls)
        raise NotSupportedError(
            f"a column of the result has the unknown encoding {encoding}", hint="the server has to be IoTDB 1.3"
        )

    def _numbers(self, type_: int, size: int) -> pa.Array:
        layout, arrow_type = NUMBERS[type_]
        part = self._take(size * np.dtype(layout).itemsize)
        return pa.array(np.frombuffer(part, layout).astype(arrow_type.to_pandas_dtype()), arrow_type)

    def _texts(self, size: int) -> pa.Array:
        """Read texts, where each begins at the end of the one before."""
        content, at, values = self._content, self._at, []
        for _ in range(size):
            end = at + 4 + int.from_bytes(content[at : at + 4], "big")
            if end > len(content):
                raise IndexError("it ends within a text")
            values.append(content[at + 4 : end])
            at = end
        self._at = at
        return pa.array(values, pa.binary())


def spread(values: pa.Array, nulls: Mask | None) -> pa.Array:
    """Return values at the rows that are not NULL."""
    if nulls is None:
        return values
    return values.take(pa.array(np.cumsum(~nulls) - 1, mask=nulls))
