"""A limit of bytes per second."""

from __future__ import annotations

import time


class Pace:
    """Delays requests to at most a number of bytes per second."""

    def __init__(self, bytes_per_second: float) -> None:
        """Take the limit; there is none if it is not positive."""
        self._rate = bytes_per_second
        self._free_at = 0.0

    def take(self, size: int) -> None:
        """Wait until the requests before this one are within the limit."""
        if self._rate <= 0:
            return
        now = time.monotonic()
        time.sleep(max(0.0, self._free_at - now))
        self._free_at = max(self._free_at, now) + size / self._rate
