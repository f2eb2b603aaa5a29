"""Samples of time, taken so that two sides see the same machine; peaks of memory."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psutil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEBIBYTE: Final = 1 << 20
SAMPLE_SECONDS: Final = 0.02

Side = Callable[[], Sequence[float]]
"""One round of one side: the seconds of each sample taken in it."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Samples of one thing, in seconds; at least one."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def least(self) -> float:
        return min(self.samples)

    @property
    def most(self) -> float:
        return max(self.samples)

    def quantile(self, share: float) -> float:
        """The least sample that is not exceeded by that share of all."""
        ordered = sorted(self.samples)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def timed(work: Callable[[], object]) -> Side:
    """A side whose rounds take one sample each: how long `work` runs."""

    def side() -> list[float]:
        began = time.perf_counter()
        work()
        return [time.perf_counter() - began]

    return side


def interleave(sides: Mapping[str, Side], rounds: int, seen: Callable[[str], None] = lambda _: None) -> dict[str, Timings]:
    """Run the sides by turns, `rounds` times after a first round that is dropped; every other round goes backwards.

    `seen` is told how each turn went, in words.
    """
    samples: dict[str, list[float]] = {name: [] for name in sides}
    order = {name: place for place, name in enumerate(sides)}
    for number in range(rounds + 1):
        for name in sorted(sides, key=order.__getitem__, reverse=number % 2 == 1):
            taken = sides[name]()
            seen(f"{name}, round {number} of {rounds}: {duration(statistics.median(taken))}{'' if number else ' (dropped)'}")
            samples[name] += taken if number else []
    return {name: Timings(tuple(taken)) for name, taken in samples.items()}


def shown(*seconds: float) -> tuple[str, ...]:
    """Durations with three digits or so, all in the unit that suits the first."""
    unit, factor = ("s", 1.0) if seconds[0] >= 1 else ("ms", 1000.0)
    values = [each * factor for each in seconds]
    return (*(f"{each:.{2 if each < 10 else 1 if each < 100 else 0}f}" for each in values), unit)


def duration(seconds: float) -> str:
    """One duration with its unit."""
    return " ".join(shown(seconds))


@dataclass
class Peak:
    """The most memory seen, in bytes: resident in this process, and heap in use in Spark's JVM, garbage included."""

    python: int = 0
    heap: int = 0

    def __str__(self) -> str:
        return f"Python {self.python // MEBIBYTE} MiB, JVM heap {self.heap // MEBIBYTE} MiB"


@dataclass
class Memory:
    """Peaks of several sides over all of their rounds."""

    spark: SparkSession
    peaks: dict[str, Peak] = field(default_factory=dict)

    def watch(self, name: str, side: Side) -> Side:
        """The same side, its peak noted."""

        def watched() -> Sequence[float]:
            with self._noted(self.peaks.setdefault(name, Peak())):
                return side()

        return watched

    @contextmanager
    def _noted(self, peak: Peak) -> Iterator[None]:
        over = threading.Event()
        watcher = threading.Thread(target=note_resident, args=(peak, over), daemon=True)
        pools = heap_pools(self.spark)
        for pool in pools:
            pool.resetPeakUsage()
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            peak.heap = max(peak.heap, sum(pool.getPeakUsage().getUsed() for pool in pools))


def note_resident(peak: Peak, over: threading.Event) -> None:
    """Look at this process's resident memory until it is over."""
    process = psutil.Process()
    while not over.wait(SAMPLE_SECONDS):
        peak.python = max(peak.python, process.memory_info().rss)


def heap_pools(spark: SparkSession) -> list[Any]:
    """The parts of the JVM's heap."""
    beans = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()  # type: ignore[union-attr]
    return [bean for bean in beans if bean.getType().toString() == "Heap memory"]
