"""Interleaved measurement of run times, and of peak memory."""

from __future__ import annotations

import itertools
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
MAX_WAIT_SECONDS: Final = 120.0
DISCARDED_ROUNDS = 1
"""The first rounds warm up; tests go without."""
SAMPLES_PER_LISTING: Final = 25
"""Samples for which a list of the children is used. Listing them takes milliseconds, in which Python runs nothing else."""

Side = Callable[[], Sequence[float]]
"""Runs one round of one side, and returns its samples in seconds."""


@dataclass(frozen=True, slots=True)
class Timings:
    """One or more samples in seconds."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median of the samples."""
        return statistics.median(self.samples)

    @property
    def min(self) -> float:
        """Smallest sample."""
        return min(self.samples)

    @property
    def max(self) -> float:
        """Largest sample."""
        return max(self.samples)

    def quantile(self, share: float) -> float:
        """Return the smallest sample that at least this share of the samples does not exceed."""
        ordered = sorted(self.samples)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def time_call(work: Callable[[], object]) -> Side:
    """Return a side with one sample per round, the run time of `work`."""

    def side() -> list[float]:
        start = time.perf_counter()
        work()
        return [time.perf_counter() - start]

    return side


def interleave(sides: Mapping[str, Side], rounds: int, log: Callable[[str], None] = lambda _: None) -> dict[str, Timings]:
    """Run the sides alternately, reversing their order every other round.

    Args:
        sides: The sides by name.
        rounds: Rounds after a first one, which is discarded.
        log: Called with a line of text after each side's turn.

    Returns:
        The samples of each side.
    """
    samples: dict[str, list[float]] = {name: [] for name in sides}
    order = {name: index for index, name in enumerate(sides)}
    for number in range(1 - DISCARDED_ROUNDS, rounds + 1):
        for name in sorted(sides, key=order.__getitem__, reverse=number % 2 == 1):
            seconds = sides[name]()
            median = format_duration(statistics.median(seconds))
            log(f"{name}, round {number} of {rounds}: {median}{'' if number > 0 else ' (discarded)'}")
            samples[name] += seconds if number > 0 else []
    return {name: Timings(tuple(seconds)) for name, seconds in samples.items()}


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition.

    Raises:
        TimeoutError: It does not become true.
    """
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {MAX_WAIT_SECONDS:.0f} s for {what}")
        time.sleep(0.1)


def format_durations(*seconds: float) -> tuple[str, ...]:
    """Format durations with about three digits in the unit that fits the first; the last item is the unit."""
    unit, factor = ("s", 1.0) if seconds[0] >= 1 else ("ms", 1000.0)
    values = [value * factor for value in seconds]
    return (*(f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}" for value in values), unit)


def format_duration(seconds: float) -> str:
    """Format a duration with its unit."""
    return " ".join(format_durations(seconds))


@dataclass
class Peak:
    """Peak memory in bytes: resident, of this process and of Spark's Python workers, and used heap of the JVM with garbage."""

    python: int = 0
    heap: int = 0
    workers: int = 0

    def __str__(self) -> str:
        workers = f", workers {self.workers // MEBIBYTE} MiB" if self.workers else ""
        heap = f", JVM heap {self.heap // MEBIBYTE} MiB" if self.heap else ""
        return f"Python {self.python // MEBIBYTE} MiB{workers}{heap}"


@dataclass
class Memory:
    """Records the peak memory of each side over all rounds; without a Spark session, no heap."""

    spark: SparkSession | None = None
    peaks: dict[str, Peak] = field(default_factory=dict)

    def watch(self, name: str, side: Side) -> Side:
        """Return the side with its peak memory recorded."""

        def watched() -> Sequence[float]:
            with self._record(self.peaks.setdefault(name, Peak())):
                return side()

        return watched

    @contextmanager
    def _record(self, peak: Peak) -> Iterator[None]:
        pools = [] if self.spark is None else heap_pools(self.spark)
        for pool in pools:
            pool.resetPeakUsage()
        try:
            with sample_peak(peak):
                yield
        finally:
            peak.heap = max(peak.heap, sum(pool.getPeakUsage().getUsed() for pool in pools))


@contextmanager
def sample_peak(peak: Peak) -> Iterator[None]:
    """Record the peak resident memory of this process while the block runs."""
    done = threading.Event()
    watcher = threading.Thread(target=sample_resident_memory, args=(peak, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def sample_resident_memory(peak: Peak, done: threading.Event) -> None:
    """Sample the resident memory of this process and of its Python children until `done` is set."""
    process, children = psutil.Process(), list[psutil.Process]()
    for number in itertools.count():
        if done.wait(SAMPLE_SECONDS):
            return
        if number % SAMPLES_PER_LISTING == 0:
            children = process.children(recursive=True)
        peak.python = max(peak.python, process.memory_info().rss)
        peak.workers = max(peak.workers, sum(resident_memory(child) for child in children))


def resident_memory(process: psutil.Process) -> int:
    """Return the resident memory of a Python process; 0 for others, such as the JVM, and for those that have ended."""
    try:
        return int(process.memory_info().rss) if process.name().startswith("python") else 0
    except psutil.Error:
        return 0


def heap_pools(spark: SparkSession) -> list[Any]:
    """Return the memory pools of the JVM's heap."""
    beans = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()  # type: ignore[union-attr]
    return [bean for bean in beans if bean.getType().toString() == "Heap memory"]
