"""Turns: how many micro-batches run at a time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.storage.object_store import is_object_store

SHORT_S: Final = 0.1
"""A micro-batch that has run for longer is not a short one: it mostly waits, or computes without the interpreter's lock."""
MAX_LOCAL_TURNS: Final = 4
LONG_S: Final = 1.0
"""A micro-batch that has run for longer counts no more, so that a few that catch up do not delay all others."""


class Turns:
    """Lets a number of micro-batches run at a time, `short` of them short ones, and others beside long ones. Thread-safe.

    Threads that compete for Python's global interpreter lock need more time together than one after the other.
    """

    def __init__(self, count: int, short: int) -> None:
        self._limits = ((SHORT_S, short), (LONG_S, count))
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
        ages = [now - started for started in self._started.values()]
        return max(pause_s([age for age in ages if age < limit], limit, count) for limit, count in self._limits)


def turns_at(uri: str, threads: int) -> Turns:
    """Return how many micro-batches with tables at a URI should run at a time: on an object store they mostly wait."""
    if is_object_store(uri):
        return Turns(threads, short=threads)
    return Turns(min(MAX_LOCAL_TURNS, max(2, os.cpu_count() or 1)), short=1)


def pause_s(ages: list[float], limit: float, count: int) -> float:
    """Return how long it takes at most until fewer than `count` micro-batches have run for less than `limit`."""
    return 0.0 if len(ages) < count else limit - max(ages)
