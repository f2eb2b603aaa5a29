"""Clocks that define `now`. Tests and replays use a manual one."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """The source of the current time."""

    def now(self) -> int:
        """Return the current time in epoch milliseconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Return the machine's time in epoch milliseconds."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when set or advanced; epoch milliseconds."""

    def __init__(self, start_ms: int = 0) -> None:
        self._now = start_ms
        self._lock = threading.Lock()

    def now(self) -> int:
        """Return the time that was last set, in epoch milliseconds."""
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
