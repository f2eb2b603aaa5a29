"""Clocks that define `now`. Tests and replays use a manual one."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Return the current time in epoch milliseconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that only moves when told to; milliseconds since the epoch."""

    def __init__(self, start_ms: int = 0) -> None:
        self._now = start_ms
        self._lock = threading.Lock()

    def now(self) -> int:
        return self._now

    def set(self, ms: int) -> None:
        """Move to an instant, which must not be before the current one."""
        with self._lock:
            if ms < self._now:
                raise ValueError(f"a clock does not go back: {ms} is before {self._now}")
            self._now = ms

    def advance(self, ms: int) -> None:
        """Move forward by some milliseconds."""
        self.set(self._now + ms)
