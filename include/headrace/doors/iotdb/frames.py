"""Frames on connections: bytes with their length before them, within limits of size, time and memory."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from enum import Enum, auto
from typing import Final, cast

from headrace.runtime.budget import Budget

logger = logging.getLogger(__name__)

HEADER_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 64 << 20
"""The largest frame of a client that has logged in."""
MAX_LOGIN_FRAME_BYTES: Final = 16 << 10
"""The largest frame of one that has not."""
SMALL_FRAME_BYTES: Final = 64 << 10
"""Frames that need no reservation of memory; also how many bytes of later frames are read while one is handled."""
MAX_PENDING_BYTES: Final = 512 << 20
"""Bytes of larger frames that are read, handled or answered at once; further ones wait unread."""
LOGIN_TIMEOUT_S: Final = 60.0
"""How long a client may take to log in."""
FRAME_TIMEOUT_S: Final = 60.0
"""How long a frame that has begun may take, in either direction."""


class Phase(Enum):
    """What a connection does."""

    READING = auto()
    WAITING = auto()
    """For memory, before a large frame is read."""
    HANDLING = auto()
    SENDING = auto()
    """The client reads its answer more slowly than it was written."""


class FrameProtocol(asyncio.Protocol):
    """The frames of one connection. One is handled after the other: the next once the answer to the last has been sent.

    There are no tasks, and no timers but where something is waited for: most frames are as small as the time to handle them.
    """

    def __init__(self, budget: Budget) -> None:
        """Take the memory that all connections share."""
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._size = 0
        """The size of the frame that is read or handled; 0 between frames."""
        self._reserved = 0
        self._owner = ""
        """Whose share the reservation is from."""
        self._phase = Phase.READING
        self._is_paused = False
        """Whether the client does not read as fast as answers are written."""
        self._ends = False

    @property
    @abstractmethod
    def is_logged_in(self) -> bool:
        """Whether larger frames are read, and any time may pass between them."""

    @property
    @abstractmethod
    def owner(self) -> str:
        """Whose share of memory larger frames take."""

    @abstractmethod
    def handle(self, frame: bytes) -> None:
        """Start to handle a frame, and have `answer` called in the event loop when that is done."""

    @abstractmethod
    def left(self) -> None:
        """Note that the client is gone while a frame is handled."""

    @abstractmethod
    def ended(self) -> None:
        """Note that the connection has ended, and that no frame is handled."""

    def answer(self, content: bytes, *, ends: bool = False) -> None:
        """Send the answer to the frame that is handled, and continue with the next, or end the connection."""
        if self._transport is None:
            self._finish()
            return
        self._transport.write(content)
        self._ends = ends
        if self._is_paused:
            self._phase = Phase.SENDING
            self._limit(FRAME_TIMEOUT_S)
        else:
            self._go_on()

    def abort(self, reason: str = "") -> None:
        """End the connection."""
        if self._transport is not None:
            logger.debug("closing a connection: %s", reason)
            self._transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first frame."""
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._advance()

    def data_received(self, data: bytes) -> None:
        """Read more of a frame."""
        self._received += data
        if self._phase is Phase.READING:
            self._advance()
        elif len(self._received) > SMALL_FRAME_BYTES:
            self._pause_reading()

    def pause_writing(self) -> None:
        """Note that the client has to read what was sent."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Note that it has."""
        self._is_paused = False
        if self._phase is Phase.SENDING:
            self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (the name of asyncio)
        """Forget the connection; what is handled may end."""
        self._transport = None
        self._limit(None)
        if self._phase is Phase.WAITING:
            self._budget.withdraw(self._owner, self._read_large)
        if self._phase is Phase.HANDLING:
            self.left()
        else:
            self._finish()

    def _advance(self) -> None:
        """Handle the next frame if all of it is there."""
        received = self._received
        if not self._size:
            if len(received) < HEADER_BYTES:
                self._limit(LOGIN_TIMEOUT_S if not self.is_logged_in else FRAME_TIMEOUT_S if received else None)
                return
            size = int.from_bytes(received[:HEADER_BYTES], "big", signed=True)
            limit = MAX_FRAME_BYTES if self.is_logged_in else MAX_LOGIN_FRAME_BYTES
            if not 0 < size <= limit:
                self.abort(f"a frame of {size} bytes, the limit is {limit}")
                return
            self._size = size
            if size > SMALL_FRAME_BYTES:
                self._reserve()
                return
        self._read()

    def _reserve(self) -> None:
        """Read a large frame once there is memory for it."""
        self._phase = Phase.WAITING
        self._limit(None)
        self._pause_reading()
        self._owner = self.owner
        self._budget.reserve(self._owner, self._size, self._read_large)

    def _read_large(self) -> None:
        self._phase = Phase.READING
        self._reserved = self._size
        self._resume_reading()
        self._read()

    def _read(self) -> None:
        """Handle the frame, or wait for the rest of it."""
        end = HEADER_BYTES + self._size
        if len(self._received) < end:
            if self._timer is None:
                self._limit(FRAME_TIMEOUT_S)
            return
        self._limit(None)
        frame = bytes(memoryview(self._received)[HEADER_BYTES:end])
        del self._received[:end]
        self._phase = Phase.HANDLING
        self.handle(frame)

    def _go_on(self) -> None:
        """Read the next frame after one was answered."""
        self._limit(None)
        self._phase, self._size = Phase.READING, 0
        self._give_back()
        if self._ends:
            self.abort("it was killed, or sent what is no call")
            return
        self._resume_reading()
        self._advance()

    def _finish(self) -> None:
        self._give_back()
        self.ended()

    def _give_back(self) -> None:
        if self._reserved:
            size, self._reserved = self._reserved, 0
            self._budget.release(self._owner, size)

    def _limit(self, seconds: float | None) -> None:
        """End the connection after some time, instead of the limit until now; None for no limit."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop.call_later(seconds, self.abort, "it was too slow")

    def _pause_reading(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_reading() and not self._transport.is_closing():
            self._transport.resume_reading()
