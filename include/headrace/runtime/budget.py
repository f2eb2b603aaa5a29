"""Shares of what a server has, such as memory for requests or threads: no user takes all of it."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager


class Budget:
    """Divides a size among owners. Thread-safe.

    An owner has a share at most, or one reservation of any size. Those that wait are served in turns: one of each owner.
    """

    def __init__(self, size: int, share: int) -> None:
        """Start with all of `size` free; `share` is what one owner may have of it."""
        self._free, self._share = size, share
        self._held: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[tuple[int, Callable[[], None]]]] = OrderedDict()
        self._lock = threading.Lock()

    def try_reserve(self, owner: str, size: int) -> bool:
        """Reserve something for an owner, unless others wait for it or there is too little."""
        with self._lock:
            return self._try_reserve(owner, size)

    def reserve(self, owner: str, size: int, granted: Callable[[], None]) -> None:
        """Reserve something, and call `granted` once it is there: at once, or later in the thread that releases it."""
        with self._lock:
            is_granted = self._try_reserve(owner, size)
            if not is_granted:
                self._waiting.setdefault(owner, deque()).append((size, granted))
        if is_granted:
            granted()

    def withdraw(self, owner: str, granted: Callable[[], None]) -> bool:
        """Forget a reservation that waits; return False if it does not wait."""
        with self._lock:
            waiting = self._waiting.get(owner, deque())
            rest = deque(one for one in waiting if one[1] != granted)
            self._keep(owner, rest)
            ready = self._ready()
        call(ready)
        return len(rest) < len(waiting)

    def release(self, owner: str, size: int) -> None:
        """Give something back, to those that wait for it."""
        with self._lock:
            self._free += size
            self._held[owner] = self._held.get(owner, 0) - size
            if not self._held[owner]:
                del self._held[owner]
            ready = self._ready()
        call(ready)

    @contextmanager
    def at_once(self, owner: str, size: int, error: Exception) -> Iterator[None]:
        """Hold something in the block; raise an error unless it is there at once."""
        if not self.try_reserve(owner, size):
            raise error
        try:
            yield
        finally:
            self.release(owner, size)

    @asynccontextmanager
    async def held(self, owner: str, size: int) -> AsyncIterator[None]:
        """Hold something in the block, which begins once it is there."""
        if not self.try_reserve(owner, size):
            await self._turn(owner, size)
        try:
            yield
        finally:
            self.release(owner, size)

    async def _turn(self, owner: str, size: int) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()

        def granted() -> None:
            loop.call_soon_threadsafe(lambda: None if turn.done() else turn.set_result(None))

        self.reserve(owner, size, granted)
        try:
            await turn
        except asyncio.CancelledError:
            if not self.withdraw(owner, granted):
                self.release(owner, size)
            raise

    def _try_reserve(self, owner: str, size: int) -> bool:
        is_free = size <= self._free and not self._waiting.get(owner) and self._is_within_share(owner, size)
        # An owner at its share waits for itself: it keeps no other from what is free.
        is_free = is_free and not any(self._is_within_share(other, waiting[0][0]) for other, waiting in self._waiting.items())
        if is_free:
            self._hold(owner, size)
        return is_free

    def _is_within_share(self, owner: str, size: int) -> bool:
        held = self._held.get(owner, 0)
        return not held or held + size <= self._share

    def _hold(self, owner: str, size: int) -> None:
        self._free -= size
        self._held[owner] = self._held.get(owner, 0) + size

    def _ready(self) -> list[Callable[[], None]]:
        """Reserve for those whose turn it is, and return what they wait for."""
        ready: list[Callable[[], None]] = []
        while True:
            owner = next((one for one, waiting in self._waiting.items() if self._is_within_share(one, waiting[0][0])), None)
            if owner is None or self._waiting[owner][0][0] > self._free:
                return ready
            size, granted = self._waiting[owner].popleft()
            self._hold(owner, size)
            self._keep(owner, self._waiting.pop(owner))
            ready.append(granted)

    def _keep(self, owner: str, waiting: deque[tuple[int, Callable[[], None]]]) -> None:
        """Keep what waits of an owner, as the last in turn if it was taken out."""
        if waiting:
            self._waiting[owner] = waiting
        else:
            self._waiting.pop(owner, None)


def call(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        function()
