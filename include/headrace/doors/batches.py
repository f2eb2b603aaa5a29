"""Small writes of many clients, handled together: those that arrive while others are handled wait, and are the next batch.

A thread for each write, and its waits, would take longer than the few rows that devices in the field send at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Batches(Generic[Item, Outcome]):
    """Handles items in batches, one at a time: two would mostly wait for each other's use of the interpreter.

    A batch starts once as many items wait as were handled last or waited then, or after a delay. Most clients send the next one as
    soon as they are answered; a batch without theirs would cost as much and do half. Used in one event loop.
    """

    def __init__(
        self,
        executor: Executor,
        handle: Callable[[Sequence[Item]], Sequence[Outcome]],
        size_of: Callable[[Item], int],
        *,
        delay_s: float,
        max_bytes: int,
    ) -> None:
        """Create it.

        Args:
            executor: The threads in which `handle` runs.
            handle: Handles items, and returns the outcome of each in their order. It must not raise.
            size_of: Returns the bytes of an item.
            delay_s: How long a batch waits for further items; 0 handles each item alone.
            max_bytes: The most bytes of a batch, unless it has a single item.
        """
        self._executor, self._handle, self._size_of = executor, handle, size_of
        self._delay_s, self._max_bytes = delay_s, max_bytes if delay_s else 0
        self._waiting: deque[tuple[Item, Callable[[Outcome], None]]] = deque()
        self._is_running = False
        self._timer: asyncio.TimerHandle | None = None
        self._expected: int | None = None

    @property
    def waiting(self) -> int:
        """The number of items that wait for the batches before theirs."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do, and nothing that is expected."""
        return not self._is_running and self._timer is None

    def submit(self, item: Item, reply: Callable[[Outcome], None]) -> None:
        """Handle an item with others, and call `reply` with its outcome."""
        self._waiting.append((item, reply))
        if self._is_running:
            return
        if self._timer is None:
            self._gather(None)
        elif self._expected is not None and len(self._waiting) >= self._expected:
            self._start()

    def _gather(self, expected: int | None) -> None:
        """Start a batch once as many items wait as are expected, or after the delay. None if any number may come."""
        self._expected = expected
        is_complete = expected is not None and len(self._waiting) >= expected
        if is_complete or not self._delay_s:
            self._start()
        else:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._start)

    def _start(self) -> None:
        """Handle what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = self._take()
        self._is_running = bool(batch)
        if batch:
            items = [item for item, _ in batch]
            running = asyncio.get_running_loop().run_in_executor(self._executor, self._handle, items)
            running.add_done_callback(partial(self._finish, [reply for _, reply in batch]))

    def _finish(self, replies: Sequence[Callable[[Outcome], None]], done: asyncio.Future[Sequence[Outcome]]) -> None:
        if done.cancelled():
            return
        try:
            for reply, outcome in zip(replies, done.result(), strict=True):
                send(reply, outcome)
        finally:
            self._is_running = False
            self._gather(len(replies) + len(self._waiting))

    def _take(self) -> list[tuple[Item, Callable[[Outcome], None]]]:
        """Take the items of a batch from those that wait."""
        batch: list[tuple[Item, Callable[[Outcome], None]]] = []
        size = 0
        while self._waiting and (not batch or size + self._size_of(self._waiting[0][0]) <= self._max_bytes):
            size += self._size_of(self._waiting[0][0])
            batch.append(self._waiting.popleft())
        return batch


def send(reply: Callable[[Outcome], None], outcome: Outcome) -> None:
    """Call `reply`; an error is logged, so that others get their outcomes."""
    try:
        reply(outcome)
    except Exception:
        logger.exception("unexpected error in an answer")
