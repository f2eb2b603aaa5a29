"""The messages between a code host and the process that started it.

A message is a fixed prefix, a header in JSON, and a body, which is empty or a table as an Arrow IPC stream. Nothing is pickled: a
message may come from hostile code. This module is loaded in code hosts and imports nothing of Headrace but the public API.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Union

from headrace.udf.parameters import Parameters
from headrace.udf.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC: Final = b"HRC1"
PREFIX: Final = struct.Struct("<4sIQ")
"""The magic, then the sizes of header and body in bytes."""
MAX_HEADER_BYTES: Final = 16 << 20
DICTIONARY_BATCH, RECORD_BATCH = 2, 3
"""Kinds of messages of an Arrow IPC stream."""
OLD_COMPRESSION: Final = b"ARROW:experimental_compression"
"""By this key of its metadata, Arrow 0.17 said that a batch is compressed, and Arrow still reads that."""
PIPE_BYTES: Final = 1 << 20
"""What an unprivileged process may ask for. A larger pipe needs fewer switches between the processes."""

Header = dict[str, Any]
Rows = Union["pa.Table", "pa.Buffer"]
"""A table, or the Arrow IPC stream of one, which several messages can share."""


class ChannelError(Exception):
    """The other process cannot be talked to."""


class ChannelClosedError(ChannelError):
    """The other process has closed its end, mostly because it has ended."""


class ChannelTimeoutError(ChannelError):
    """The deadline has passed."""


class GarbageError(ChannelError):
    """What has been received is not a message."""


@dataclass(frozen=True, slots=True)
class Message:
    """A header, and a body, which is empty unless the message has a table."""

    header: Header
    body: Any = b""

    def table(self) -> pa.Table:
        """Return the table of the message, which refers to the body's memory. Raise `GarbageError` if it is none.

        All values are checked: reading an array with wrong offsets would read memory that is not its own. Nothing is expanded: a
        compressed body could become as much memory as it likes.
        """
        import pyarrow as pa

        try:
            if any(is_compressed(message.metadata.to_pybytes()) for message in pa.ipc.MessageReader.open_stream(self.body)):
                raise GarbageError("an Arrow stream that is compressed")
            with pa.ipc.open_stream(pa.py_buffer(self.body)) as reader:
                table = reader.read_all()
            table.validate(full=True)
        except (pa.ArrowException, ValueError, OSError, IndexError, struct.error) as error:
            raise GarbageError(f"not an Arrow stream: {error}") from None
        return table


@dataclass(slots=True)
class Channel:
    """A pair of pipes. Reading and writing wait until a deadline of `time.monotonic`, None for no deadline."""

    read_fd: int
    write_fd: int
    max_body_bytes: int = 1 << 62
    _is_open: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        """Make the pipes large, and let a deadline interrupt reading and writing."""
        for fd in (self.read_fd, self.write_fd):
            os.set_blocking(fd, False)
            widen_pipe(fd)

    def send(self, header: Header, table: Rows | None = None, deadline: float | None = None) -> None:
        """Send a message. Raise `ChannelClosedError` or `ChannelTimeoutError` if it cannot be delivered."""
        text = json.dumps(header).encode()
        body = memoryview(b"" if table is None else stream_of(table)).cast("B")
        # All at once: the receiver wakes up once, when it can read it all.
        self._write([memoryview(PREFIX.pack(MAGIC, len(text), body.nbytes) + text), body], deadline)

    def receive(self, deadline: float | None = None) -> Message:
        """Wait for a message. Raise a `ChannelError` if there is none by the deadline."""
        magic, header_bytes, body_bytes = PREFIX.unpack(self._read(PREFIX.size, deadline))
        if magic != MAGIC or header_bytes > MAX_HEADER_BYTES or body_bytes > self.max_body_bytes:
            raise GarbageError("not a message of this protocol, or one that is too large")
        try:
            header = json.loads(bytes(self._read(header_bytes, deadline)))
        except (ValueError, RecursionError) as error:
            raise GarbageError(f"not a header: {error}") from None
        if not isinstance(header, dict):
            raise GarbageError("the header is not an object")
        return Message(header, self._read(body_bytes, deadline) if body_bytes else b"")

    def is_readable(self, timeout_s: float) -> bool:
        """Wait for a message to begin, or for the other end to close; return False if neither happens in time."""
        return is_ready(self.read_fd, select.POLLIN, timeout_s)

    def close(self) -> None:
        """Close both pipes."""
        if self._is_open:
            self._is_open = False
            for fd in (self.read_fd, self.write_fd):
                with contextlib.suppress(OSError):
                    os.close(fd)

    def _write(self, parts: Sequence[memoryview[int]], deadline: float | None) -> None:
        rest = [part for part in parts if part]
        while rest:
            try:
                rest = without_first(rest, os.writev(self.write_fd, rest))
            except BlockingIOError:
                wait_until(self.write_fd, select.POLLOUT, deadline)
            except OSError as error:
                raise ChannelClosedError(str(error)) from None

    def _read(self, size: int, deadline: float | None) -> memoryview[int]:
        rest = data = memoryview(bytearray(size) if size < PIPE_BYTES else uninitialized(size))
        while rest:
            try:
                count = os.readv(self.read_fd, [rest])
            except BlockingIOError:
                wait_until(self.read_fd, select.POLLIN, deadline)
                continue
            except OSError as error:
                raise ChannelClosedError(str(error)) from None
            if not count:
                raise ChannelClosedError("the other end is closed")
            rest = rest[count:]
        return data


def uninitialized(size: int) -> Any:
    """Return memory for what is about to be received."""
    import numpy as np

    return np.empty(size, np.uint8)


def wait_until(fd: int, event: int, deadline: float | None) -> None:
    """Wait until a descriptor is ready or its other end closed. Raise `ChannelTimeoutError` at the deadline."""
    if not is_ready(fd, event, None if deadline is None else max(deadline - time.monotonic(), 0)):
        raise ChannelTimeoutError("no answer in time")


def is_ready(fd: int, event: int, timeout_s: float | None) -> bool:
    """Wait until a descriptor is ready or its other end closed; return False if neither happens in time."""
    poller = select.poll()
    poller.register(fd, event)
    return bool(poller.poll(None if timeout_s is None else timeout_s * 1_000))


def widen_pipe(fd: int) -> None:
    """Make a pipe as large as allowed; the system may refuse, which only costs speed."""
    import fcntl

    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def without_first(parts: Sequence[memoryview[int]], count: int) -> list[memoryview[int]]:
    """Return what remains of parts that follow each other without the first bytes."""
    rest = []
    for part in parts:
        rest.append(part[count:])
        count = max(count - len(part), 0)
    return [part for part in rest if part]


def stream_of(table: Rows) -> pa.Buffer:
    """Return a table as an Arrow IPC stream, unless it is one already."""
    import pyarrow as pa

    if isinstance(table, pa.Buffer):
        return table
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def is_compressed(metadata: bytes) -> bool:
    """Return whether a message of an Arrow IPC stream has compressed buffers. Raise `struct.error` or `IndexError` if it is none.

    See `Message.fbs` and FlatBuffers' binary format: a table begins with its distance from the offsets of its fields.
    """

    def field_of(table: int, number: int) -> int:
        """Return where a field of a table is, 0 if it has none."""
        (distance,) = struct.unpack_from("<i", metadata, table)
        (size,) = struct.unpack_from("<H", metadata, table - distance)
        (offset,) = struct.unpack_from("<H", metadata, table - distance + 4 + 2 * number) if size > 4 + 2 * number else (0,)
        return table + offset if offset else 0

    def follow(place: int) -> int:
        """Return the table to which a field refers."""
        return place + int(struct.unpack_from("<I", metadata, place)[0])

    if OLD_COMPRESSION in metadata:
        return True
    message = follow(0)
    kind, content = field_of(message, 1), follow(field_of(message, 2))
    if metadata[kind] == DICTIONARY_BATCH:
        content = follow(field_of(content, 1))
    return metadata[kind] in (DICTIONARY_BATCH, RECORD_BATCH) and field_of(content, 3) > 0


def encode_parameters(parameters: Parameters) -> Header:
    """Return the parameters of a call as a part of a header."""
    return {
        "data_types": [str(type_) for type_ in parameters.get_data_types()],
        "attributes": parameters.get_attributes(),
        "child_expressions": parameters.get_child_expressions(),
        "timestamp_precision": parameters.get_system_string("timestampPrecision"),
    }


def decode_parameters(header: Header) -> Parameters:
    """Return what `encode_parameters` has encoded."""
    types = [Type(name) for name in header["data_types"]]
    return Parameters(types, header["attributes"], header["child_expressions"], header["timestamp_precision"])
