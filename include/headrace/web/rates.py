"""Rows a second, from counters that are looked at again and again. Known while somebody looks at the page."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from headrace.model.jobs import JobRecord

SAMPLES: Final = 60
# A rate is taken over this long at least, so that one batch does not make it jump.
SPAN_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows a second."""

    rows_in: float
    rows_out: float


@dataclass(slots=True)
class Sample:
    time: int
    rows_in: int
    rows_out: int


@dataclass(slots=True)
class Rates:
    """The last samples of every stream."""

    _samples: dict[str, deque[Sample]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sample(self, records: Iterable[JobRecord], now: int) -> None:
        """Remember the counters of now, and forget streams that are gone."""
        records = list(records)
        with self._lock:
            for record in records:
                counters = record.progress.counters
                samples = self._samples.setdefault(record.definition.id, deque(maxlen=SAMPLES))
                samples.append(Sample(now, counters.rows_in, counters.rows_out))
            for gone in self._samples.keys() - {record.definition.id for record in records}:
                del self._samples[gone]

    def of(self, job_id: str) -> Rate | None:
        """The rate of now; None before there are two samples."""
        samples = self._copy(job_id)
        if len(samples) < 2:
            return None
        last = samples[-1]
        first = next((each for each in reversed(samples[:-1]) if last.time - each.time >= SPAN_MS), samples[0])
        return between(first, last)

    def series(self, job_id: str) -> list[float]:
        """Rows in a second between neighbouring samples, the oldest first."""
        samples = self._copy(job_id)
        return [round(between(first, last).rows_in, 2) for first, last in pairwise(samples)]

    def _copy(self, job_id: str) -> list[Sample]:
        with self._lock:
            return list(self._samples.get(job_id, ()))


def between(first: Sample, last: Sample) -> Rate:
    """The mean rate between two samples; counters that start anew count from zero."""
    seconds = max(last.time - first.time, 1) / 1000
    return Rate(max(0, last.rows_in - first.rows_in) / seconds, max(0, last.rows_out - first.rows_out) / seconds)
