"""What a client of Flight sends, looked at before Arrow sees it: messages of gRPC with the metadata of record batches."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Final

from headrace.code.protocol import is_compressed

PREFIX_BYTES: Final = 5
METADATA_FIELD: Final = 2
"""The field of a `FlightData` that has the metadata of a record batch."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf."""
MAX_VARINT_BYTES: Final = 10
MAX_MESSAGE_BYTES: Final = 256 << 20
MAX_METADATA_BYTES: Final = 16 << 20
"""The largest metadata of a batch; also the longest statement of a call."""
SMALL_MESSAGE_BYTES: Final = 1 << 20
"""Messages that need no reservation of memory."""

Memory = Callable[[int], AbstractContextManager[None]]
"""Holds the bytes of a message in a block; raises `RefusedError` if there are too few."""
Parts = Generator[int, bytes, None]
"""Yields how many bytes to return next, at most `MAX_METADATA_BYTES`; or, negative, how many to pass without a look."""


class RefusedError(Exception):
    """What a client sends is not for Arrow."""

    def __init__(self, message: str, hint: str) -> None:
        """Create it with what is wrong, and what to do."""
        super().__init__(message)
        self.message, self.hint = message, hint
        self.at = 0
        """Where it begins in the bytes that were read last; negative if some of it was held."""


MALFORMED: Final = ("a message is malformed", "use a client of Flight SQL")


class Call:
    """The messages of one call. Prefixes and metadata are held until they are whole."""

    def __init__(self, memory: Memory) -> None:
        """Create it before the first message."""
        self._memory = memory
        self._message: Parts | None = None
        self._wanted, self._held = PREFIX_BYTES, bytearray()

    @property
    def held(self) -> int:
        """How many of the last bytes must not be sent on before the next ones are there."""
        return len(self._held)

    @property
    def is_between_messages(self) -> bool:
        """Whether no message is incomplete."""
        return self._message is None and not self._held

    def close(self) -> None:
        """Give the memory back."""
        if self._message is not None:
            self._message.close()

    def read(self, data: bytes) -> None:
        """Read the next bytes.

        Raises:
            RefusedError: They are not for Arrow, from its position on.
        """
        at = 0
        while at < len(data):
            count = min(abs(self._wanted) - len(self._held), len(data) - at)
            if self._wanted < 0:
                self._wanted += count
            else:
                self._held += data[at : at + count]
            at += count
            if not self._wanted or len(self._held) == self._wanted:
                self._continue(at)

    def _continue(self, at: int) -> None:
        """Have what is whole looked at."""
        content = bytes(self._held)
        self._held.clear()
        try:
            if self._message is None:
                self._message = read_message(content, self._memory)
                self._wanted = next(self._message)
            else:
                self._wanted = self._message.send(content)
        except StopIteration:
            self._message, self._wanted = None, PREFIX_BYTES
        except RefusedError as error:
            # Bytes of numbers, which come one by one, are not held: of them, what follows is refused.
            error.at = at - len(content) if len(content) > 1 else at
            raise


def read_message(prefix: bytes, memory: Memory) -> Parts:
    """Look at a message after its prefix."""
    is_packed, size = struct.unpack(">BI", prefix)
    if is_packed:
        raise RefusedError("messages are compressed", "switch the compression of gRPC off")
    if size > MAX_MESSAGE_BYTES:
        raise RefusedError(f"a message has more than {MAX_MESSAGE_BYTES >> 20} MiB", "send fewer rows in a batch")
    if size > SMALL_MESSAGE_BYTES:
        with memory(size):
            yield from read_fields(size)
    else:
        yield from read_fields(size)


def read_fields(left: int) -> Parts:
    """Look at the fields of a message of a size."""
    while left:
        tag, left = yield from read_varint(left)
        kind, size = tag & 7, 0
        if tag >> 32 or kind not in (VARINT, FIXED64, BYTES, FIXED32):
            raise RefusedError(*MALFORMED)
        if kind in (VARINT, BYTES):
            size, left = yield from read_varint(left)
        size = {VARINT: 0, FIXED64: 8, FIXED32: 4}.get(kind, size)
        if size > left:
            raise RefusedError(*MALFORMED)
        left -= size
        if tag != METADATA_FIELD << 3 | BYTES:
            if size:
                yield -size
        elif size > MAX_METADATA_BYTES:
            error = f"a statement, or the metadata of a batch, has more than {MAX_METADATA_BYTES >> 20} MiB"
            raise RefusedError(error, "send less at once")
        elif size and has_compressed_buffers((yield size)):
            hint = "send them without compression, so that their size is known before they are read"
            raise RefusedError("record batches are compressed", hint)


def read_varint(left: int) -> Generator[int, bytes, tuple[int, int]]:
    """Return a number, and what is left of its message."""
    value = 0
    for index in range(min(left, MAX_VARINT_BYTES)):
        (byte,) = yield 1
        value |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            return value, left - index - 1
    raise RefusedError(*MALFORMED)


def has_compressed_buffers(metadata: bytes) -> bool:
    """Return whether this is the metadata of a batch whose buffers are compressed. What is no metadata at all, Arrow refuses."""
    try:
        return is_compressed(metadata)
    except (struct.error, IndexError):
        return False
