"""Reads what IoTDB's clients and servers serialize: big-endian numbers, and texts with their lengths."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.errors import DataError

Mask = npt.NDArray[np.bool_]
INT: Final = struct.Struct(">i")


class Content:
    """Serialized content, read from its first byte on."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def is_read(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._content)

    def take(self, size: int) -> bytes:
        """Read bytes.

        Raises:
            DataError: There are not as many.
        """
        end = self._at + size
        if size < 0 or end > len(self._content):
            raise DataError(f"the message ends within a value of {size} bytes", hint="send what the client library serializes")
        part = self._content[self._at : end]
        self._at = end
        return part

    def unpack(self, layout: str) -> int:
        """Read a number."""
        (value,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return int(value)

    def rest(self) -> bytes:
        """Read all that is left."""
        return self.take(len(self._content) - self._at)

    def value(self, read: Callable[[bytes, int], tuple[Any, int]]) -> Any:
        """Read a value by a function of the content and a position, which returns the position after the value too."""
        try:
            value, self._at = read(self._content, self._at)
        except (IndexError, struct.error):
            raise DataError("the message ends within a value", hint="send what the client library serializes") from None
        return value

    def byte(self) -> int:
        """Read a signed byte."""
        return self.unpack(">b")

    def flag(self) -> bool:
        """Read a truth value."""
        return self.take(1) != b"\x00"

    def int16(self) -> int:
        """Read a short integer."""
        return self.unpack(">h")

    def int32(self) -> int:
        """Read an integer."""
        return self.unpack(">i")

    def int64(self) -> int:
        """Read a long integer."""
        return self.unpack(">q")

    def count(self) -> int:
        """Read how many things follow, each of a byte at least."""
        count = self.int32()
        if not 0 <= count <= len(self._content) - self._at:
            raise DataError(f"the request names {count} parts, which it does not have", hint="use a client library of IoTDB")
        return count

    def binary(self) -> bytes:
        """Read bytes with their length before them."""
        return self.take(self.int32())

    def text(self) -> str:
        """Read a text with its length before it."""
        return decoded(self.binary())

    def numbers(self, layout: str, rows: int) -> npt.NDArray[np.generic]:
        """Read numbers of one layout."""
        dtype = np.dtype(layout)
        return np.frombuffer(self.take(rows * dtype.itemsize), dtype)

    def bits(self, rows: int) -> Mask:
        """Read a bit for each row, the lowest of a byte first."""
        return self.unpacked(self.take(rows // 8 + 1), rows)

    @staticmethod
    def unpacked(packed: bytes, rows: int) -> Mask:
        """Return the bits of bytes."""
        return np.unpackbits(np.frombuffer(packed, np.uint8), count=rows, bitorder="little").astype(bool)

    def texts(self, rows: int, flags: int = 0) -> pa.Array:
        """Read texts, each with its length before it, and before that a byte that says whether there is one if `flags` is 1."""
        content, at, end = self._content, self._at, len(self._content)
        if rows * (1 if flags else INT.size) > end - at:
            raise DataError(f"the message ends within {rows} texts", hint="send what the client library serializes")
        size_of, starts, sizes = INT.unpack_from, [0] * rows, [0] * rows
        # Each text begins where the one before it ends, so this is one look at a length for each.
        try:
            for row in range(rows):
                if flags:
                    at += 1
                    if not content[at - 1]:
                        starts[row] = at
                        continue
                (size,) = size_of(content, at)
                starts[row] = at + 4
                sizes[row] = size
                at += 4 + size
                if size < 0 or at > end:
                    raise IndexError
        except (IndexError, struct.error):
            raise DataError("the message ends within a text", hint="send what the client library serializes") from None
        self._at = at
        return gathered(content, np.array(starts, np.int64), np.array(sizes, np.int64))


def gathered(content: bytes, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> pa.Array:
    """Return parts of content as binary values."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] >= 2**31:
        raise DataError("the texts of a column have more than 2 GiB", hint="send fewer rows at once")
    positions = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    data = np.frombuffer(content, np.uint8)[positions]
    return pa.Array.from_buffers(
        pa.binary(), len(sizes), [None, pa.py_buffer(offsets.astype(np.int32).tobytes()), pa.py_buffer(data.tobytes())]
    )


def decoded(content: bytes) -> str:
    """Return a text; raise `DataError` if it is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise DataError("a text of the request is not UTF-8", hint="send texts in UTF-8, other bytes as BLOB") from None
