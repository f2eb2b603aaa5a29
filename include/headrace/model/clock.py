"""Clocks: what `now` is. A manual clock lets tests and replays decide."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Epoch milliseconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved; milliseconds since the epoch."""

    def __init__(self, start_ms: int = 0) -> None:
        self._now = start_ms
        self._lock = threading.Lock()

    def now(self) -> int:
        return self._now

    def set(self, ms: int) -> None:
        """Move to an instant, which may not lie before the present one."""
        with self._lock:
            if ms < self._now:
                raise ValueError(f"a clock does not go back: {ms} is before {self._now}")
            self._now = ms

    def advance(self, ms: int) -> None:
        """Move on by so many milliseconds."""
        self.set(self._now + ms)
