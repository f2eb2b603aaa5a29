"""Windows that follow the calendar of a time zone, as arithmetic on NumPy arrays of instants.

Windows start when the clock shows the points of a grid: a number of months or of ticks apart. Of points that the clock
shows twice, the first time counts. Points that it skips start later by what is skipped; if two start at one instant, only the later
on the grid is a window, and one that the clock skips as a whole is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.model.time import MONTHS_BEFORE_1970, Duration, Precision
from headrace.model.windows import Int64s, Windows, copies
from headrace.model.zones import DAY_SECONDS, max_change, reorders_days, zone_clock


@dataclass(frozen=True, slots=True)
class CalendarGrid:
    """Windows of INTERVAL in a zone; instants are in ticks. The methods are those of `WindowGrid`."""

    length: Duration
    sliding: Duration
    offset: Duration
    zone: str
    precision: Precision

    @property
    def overlaps(self) -> bool:
        """Whether an instant may lie in several windows."""
        return self.sliding != self.length

    def assign(self, instants: Int64s) -> tuple[Int64s | None, Int64s]:
        """Return rows and the starts of the windows that contain them; rows are None for each row once."""
        latest, (before, after) = self._number(self._wall(instants)), self._reach
        if before == after == 0:
            return None, self._start(latest)
        rows, starts = [], []
        for shift in range(after, -before - 1, -1):
            start, end, exists = self._windows(latest + shift)
            contained = np.flatnonzero(exists & (start <= instants) & (instants < end))
            rows.append(contained)
            starts.append(start[contained])
        return np.concatenate(rows), np.concatenate(starts)

    def lasts(self, starts: Int64s) -> Int64s:
        """Return the last instants of windows."""
        before, after = self._margin, self._margin
        latest, ends = self._number(self._wall(starts)), np.full(len(starts), -1, np.int64)
        for shift in range(-before, after + 1):
            start, end, exists = self._windows(latest + shift)
            ends = np.where(exists & (start == starts), end, ends)
        return ends - 1

    def first_open(self, instant: int) -> int:
        """Return the start of the earliest window that has not ended before an instant."""
        before, after = self._reach
        windows = self._between(instant, instant, before + 1, after + 1)
        return int(windows.start[windows.last >= instant][0])

    def ended(self, start: int, instant: int, count: int) -> Windows:
        """Return the first `count` windows from the one at `start` on that have ended by an instant, which is after them."""
        low = int(self._number(self._wall(np.array([start])))[0])
        high = int(self._number(self._wall(np.array([instant])))[0])
        windows = self._existing(np.arange(low - self._margin, min(high, low + count + self._margin) + self._margin + 1))
        has_ended = np.flatnonzero((windows.start >= start) & (windows.last < instant))[:count]
        return Windows(windows.start[has_ended], windows.last[has_ended])

    def end(self, start: int) -> int:
        """Return the end of the window at `start`, exclusive."""
        return int(self.lasts(np.array([start], np.int64))[0]) + 1

    def next_start(self, start: int) -> int:
        """Return the start of the window after the one at `start`."""
        following = self._between(start, start, 0, 2 * self._margin + 2).start
        return int(following[following > start][0])

    def max_between(self, starts: Int64s, ends: Int64s) -> int:
        """Return at least the number of windows that start in gaps."""
        return int(np.maximum(self._number(self._wall(ends)) - self._number(self._wall(starts)) - 1 + 2 * self._margin, 0).sum())

    def between(self, starts: Int64s, ends: Int64s) -> tuple[Int64s, Windows]:
        """Return the windows that start in gaps between two windows, and the gap of each, ordered by gap and start."""
        first = self._number(self._wall(starts)) - self._margin
        counts = np.maximum(self._number(self._wall(ends)) + self._margin - first + 1, 0)
        gap, within = copies(counts)
        numbers = first[gap] + within
        start, end, exists = self._windows(numbers)
        inside = np.flatnonzero(exists & (starts[gap] < start) & (start < ends[gap]))
        inside = inside[np.lexsort((start[inside], gap[inside]))]
        return gap[inside], Windows(start[inside], end[inside] - 1)

    def _between(self, first: int, last: int, before: int, after: int) -> Windows:
        """Return the windows from some grid points before one instant to some after another."""
        low, high = self._number(self._wall(np.array([first, last], np.int64)))
        return self._existing(np.arange(low - before, high + after + 1))

    def _existing(self, numbers: Int64s) -> Windows:
        start, end, exists = self._windows(numbers)
        order = np.argsort(start[exists], kind="stable")
        return Windows(start[exists][order], end[exists][order] - 1)

    @property
    def _margin(self) -> int:
        """How many grid points a change of the clock may put out of order."""
        parts = [part.fixed_ticks(self.precision) for part in (self.sliding, self.offset)]
        if not any(part % self._day for part in parts) and not reorders_days(self.zone):
            return 0
        return 1 if self.sliding.is_calendar else -(-max_change(self.zone) * self._second // self.sliding.ticks(self.precision))

    @property
    def _reach(self) -> tuple[int, int]:
        """How many grid points before and after the latest one windows that contain an instant may start."""
        if not self.overlaps:
            return self._margin, self._margin
        longest = self.length.max_ticks(self.precision) + max_change(self.zone) * self._second
        return -(-longest // self.sliding.ticks(self.precision)) + self._margin, self._margin

    def _windows(self, numbers: Int64s) -> tuple[Int64s, Int64s, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """Return the starts and ends of windows by their numbers on the grid, and whether they exist."""
        point, start = self._point(numbers), self._start(numbers)
        shown = self._wall(start)
        end = self._instant(self._end_point(numbers, point))
        exists = (start < end) & ((shown == point) | (self._point(self._number(shown)) != shown))
        return start, end, exists

    def _start(self, numbers: Int64s) -> Int64s:
        return self._instant(self._point(numbers))

    def _number(self, walls: Int64s) -> Int64s:
        """Return the number of the latest grid point at or before what a clock shows."""
        if not self.sliding.is_calendar:
            return (walls - self.offset.fixed_ticks(self.precision)) // self.sliding.ticks(self.precision)
        months = months_of((walls - self.offset.fixed_ticks(self.precision)) // self._day) + MONTHS_BEFORE_1970
        return (months - self.offset.months) // self.sliding.months

    def _point(self, numbers: Int64s) -> Int64s:
        """Return what a clock shows at grid points."""
        offset = self.offset.fixed_ticks(self.precision)
        if not self.sliding.is_calendar:
            return numbers * self.sliding.ticks(self.precision) + offset
        return first_days(numbers * self.sliding.months + self.offset.months - MONTHS_BEFORE_1970) * self._day + offset

    def _end_point(self, numbers: Int64s, points: Int64s) -> Int64s:
        """Return what a clock shows at the ends of windows."""
        if not self.overlaps:
            return self._point(numbers + 1)
        if self.length.is_calendar:
            return add_months(points // self._day, self.length.months) * self._day + points % self._day
        return points + self.length.ticks(self.precision)

    def _wall(self, instants: Int64s) -> Int64s:
        return zone_clock(self.zone).wall(instants // self._second) * self._second + instants % self._second

    def _instant(self, walls: Int64s) -> Int64s:
        return zone_clock(self.zone).instants(walls // self._second) * self._second + walls % self._second

    @property
    def _second(self) -> int:
        return self.precision.ticks_per_second

    @property
    def _day(self) -> int:
        return DAY_SECONDS * self._second


def months_of(days: Int64s) -> Int64s:
    """Return the months of days; both are counted from 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def first_days(months: Int64s) -> Int64s:
    """Return the first days of months; both are counted from 1970."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def add_months(days: Int64s, count: int) -> Int64s:
    """Return days some months later; a day that a month lacks becomes its last day."""
    months = months_of(days)
    day_of_month, later = days - first_days(months), months + count
    lengths = first_days(later + 1) - first_days(later)
    moved: Int64s = first_days(later) + np.minimum(day_of_month, lengths - 1)
    return moved
