"""The clocks of time zones: their changes, and conversion of whole arrays of instants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from headrace.model.instants import EPOCH, find_zone
from headrace.model.remembering import remembered
from headrace.model.windows import Int64s

DAY_SECONDS: Final = 86_400
ONE_DAY: Final = timedelta(days=1)
ONE_SECOND: Final = timedelta(seconds=1)
FIRST_YEAR: Final = 1840
"""No zone's clock changed before."""
LAST_YEAR: Final = 2100
"""From this year on, rules change a clock at most twice a year, not within a month."""
END_YEAR: Final = 2510
"""Later years repeat the 400 years before, as the calendar does."""
CYCLE_SECONDS: Final = 146_097 * DAY_SECONDS


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change of a zone's offset from UTC: the instant in epoch seconds, and the offsets before and after it in seconds."""

    at: int
    before: int
    after: int

    @property
    def reorders_days(self) -> bool:
        """Whether it shows a midnight and goes back to the day before, or skips a day."""
        low, high = self.at + self.after, self.at + self.before
        return low < (high - 1) // DAY_SECONDS * DAY_SECONDS or low - high >= DAY_SECONDS


@remembered(1_024)
def clock_changes(name: str) -> tuple[ClockChange, ...]:
    """Return the clock changes of a zone, in order; empty if there is no such zone. No zone has two within a day."""
    zone = find_zone(name)
    if not isinstance(zone, ZoneInfo):
        return ()
    changes = []
    # In the zone's own `fromutc`, which is the fastest, an instant in UTC carries the zone.
    first, last, end = (datetime(year, 1, 1, tzinfo=zone) for year in (FIRST_YEAR, LAST_YEAR, END_YEAR))
    instant, offset = first, zone.fromutc(first) - first
    while instant < end:
        following = instant + (ONE_DAY if instant < last else 30 * ONE_DAY)
        next_offset = zone.fromutc(following) - following
        if next_offset != offset:
            at = first_instant(zone, next_offset, instant, following)
            changes.append(ClockChange(seconds(at - datetime(1970, 1, 1, tzinfo=zone)), seconds(offset), seconds(next_offset)))
        instant, offset = following, next_offset
    return tuple(changes)


def first_instant(zone: ZoneInfo, offset: timedelta, low: datetime, high: datetime) -> datetime:
    """Return the first instant between two at which a zone has the offset that it has at the later one."""
    while high - low > ONE_SECOND:
        middle = low + timedelta(seconds=seconds(high - low) // 2)
        low, high = (low, middle) if zone.fromutc(middle) - middle == offset else (middle, high)
    return high


def seconds(length: timedelta) -> int:
    return length.days * DAY_SECONDS + length.seconds


def reorders_days(name: str) -> bool:
    """Return whether a zone's clock has ever repeated a midnight or skipped a day."""
    return any(change.reorders_days for change in clock_changes(name))


def max_change(name: str) -> int:
    """Return the greatest clock change of a zone in seconds."""
    return max((abs(change.after - change.before) for change in clock_changes(name)), default=0)


@dataclass(frozen=True)
class ZoneClock:
    """What the clock of a zone shows at instants, in seconds counted as if it were UTC.

    Attributes:
        changes: The instants at which the clock changes.
        ends: What the clock would show at each change if it were not changed.
        offsets: The offsets from UTC before the first change and after each.
    """

    changes: Int64s
    ends: Int64s
    offsets: Int64s

    def wall(self, instants: Int64s) -> Int64s:
        """Return what the clock shows at instants."""
        cycles = cycles_of(instants)
        instants = instants - cycles
        shown: Int64s = instants + self.offsets[np.searchsorted(self.changes, instants, side="right")] + cycles
        return shown

    def instants(self, walls: Int64s) -> Int64s:
        """Return when the clock first shows something, later by what is skipped if it never does."""
        cycles = cycles_of(walls)
        walls = walls - cycles
        index = np.searchsorted(self.ends, walls, side="right")
        instants = walls - self.offsets[index]
        if len(self.changes):
            before = np.maximum(index - 1, 0)
            is_skipped = (index > 0) & (instants < self.changes[before])
            instants = np.where(is_skipped, walls - self.offsets[before], instants)
        shown: Int64s = instants + cycles
        return shown


LAST_SECOND: Final = (datetime(END_YEAR - 1, 1, 1, tzinfo=EPOCH.tzinfo) - EPOCH).days * DAY_SECONDS


def cycles_of(times: Int64s) -> Int64s:
    """Return the seconds of the cycles of the calendar to leave out so that times are before `END_YEAR`."""
    cycles: Int64s = np.maximum((times - LAST_SECOND) // CYCLE_SECONDS + 1, 0) * CYCLE_SECONDS
    return cycles


@cache
def zone_clock(name: str) -> ZoneClock:
    """Return the clock of a zone, which exists."""
    changes = clock_changes(name)
    zone = find_zone(name)
    first = datetime(FIRST_YEAR, 1, 1, tzinfo=EPOCH.tzinfo).astimezone(zone).utcoffset() or timedelta()
    offsets = [seconds(first), *(change.after for change in changes)]
    ends = [change.at + change.before for change in changes]
    return ZoneClock(*(np.array(values, np.int64) for values in ([change.at for change in changes], ends, offsets)))
