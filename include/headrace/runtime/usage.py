"""Memory and processor time of the driver of an snode: of its Python process, the children of that, and its JVM."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psutil


class Usage:
    """What the processes of a driver use."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._before = (time.monotonic(), self._cpu_seconds())

    def memory_bytes(self) -> int:
        """Return the resident memory."""
        return round(self._sum(lambda process: process.memory_info().rss))

    def cores(self) -> float:
        """Return how many cores were busy on average since the last call."""
        started, seconds = self._before
        self._before = now, total = time.monotonic(), self._cpu_seconds()
        # A child that has ended takes its time along.
        return max(0.0, total - seconds) / max(now - started, 1e-3)

    def _cpu_seconds(self) -> float:
        return self._sum(lambda process: sum(process.cpu_times()[:2]))

    def _sum(self, measure: Callable[[psutil.Process], float]) -> float:
        total = 0.0
        for process in self._processes():
            try:
                total += measure(process)
            except psutil.Error:
                continue
        return total

    def _processes(self) -> Iterator[psutil.Process]:
        """Yield the processes; either of Python and the JVM may have started the other."""
        yield self._process
        yield from self._process.children()
        parent = self._process.parent()
        if parent is not None and parent.name() == "java":
            yield parent
