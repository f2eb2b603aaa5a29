"""Frames on connections: bytes with their length before them, within limits of size, time and memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

HEADER_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 64 << 20
"""The largest frame of a client that has logged in."""
MAX_LOGIN_FRAME_BYTES: Final = 16 << 10
"""The largest frame of one that has not."""
SMALL_FRAME_BYTES: Final = 64 << 10
"""Frames that need no reservation of memory."""
MAX_PENDING_BYTES: Final = 512 << 20
"""Bytes of larger frames that are read, handled or answered at once; further ones wait unread."""
LOGIN_TIMEOUT_S: Final = 60.0
"""How long a client may take to log in."""
FRAME_TIMEOUT_S: Final = 60.0
"""How long a frame that has begun may take, in either direction."""


class ByteBudget:
    """Lets frames wait until there is memory for them, in their order."""

    def __init__(self, size: int) -> None:
        """Start with all of it free."""
        self._free = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[None]:
        """Hold bytes while the block runs; small sizes are not counted."""
        if size <= SMALL_FRAME_BYTES:
            yield
            return
        await self._take(size)
        try:
            yield
        finally:
            self._free += size
            self._wake()

    async def _take(self, size: int) -> None:
        if size <= self._free and not self._waiting:
            self._free -= size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free += size
            self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.done():
                if size > self._free:
                    return
                self._free -= size
                turn.set_result(None)
            self._waiting.popleft()


class BrokenFrameError(Exception):
    """The connection has to be closed: it ended, was too slow, or announced a frame that is too large."""


async def read_size(reader: asyncio.StreamReader, *, is_logged_in: bool) -> int:
    """Read the size of the next frame; an idle client that has logged in may take any time.

    Raises:
        BrokenFrameError: There is none.
    """
    limit = MAX_FRAME_BYTES if is_logged_in else MAX_LOGIN_FRAME_BYTES
    try:
        async with asyncio.timeout(None if is_logged_in else LOGIN_TIMEOUT_S):
            header = await reader.readexactly(HEADER_BYTES)
    except (OSError, EOFError, TimeoutError) as error:
        raise BrokenFrameError(str(error)) from None
    size = int.from_bytes(header, "big")
    if not 0 < size <= limit:
        raise BrokenFrameError(f"a frame of {size} bytes, the limit is {limit}")
    return size


async def read_body(reader: asyncio.StreamReader, size: int) -> bytes:
    """Read the rest of a frame.

    Raises:
        BrokenFrameError: It does not come in time.
    """
    try:
        async with asyncio.timeout(FRAME_TIMEOUT_S):
            return await reader.readexactly(size)
    except (OSError, EOFError, TimeoutError) as error:
        raise BrokenFrameError(str(error)) from None


async def write_frame(writer: asyncio.StreamWriter, frame: bytes) -> None:
    """Write a frame, and return once most of it is sent.

    Raises:
        BrokenFrameError: The client does not read it in time.
    """
    try:
        async with asyncio.timeout(FRAME_TIMEOUT_S):
            writer.write(frame)
            await writer.drain()
    except (OSError, TimeoutError) as error:
        raise BrokenFrameError(str(error)) from None
