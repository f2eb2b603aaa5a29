"""Turns: how many micro-batches run at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LONG_S: Final = 1.0
"""A micro-batch that has run for longer counts no more, so that a few that catch up do not delay all others."""


class Turns:
    """Lets a number of micro-batches run at a time, and others beside those that take long. Thread-safe.

    Threads that compete for Python's global interpreter lock need more time together than one after the other.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._changed = threading.Condition()
        self._started: dict[object, float] = {}

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait for a turn, and hold it during the block."""
        turn = object()
        with self._changed:
            while (pause := self._pause_s()) > 0:
                self._changed.wait(pause)
            self._started[turn] = time.monotonic()
        try:
            yield
        finally:
            with self._changed:
                del self._started[turn]
                self._changed.notify()

    def _pause_s(self) -> float:
        """Return for how long all turns are taken at most, 0 if one is free."""
        now = time.monotonic()
        ages = [age for started in self._started.values() if (age := now - started) < LONG_S]
        return 0.0 if len(ages) < self._count else LONG_S - max(ages)
