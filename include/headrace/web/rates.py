"""Rates in rows per second, from counters sampled while the page is open."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from headrace.model.jobs import JobRecord

MAX_SAMPLES: Final = 60
# Averaging over at least this long keeps a single micro-batch from dominating the rate.
MIN_SPAN_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows read and written per second."""

    rows_in: float
    rows_out: float


@dataclass(slots=True)
class Sample:
    """A job's counters at a time in epoch milliseconds."""

    time: int
    rows_in: int
    rows_out: int


@dataclass(slots=True)
class RateSampler:
    """Keeps the last samples of all jobs, and computes rates from them. Thread-safe."""

    _samples: dict[str, deque[Sample]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sample(self, records: Iterable[JobRecord], now: int) -> None:
        """Add a sample of each job's counters, and discard those of streams that no longer exist."""
        records = list(records)
        with self._lock:
            for record in records:
                counters = record.progress.counters
                samples = self._samples.setdefault(record.definition.id, deque(maxlen=MAX_SAMPLES))
                samples.append(Sample(now, counters.rows_in, counters.rows_out))
            for job_id in self._samples.keys() - {record.definition.id for record in records}:
                del self._samples[job_id]

    def current_rate(self, job_id: str) -> Rate | None:
        """Return a job's current rate, or None if it has fewer than two samples."""
        samples = self._copy(job_id)
        if len(samples) < 2:
            return None
        last = samples[-1]
        first = next((sample for sample in reversed(samples[:-1]) if last.time - sample.time >= MIN_SPAN_MS), samples[0])
        return mean_rate(first, last)

    def series(self, job_id: str) -> list[float]:
        """Return the rows read per second between consecutive samples, oldest first."""
        samples = self._copy(job_id)
        return [round(mean_rate(first, last).rows_in, 2) for first, last in pairwise(samples)]

    def _copy(self, job_id: str) -> list[Sample]:
        with self._lock:
            return list(self._samples.get(job_id, ()))


def mean_rate(first: Sample, last: Sample) -> Rate:
    """Return the mean rate between two samples; it is 0 for counters that were reset in between."""
    seconds = max(last.time - first.time, 1) / 1000
    return Rate(max(0, last.rows_in - first.rows_in) / seconds, max(0, last.rows_out - first.rows_out) / seconds)
