"""A stream's subscription to a source: its runner, its attempts after failures, and what a poller may wait for."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import Error, TransientError
from headrace.jobs.runners import Advance, Runner
from headrace.model.jobs import JobRecord
from headrace.model.positions import Offsets, is_ahead, is_behind

MAX_ATTEMPTS: Final = 5
"""Attempts at a micro-batch, or at reading a source's version, that fail with a transient error."""

FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 5.0


@dataclass(slots=True)
class Retry:
    """Consecutive failures, and when to try again, on the monotonic clock."""

    failures: int = 0
    retry_at: float = 0.0

    def record_failure(self, error: Error) -> bool:
        """Record a failure; return False if there should be no other attempt."""
        self.failures += 1
        if not isinstance(error, TransientError) or self.failures >= MAX_ATTEMPTS:
            return False
        self.retry_at = time.monotonic() + min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** (self.failures - 1))
        return True

    def pause(self) -> None:
        """Wait for the longest pause between attempts."""
        self.retry_at = time.monotonic() + MAX_PAUSE_S

    def record_success(self) -> None:
        self.failures, self.retry_at = 0, 0.0

    def is_waiting(self) -> bool:
        return self.retry_at > time.monotonic()


@dataclass(slots=True)
class Subscription:
    """One stream on a source. `started_at` is when the micro-batch in flight started, on the monotonic clock."""

    record: JobRecord
    runner: Runner | None = None
    in_flight: Future[Advance] | None = None
    started_at: float = 0.0
    retry: Retry = field(default_factory=Retry)
    is_removed: bool = False

    def has_work(self, latest: Offsets) -> bool:
        """Return True if the next micro-batch can start: after a failure, for new commits, or for a reason of its own."""
        runner = self.runner
        if runner is None or self.retry.failures > 0 or runner.is_due():
            return True
        return is_behind(runner.offsets, latest) or is_ahead(runner.offsets, latest)  # which fails unless `latest` is outdated

    @property
    def recorded_offsets(self) -> Offsets:
        """The last version of each source that the stream has handled and recorded; none before it is live."""
        position = (self.record.progress if self.runner is None else self.runner.progress).position
        return {} if position is None else position.offsets

    @property
    def in_flight_ms(self) -> int:
        """How long the micro-batch in flight has been running; 0 if there is none."""
        return 0 if self.in_flight is None else max(1, round((time.monotonic() - self.started_at) * 1000))


@dataclass(slots=True)
class PollRound:
    """What a poll can wait for: micro-batches, the next attempt at anything else (monotonic clock), slow version reads."""

    in_flight: list[Future[Advance]] = field(default_factory=list)
    next_attempt: float | None = None
    version_reads: list[Future[Offsets]] = field(default_factory=list)

    def wait_until(self, instant: float) -> None:
        """Wait until this instant at the latest."""
        self.next_attempt = instant if self.next_attempt is None else min(self.next_attempt, instant)

    def add(self, other: PollRound) -> None:
        """Add what another poller waits for."""
        self.in_flight.extend(other.in_flight)
        self.version_reads.extend(other.version_reads)
        if other.next_attempt is not None:
            self.wait_until(other.next_attempt)
