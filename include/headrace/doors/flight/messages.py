"""What a client of Flight sends, looked at before Arrow sees it: messages of gRPC with the metadata of record batches."""

from __future__ import annotations

import struct
from enum import Enum, auto
from typing import Final, Protocol

from headrace.code.protocol import is_compressed

MESSAGE_PREFIX_BYTES: Final = 5
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


class Part(Enum):
    """The part of a message that comes next."""

    PREFIX = auto()
    TAG = auto()
    NUMBER = auto()
    LENGTH = auto()
    METADATA = auto()
    SKIPPED = auto()


class RefusedError(Exception):
    """What a client sends is not for Arrow, from a position on."""

    def __init__(self, at: int, message: str, hint: str) -> None:
        """Create it; a negative position is among bytes that were held."""
        super().__init__(message)
        self.at, self.message, self.hint = at, message, hint


class Memory(Protocol):
    """What holds the large messages of a client."""

    def try_reserve(self, size: int) -> bool:
        """Reserve bytes; return False if there are too few."""
        ...

    def release(self, size: int) -> None:
        """Give bytes back."""
        ...


class Call:
    """The messages of one call, a part after the other. Prefixes and metadata are held until they are whole."""

    def __init__(self, memory: Memory) -> None:
        """Create it before the first message."""
        self._memory = memory
        self._part, self._buffer = Part.PREFIX, bytearray()
        self._message, self._field, self._tag = 0, 0, 0
        """The bytes of the message and of the field that are left, and the field's tag."""
        self._reserved = 0

    @property
    def held(self) -> int:
        """How many of the last bytes must not be sent on before the next ones are there."""
        return len(self._buffer) if self._part in (Part.PREFIX, Part.METADATA) else 0

    @property
    def is_between_messages(self) -> bool:
        """Whether no message is incomplete."""
        return self._part is Part.PREFIX and not self._buffer

    def close(self) -> None:
        """Give the memory back."""
        if self._reserved:
            self._memory.release(self._reserved)
        self._reserved = 0

    def read(self, data: bytes) -> None:
        """Read the next bytes.

        Raises:
            RefusedError: They are not for Arrow, from its position on.
        """
        at = 0
        while at < len(data):
            if self._part is Part.SKIPPED:
                at += self._skip(len(data) - at)
            elif self._part in (Part.PREFIX, Part.METADATA):
                wanted = MESSAGE_PREFIX_BYTES if self._part is Part.PREFIX else self._field
                piece = data[at : at + wanted - len(self._buffer)]
                self._buffer += piece
                at += len(piece)
                if len(self._buffer) == wanted:
                    self._read_content(at)
            else:
                at += 1
                self._read_varint(data[at - 1], at)

    def _read_content(self, at: int) -> None:
        """Read a prefix or metadata that is whole."""
        content = bytes(self._buffer)
        self._buffer.clear()
        if self._part is Part.PREFIX:
            self._begin_message(content, at - len(content))
        elif has_compressed_buffers(content):
            hint = "send them without compression, so that their size is known before they are read"
            raise RefusedError(at - len(content), "record batches are compressed", hint)
        else:
            self._message -= len(content)
            self._next()

    def _begin_message(self, prefix: bytes, at: int) -> None:
        is_packed, size = struct.unpack(">BI", prefix)
        if is_packed:
            raise RefusedError(at, "messages are compressed", "switch the compression of gRPC off")
        if size > MAX_MESSAGE_BYTES:
            raise RefusedError(at, f"a message has more than {MAX_MESSAGE_BYTES >> 20} MiB", "send fewer rows in a batch")
        if size > SMALL_MESSAGE_BYTES:
            if not self._memory.try_reserve(size):
                raise RefusedError(at, "too many rows are sent at the same time", "try again later")
            self._reserved = size
        self._message = size
        self._next()

    def _next(self) -> None:
        """Continue with the next field, or with the next message if this one is complete."""
        self._part = Part.TAG if self._message else Part.PREFIX
        if not self._message:
            self.close()

    def _skip(self, available: int) -> int:
        count = min(available, self._field)
        self._field -= count
        self._message -= count
        if not self._field:
            self._next()
        return count

    def _read_varint(self, byte: int, at: int) -> None:
        """Read a byte of a tag, a number, or the length of a field."""
        self._buffer.append(byte)
        self._message -= 1
        if byte & 0x80:
            if len(self._buffer) >= MAX_VARINT_BYTES or not self._message:
                raise malformed(at)
            return
        value = sum((part & 0x7F) << 7 * index for index, part in enumerate(self._buffer))
        self._buffer.clear()
        match self._part:
            case Part.NUMBER:
                self._next()
            case Part.TAG:
                self._begin_field(value, at)
            case _:
                self._begin_content(value, at)

    def _begin_field(self, tag: int, at: int) -> None:
        self._tag, kind = tag, tag & 7
        if tag >> 32 or not self._message or kind not in (VARINT, FIXED64, BYTES, FIXED32):
            raise malformed(at)
        if kind in (VARINT, BYTES):
            self._part = Part.NUMBER if kind == VARINT else Part.LENGTH
        else:
            self._begin_content(8 if kind == FIXED64 else 4, at)

    def _begin_content(self, size: int, at: int) -> None:
        if size > self._message:
            raise malformed(at)
        self._field, self._part = size, Part.SKIPPED
        if self._tag == METADATA_FIELD << 3 | BYTES and size:
            self._part = Part.METADATA
            if size > MAX_METADATA_BYTES:
                error = f"a statement, or the metadata of a batch, has more than {MAX_METADATA_BYTES >> 20} MiB"
                raise RefusedError(at, error, "send less at once")
        elif not size:
            self._next()


def malformed(at: int) -> RefusedError:
    """Return the error for what is no message of protobuf."""
    return RefusedError(at, "a message is malformed", "use a client of Flight SQL")


def has_compressed_buffers(metadata: bytes) -> bool:
    """Return whether this is the metadata of a batch whose buffers are compressed. What is no metadata at all, Arrow refuses."""
    try:
        return is_compressed(metadata)
    except (struct.error, IndexError):
        return False
