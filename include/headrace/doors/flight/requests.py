"""The frames of HTTP/2 that a client of Flight sends: what is refused becomes zeros, with the lengths that it had."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from headrace.doors.flight.messages import Call, Memory, RefusedError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a connection of HTTP/2 begins with."""
FRAME_HEADER_BYTES: Final = 9
DATA, HEADERS, RESET = 0, 1, 3
"""Types of frames."""
END_STREAM, PADDED = 0x1, 0x8
"""Flags of frames."""
MAX_CALLS: Final = 1024
"""Calls of one connection whose requests are not complete; more take the place of some that send nothing."""
MAX_PENDING_BYTES: Final = 32 << 20
"""Bytes that wait until the metadata before them is whole."""


class NotFlightError(Exception):
    """What a client sends is not HTTP/2, or too much waits for the rest of something."""


class Requests:
    """Looks at all that a client sends on one connection."""

    def __init__(self, memory: Memory, refuse: Callable[[RefusedError], None]) -> None:
        """Create it at the beginning of a connection; `refuse` is called before what is refused is sent on."""
        self._memory, self._refuse = memory, refuse
        self._pending = bytearray()
        self._at = 0
        """Where the next frame, or the rest of one, begins in what is pending."""
        self._left, self._padding = 0, 0
        """The bytes of the frame that have not been looked at, and how many after its content are padding."""
        self._type, self._flags, self._stream = HEADERS, 0, 0
        self._reason = RefusedError(0, "the call has ended", "send rows before the end")
        """Why calls were refused of which something still comes."""
        self._has_begun = False
        self._calls: OrderedDict[int, Call] = OrderedDict()
        self._held: dict[int, list[tuple[int, int]]] = {}
        """Where in what is pending the bytes are that calls hold."""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; return those that may be sent on.

        Raises:
            NotFlightError: The connection has to end.
        """
        self._pending += data
        if self._has_begun or self._begin():
            while self._left or self._begin_frame():
                if self._left and not self._read_frame():
                    break
        ready = bytes(self._pending[: self._ready()])
        del self._pending[: len(ready)]
        self._at -= len(ready)
        self._held = {
            stream: [(start - len(ready), end - len(ready)) for start, end in spans] for stream, spans in self._held.items()
        }
        if len(self._pending) > MAX_PENDING_BYTES:
            raise NotFlightError("too many bytes wait for others")
        return ready

    def close(self) -> None:
        """Give the memory back."""
        for call in self._calls.values():
            call.close()
        self._calls.clear()

    def _ready(self) -> int:
        return min((spans[0][0] for spans in self._held.values()), default=self._at)

    def _begin(self) -> bool:
        start = bytes(self._pending[: len(PREFACE)])
        if not PREFACE.startswith(start):
            raise NotFlightError("this is not HTTP/2")
        self._has_begun = len(start) == len(PREFACE)
        self._at = len(PREFACE) if self._has_begun else 0
        return self._has_begun

    def _begin_frame(self) -> bool:
        """Read the header of the next frame; return whether it, and the length of its padding, is there."""
        header = self._pending[self._at : self._at + FRAME_HEADER_BYTES + 1]
        if len(header) < FRAME_HEADER_BYTES:
            return False
        size, self._padding, start = int.from_bytes(header[:3]), 0, FRAME_HEADER_BYTES
        kind, flags = header[3], header[4]
        if kind == DATA and flags & PADDED and size:
            if len(header) == FRAME_HEADER_BYTES:
                return False
            size, self._padding, start = size - 1, header[FRAME_HEADER_BYTES], FRAME_HEADER_BYTES + 1
            if self._padding > size:
                raise NotFlightError("a frame has more padding than bytes")
        self._type, self._flags, self._stream = kind, flags, int.from_bytes(header[5:9]) & 0x7FFFFFFF
        self._at += start
        self._left = size
        if kind == HEADERS and not flags & END_STREAM:
            self._open(self._stream)
        if not size:
            self._end_frame()
        return True

    def _open(self, stream: int) -> None:
        if len(self._calls) >= MAX_CALLS:
            # Arrow has ended calls that fail: the client need not say that it sends no more.
            ended = next((other for other, call in self._calls.items() if call.is_between_messages), None)
            if ended is None:
                raise NotFlightError("too many calls are incomplete")
            self._close(ended)
        self._calls.setdefault(stream, Call(self._memory))

    def _close(self, stream: int) -> None:
        """Forget a call: what still comes of it becomes zeros."""
        self._held.pop(stream, None)
        call = self._calls.pop(stream, None)
        if call is not None:
            call.close()

    def _read_frame(self) -> bool:
        """Read more of a frame; return whether there was more."""
        count = min(self._left, len(self._pending) - self._at)
        if not count:
            return False
        if self._type == DATA:
            content = min(count, max(self._left - self._padding, 0))
            self._read_content(self._at, self._at + content)
        self._at += count
        self._left -= count
        if not self._left:
            self._end_frame()
        return True

    def _end_frame(self) -> None:
        if self._type == RESET or (self._type in (DATA, HEADERS) and self._flags & END_STREAM):
            self._close(self._stream)

    def _read_content(self, start: int, end: int) -> None:
        """Have a call read its next bytes, and note which of them it holds."""
        call = self._calls.get(self._stream)
        if call is None:
            self._refuse(self._reason)
            self._clear(start, end)
            return
        spans = self._held.pop(self._stream, [])
        try:
            call.read(bytes(self._pending[start:end]))
        except RefusedError as error:
            self._reason = error
            self._refuse(error)
            for span in spans if error.at < 0 else ():
                self._clear(*span)
            self._clear(start + max(error.at, 0), end)
            self._close(self._stream)
            return
        held = call.held
        if held > end - start:
            self._held[self._stream] = [*spans, (start, end)]
        elif held:
            self._held[self._stream] = [(end - held, end)]

    def _clear(self, start: int, end: int) -> None:
        self._pending[start:end] = bytes(end - start)
