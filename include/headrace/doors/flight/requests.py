"""The frames of HTTP/2 that a client of Flight sends: what is refused becomes zeros, with the lengths that it had."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator
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
        self._pending, self._at = bytearray(), 0
        """What has not been sent on, and how much of it has been looked at."""
        self._sent = 0
        """How many bytes were sent on before what is pending."""
        self._reason = RefusedError("the call has ended", "send rows before the end")
        """Why calls were refused of which something still comes."""
        self._calls: OrderedDict[int, Call] = OrderedDict()
        self._held: dict[int, list[tuple[int, int]]] = {}
        """Where in all that comes the bytes are that calls hold."""
        self._frames = self._read_frames()

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; return those that may be sent on.

        Raises:
            NotFlightError: The connection has to end.
        """
        self._pending += data
        next(self._frames)
        ready = min((spans[0][0] - self._sent for spans in self._held.values()), default=self._at)
        with memoryview(self._pending) as pending:
            sent = bytes(pending[:ready])
        del self._pending[:ready]
        self._at, self._sent = self._at - ready, self._sent + ready
        if len(self._pending) > MAX_PENDING_BYTES:
            raise NotFlightError("too many bytes wait for others")
        return sent

    def close(self) -> None:
        """Give the memory back."""
        for call in self._calls.values():
            call.close()
        self._calls.clear()

    def _read_frames(self) -> Generator[None]:
        """Look at one frame after the other; yield whenever what is pending has been looked at."""
        yield from self._read_preface()
        while True:
            header = yield from self._take(FRAME_HEADER_BYTES)
            left, kind, flags, stream = int.from_bytes(header[:3]), header[3], header[4], int.from_bytes(header[5:]) & 0x7FFFFFFF
            padding = 0
            if kind == DATA and flags & PADDED and left:
                (padding,) = yield from self._take(1)
                left -= 1
            if padding > left:
                raise NotFlightError("a frame has more padding than bytes")
            if kind == HEADERS and not flags & END_STREAM:
                self._open(stream)
            while left:
                piece = yield from self._take(1, left)
                if kind == DATA:
                    self._read_content(stream, self._at - len(piece), piece[: max(left - padding, 0)])
                left -= len(piece)
            if kind == RESET or (kind in (DATA, HEADERS) and flags & END_STREAM):
                self._close(stream)

    def _read_preface(self) -> Generator[None]:
        while not self._pending.startswith(PREFACE):
            if not PREFACE.startswith(self._pending):
                raise NotFlightError("this is not HTTP/2")
            yield
        self._at = len(PREFACE)

    def _take(self, least: int, most: int = 0) -> Generator[None, None, bytes]:
        """Return the next bytes once the least number is there; up to the most if more are."""
        while len(self._pending) - self._at < least:
            yield
        taken = bytes(self._pending[self._at : self._at + max(least, most)])
        self._at += len(taken)
        return taken

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

    def _read_content(self, stream: int, start: int, content: bytes) -> None:
        """Have a call read its next bytes, and note which of them it holds."""
        call, end = self._calls.get(stream), start + len(content)
        if call is None:
            self._refuse(self._reason)
            self._clear(start, end)
            return
        spans = self._held.pop(stream, [])
        try:
            call.read(content)
        except RefusedError as error:
            self._reason = error
            self._refuse(error)
            for first, last in spans if error.at < 0 else ():
                self._clear(first - self._sent, last - self._sent)
            self._clear(start + max(error.at, 0), end)
            self._close(stream)
            return
        if call.held > len(content):
            self._held[stream] = [*spans, (self._sent + start, self._sent + end)]
        elif call.held:
            self._held[stream] = [(self._sent + end - call.held, self._sent + end)]

    def _clear(self, start: int, end: int) -> None:
        self._pending[start:end] = bytes(end - start)
