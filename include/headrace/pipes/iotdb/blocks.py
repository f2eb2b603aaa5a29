"""Blocks of results: columns of values as IoTDB serializes them, read into Arrow arrays."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from headrace.errors import DataError, NotSupportedError
from headrace.pipes.iotdb.columns import NUMBERS, TYPE_CODES
from headrace.pipes.iotdb.content import Content, Mask

LAYOUTS: Final = {TYPE_CODES[name]: layout for name, layout in NUMBERS.items() if name != "BOOLEAN"}
"""How numbers, instants and dates are serialized, by IoTDB's code of the type."""
INT64: Final = 2
BYTES, INT32S, INT64S, BINARIES, RUN_LENGTH = range(5)
"""How a column is encoded."""
MAX_VALUES: Final = 1 << 26
"""Values of a block, of rows times columns."""


class BlockReader:
    """Reads one block from its first byte on."""

    def __init__(self, content: bytes) -> None:
        self._content = Content(content)

    def read(self) -> tuple[pa.Array, list[pa.Array]]:
        """Return the times of the rows, and their columns. Texts are bytes, and dates are integers such as 20240131.

        Raises:
            DataError: It is no block.
        """
        try:
            return self._read()
        except (KeyError, ValueError) as error:
            raise unreadable(str(error)) from None
        except DataError as error:
            raise unreadable(error.message) from None

    def _read(self) -> tuple[pa.Array, list[pa.Array]]:
        types = list(self._content.take(self._content.int32()))
        rows = self._content.int32()
        encodings = list(self._content.take(len(types) + 1))
        # Values that are not there once for each row take memory that no bytes of the block stand for.
        if not 0 <= rows * len(encodings) <= MAX_VALUES or encodings[0] == RUN_LENGTH:
            raise ValueError(f"{rows} rows of {len(types)} columns")
        times, *columns = (self._column(encoding, type_, rows) for encoding, type_ in zip(encodings, [INT64, *types], strict=True))
        return times, columns

    def _bits(self, rows: int) -> Mask:
        packed = np.frombuffer(self._content.take((rows + 7) // 8), np.uint8)
        return np.unpackbits(packed, count=rows).astype(bool)

    def _column(self, encoding: int, type_: int, rows: int) -> pa.Array:
        if encoding == RUN_LENGTH:
            return self._values(self._content.take(1)[0], type_, 1).take(pa.array(np.zeros(rows, np.int64)))
        return self._values(encoding, type_, rows)

    def _values(self, encoding: int, type_: int, rows: int) -> pa.Array:
        nulls = self._bits(rows) if self._content.flag() else None
        if encoding == BYTES:
            return pa.array(self._bits(rows), mask=nulls)
        size = rows if nulls is None else int(np.count_nonzero(~nulls))
        if encoding in (INT32S, INT64S):
            arrow_type, layout = LAYOUTS[type_]
            numbers = self._content.numbers(layout, size).astype(arrow_type.to_pandas_dtype())
            return spread(pa.array(numbers, arrow_type), nulls)
        if encoding == BINARIES:
            return spread(self._content.texts(size), nulls)
        raise NotSupportedError(
            f"a column of the result has the unknown encoding {encoding}", hint="the server has to be IoTDB 1.3"
        )


def unreadable(reason: str) -> DataError:
    return DataError(f"a block of a result cannot be read: {reason}", hint="the server has to be IoTDB 1.3")


def spread(values: pa.Array, nulls: Mask | None) -> pa.Array:
    """Return values at the rows that are not NULL."""
    if nulls is None:
        return values
    return values.take(pa.array(np.cumsum(~nulls) - 1, mask=nulls))
