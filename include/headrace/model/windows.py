"""Windows of a fixed length as arithmetic, on single instants and on NumPy arrays of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Instants = TypeVar("Instants", int, Int64s)


def copies(counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return for each copy of several things which one it is of, and its number, from 0, among the copies of that."""
    of = np.repeat(np.arange(len(counts)), counts)
    return of, np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)


@dataclass(frozen=True)
class Windows:
    """Windows, by their first and last instants."""

    start: Int64s
    last: Int64s


@dataclass(frozen=True, slots=True)
class WindowGrid:
    """Windows that start every `step`, counted from `offset`; points in time if their length is 0. All are in one unit of time."""

    step: int = 1
    offset: int = 0
    length: int = 1

    @property
    def overlaps(self) -> bool:
        """Whether an instant may lie in several windows."""
        return self.length > self.step

    def floor(self, instant: Instants) -> Instants:
        """Return the latest start at or before an instant."""
        # NumPy divides by a constant several times faster than it computes a remainder.
        return (instant - self.offset) // self.step * self.step + self.offset

    def ceiling(self, instant: int) -> int:
        """Return the earliest start at or after an instant."""
        return -((self.offset - instant) // self.step) * self.step + self.offset

    def scaled(self, units: int) -> WindowGrid:
        """Return the windows in a unit of which the present one has `units`."""
        return WindowGrid(self.step * units, self.offset * units, self.length * units)

    def assign(self, instants: Int64s) -> tuple[Int64s | None, Int64s]:
        """Return rows and the starts of the windows that contain them; rows are None for each row once."""
        latest = self.floor(instants)
        if self.length == self.step:
            return None, latest
        rows, starts = [], []
        for back in range(-(-self.length // self.step)):
            start = latest - back * self.step
            contained = np.flatnonzero(start + self.length > instants)
            rows.append(contained)
            starts.append(start[contained])
        return np.concatenate(rows), np.concatenate(starts)

    def first_open(self, instant: int) -> int:
        """Return the start of the earliest window that has not ended before an instant."""
        return self.ceiling(instant - max(self.length - 1, 0))

    def ended(self, start: int, instant: int, count: int) -> Windows:
        """Return the first `count` windows from the one at `start` on that have ended by an instant, which is after them."""
        total = max(0, (instant - self.length - start) // self.step + 1)
        return self._at(start + np.arange(min(total, count), dtype=np.int64) * self.step)

    def lasts(self, starts: Int64s) -> Int64s:
        """Return the last instants of windows."""
        return starts + (self.length - 1)

    def end(self, start: int) -> int:
        """Return the end of the window at `start`, exclusive."""
        return start + self.length

    def next_start(self, start: int) -> int:
        """Return the start of the window after the one at `start`."""
        return start + self.step

    def max_between(self, starts: Int64s, ends: Int64s) -> int:
        """Return at least the number of windows that start in gaps."""
        return int(self._counts(starts, ends).sum())

    def between(self, starts: Int64s, ends: Int64s) -> tuple[Int64s, Windows]:
        """Return the windows that start in gaps between two windows, and the gap of each, ordered by gap and start."""
        counts = self._counts(starts, ends)
        gap, number = copies(counts)
        return gap, self._at(starts[gap] + (number + 1) * self.step)

    def _counts(self, starts: Int64s, ends: Int64s) -> Int64s:
        counts: Int64s = np.maximum((ends - starts) // self.step - 1, 0)
        return counts

    def _at(self, starts: Int64s) -> Windows:
        return Windows(starts, starts + max(self.length - 1, 0))
