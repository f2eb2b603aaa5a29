"""Clocks that define `now`. Tests and replays use a manual one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

MAX_STEP_MS: Final = 60_000
"""By so much a clock may differ from another one, or from itself before it was set, without anybody taking note."""
TRUSTED_AFTER_MS: Final = 600_000
"""A clock that stays ahead for this long is right: the machine was suspended, or its clock was behind before."""


def is_set_back(before: int | None, now: int) -> bool:
    """Return whether a clock shows so much less than before that it was set back."""
    return before is not None and before > now + MAX_STEP_MS


class Clock(Protocol):
    """The source of the current time."""

    def now(self) -> int:
        """Return the current time in epoch milliseconds."""
        ...


def uptime_ns() -> int:
    """Return the time since the machine was started, also while it was suspended where that is known."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SystemClock:
    """The machine's clock, except that a sudden step far ahead is not believed at first.

    What is computed for an instant before it has come is wrong for good, so time continues from before the step until the clock
    has been ahead for ten minutes, or is right again. Thread-safe.
    """

    def __init__(self, time_ns: Callable[[], int] = time.time_ns, uptime_ns: Callable[[], int] = uptime_ns) -> None:
        """Create the clock; the arguments replace those of the machine."""
        self._time_ns, self._uptime_ns = time_ns, uptime_ns
        self._last = self._read()
        self._ahead_since: int | None = None

    def now(self) -> int:
        """Return the machine's time in epoch milliseconds."""
        (shown, uptime), (last, last_uptime) = self._read(), self._last
        expected = last + uptime - last_uptime
        if shown - expected > MAX_STEP_MS:
            if self._ahead_since is None:
                self._ahead_since = uptime
            if uptime - self._ahead_since < TRUSTED_AFTER_MS:
                return expected
        self._last, self._ahead_since = (shown, uptime), None
        return shown

    def distrusted_ms(self) -> int:
        """Return by how many milliseconds the machine's clock is ahead of what `now` returns; 0 if it is believed."""
        now = self.now()
        return 0 if self._ahead_since is None else self._read()[0] - now

    def compare(self, shown: int, other: int) -> None:
        """Continue from the time of another clock, such as the catalog's, if the machine's was far ahead of it when `shown`."""
        if shown - other > MAX_STEP_MS:
            uptime = self._read()[1]
            self._last, self._ahead_since = (other, uptime), uptime

    def _read(self) -> tuple[int, int]:
        return self._time_ns() // 1_000_000, self._uptime_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when set or advanced; epoch milliseconds."""

    def __init__(self, start_ms: int = 0) -> None:
        self._now = start_ms

    def now(self) -> int:
        """Return the time that was last set, in epoch milliseconds."""
        return self._now

    def set(self, ms: int) -> None:
        """Move to an instant, which may be before the current one: clocks are set back."""
        self._now = ms

    def advance(self, ms: int) -> None:
        """Move forward by some milliseconds."""
        self.set(self._now + ms)
