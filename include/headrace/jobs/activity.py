"""What a driver is doing for a job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobActivity:
    """What a driver is doing for one job.

    Attributes:
        in_flight_ms: How long the micro-batch in flight has been running; 0 if there is none.
        failures: Consecutive failed attempts.
        pending_since: When the oldest commit not yet handled was made, in epoch ms; None if all are handled.
    """

    in_flight_ms: int
    failures: int
    pending_since: int | None

    def lag_ms(self, now: int) -> int:
        """Return the age of the oldest commit not yet handled; `now` is in epoch ms."""
        return 0 if self.pending_since is None else max(0, now - self.pending_since)
