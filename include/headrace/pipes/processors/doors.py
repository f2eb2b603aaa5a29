"""Swinging door trending: the points between which a series is a straight line, but for a deviation.

From the last kept point (the anchor), each later point allows slopes for which the line passes it within the deviation: not below
the upper door, not above the lower one. Doors only open. If the slope to a point is one that the points before do not allow, the
point before it (the held one) is kept and becomes the anchor. So lines between kept points pass all others within the deviation.

Here times of a run increase strictly, and values are finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headrace.pipes.processors.grouping import Flags, Integers
from headrace.pipes.processors.jumps import BLOCK, FIRST_SEARCH, LOOK_AHEAD, MIN_LANES, count_longer, follow
from headrace.pipes.processors.limits import Limits

Floats = npt.NDArray[np.float64]
INFINITY: Final = np.inf


@dataclass(slots=True)
class Doors:
    """The state of some runs.

    Attributes:
        anchors: The last kept point of each.
        upper: The least slope that the points since then allow.
        lower: The greatest one.
        held: The last point, if it is not kept; else -1.
    """

    anchors: Integers
    upper: Floats
    lower: Floats
    held: Integers

    def select(self, lanes: Any) -> Doors:
        """Return the state of some of the runs."""
        return Doors(self.anchors[lanes], self.upper[lanes], self.lower[lanes], self.held[lanes])

    def put(self, lanes: Any, other: Doors) -> None:
        """Set the state of some of the runs."""
        for name in ("anchors", "upper", "lower", "held"):
            getattr(self, name)[lanes] = getattr(other, name)

    def reopen(self, lanes: Any, anchors: Any) -> None:
        """Open the doors, from other anchors."""
        self.anchors[lanes], self.upper[lanes], self.lower[lanes], self.held[lanes] = anchors, -INFINITY, INFINITY, -1


@dataclass(slots=True)
class Kept:
    """Which points are kept, and of which that is known only when the next point is there."""

    points: Flags
    are_late: Flags


class Trend:
    """The points of some runs, one after the other."""

    def __init__(self, times: Integers, values: Floats, limits: Limits) -> None:
        """Take the points of all runs."""
        self._times, self._values, self._limits = times, values, limits
        self.kept = Kept(np.zeros(len(times), np.bool_), np.zeros(len(times), np.bool_))

    def run(self, begins: Integers, ends: Integers, doors: Doors) -> None:
        """Advance the doors of runs by their points; `kept` has the kept ones then.

        Args:
            begins: The first point of each run that comes after its anchor and its held point.
            ends: The ends of the runs, exclusive.
            doors: The states, which are advanced.
        """
        order = np.argsort(begins - ends, kind="stable")
        firsts, stops, lanes = begins[order], ends[order], doors.select(order)
        negative_lengths, step = firsts - stops, 0
        with np.errstate(over="ignore", invalid="ignore"):
            while (count := count_longer(negative_lengths, step)) >= MIN_LANES:
                active = lanes.select(slice(0, count))
                self._step(active, firsts[:count] + step)
                step += 1
            for lane in range(count):
                self._follow(lanes.select(slice(lane, lane + 1)), int(firsts[lane]) + step, int(stops[lane]))
        doors.put(order, lanes)

    def _step(self, lanes: Doors, points: Integers) -> None:
        """Advance each lane by one point; lanes are changed in place."""
        limits, times, values = self._limits, self._times, self._values
        passed = times[points] - times[lanes.anchors]
        is_near = passed <= limits.min_interval
        slopes = (values[points] - values[lanes.anchors]) / passed
        is_outside = ~((lanes.upper <= slopes) & (slopes <= lanes.lower))
        opened = np.flatnonzero(~is_near & is_outside & (lanes.held >= 0))
        if len(opened):
            held = lanes.held[opened]
            self.kept.points[held] = self.kept.are_late[held] = True
            lanes.reopen(opened, held)
            passed[opened] = times[points[opened]] - times[held]
            is_near[opened] = passed[opened] <= limits.min_interval
        is_far = ~is_near & (passed >= limits.max_interval)
        if is_far.any():
            self.kept.points[points[is_far]] = True
            lanes.reopen(is_far, points[is_far])
        narrowed = ~is_near & ~is_far
        differences = values[points] - values[lanes.anchors]
        np.maximum(lanes.upper, (differences - limits.deviation) / passed, out=lanes.upper, where=narrowed)
        np.minimum(lanes.lower, (differences + limits.deviation) / passed, out=lanes.lower, where=narrowed)
        lanes.held[narrowed] = points[narrowed]

    def _follow(self, lane: Doors, start: int, end: int) -> None:
        """Advance one lane by all points from `start` to `end`."""
        first = self._search(lane, start, end)
        if first is None:
            return
        chain = np.array([first, *follow_after(self, first, end)], np.int64)
        self.kept.points[chain] = True
        passed = self._times[chain[1:]] - self._times[chain[:-1]]
        self.kept.are_late[chain[1:]] = passed < self._limits.max_interval
        self.kept.are_late[first] = first == int(lane.held[0])
        lane.reopen(0, chain[-1])
        self._search(lane, int(chain[-1]) + 1, end)

    def next_point(self, point: int, end: int) -> int | None:
        """Return the point that is kept after another one; None if there is none before `end`."""
        fresh = Doors(np.array([point]), np.array([-INFINITY]), np.array([INFINITY]), np.array([-1]))
        return self._search(fresh, point + 1, end)

    def _search(self, lane: Doors, start: int, end: int) -> int | None:
        """Return the first point that is kept from `start` on; advance the lane up to there, or to the end if there is none."""
        size = FIRST_SEARCH
        while start < end:
            stop = min(start + size, end)
            point = self._search_block(lane, start, stop)
            if point is not None:
                return point
            start, size = stop, min(2 * size, BLOCK)
        return None

    def _search_block(self, lane: Doors, start: int, stop: int) -> int | None:
        limits, anchor = self._limits, int(lane.anchors[0])
        passed = self._times[start:stop] - self._times[anchor]
        differences = self._values[start:stop] - self._values[anchor]
        near = int(np.searchsorted(passed, limits.min_interval, side="right"))
        upper, lower = (differences - limits.deviation) / passed, (differences + limits.deviation) / passed
        upper[:near], lower[:near] = -INFINITY, INFINITY
        upper = np.maximum.accumulate(np.concatenate((lane.upper, upper)))
        lower = np.minimum.accumulate(np.concatenate((lane.lower, lower)))
        slopes = differences / passed
        opens = ~((upper[:-1] <= slopes) & (slopes <= lower[:-1]))
        opens[: near if lane.held[0] >= 0 else near + 1] = False
        events = opens | ((passed >= limits.max_interval) & (passed > limits.min_interval))
        if not events.any():
            lane.upper[0], lane.lower[0] = upper[-1], lower[-1]
            lane.held[0] = stop - 1 if near < stop - start else lane.held[0]
            return None
        event = int(events.argmax())
        lane.held[0] = start + event - 1 if event > near else lane.held[0]
        return int(lane.held[0]) if opens[event] else start + event

    def next_points(self, start: int, stop: int, end: int) -> Integers:
        """Return for all points from `start` to `stop` the point that is kept next, -1 if it is not found among the next few."""
        following = np.full(stop - start, -1, np.int64)
        pending = Doors(
            np.arange(start, stop), np.full(stop - start, -INFINITY), np.full(stop - start, INFINITY), np.arange(start, stop)
        )
        for offset in range(1, LOOK_AHEAD + 1):
            pending = pending.select(pending.anchors + offset < end)
            if not len(pending.anchors):
                break
            pending = self._look_ahead(pending, offset, following, start)
        return following

    def _look_ahead(self, pending: Doors, offset: int, following: Integers, start: int) -> Doors:
        """Enter the next point of those anchors for which the point at an offset decides; return the other anchors."""
        limits, anchors = self._limits, pending.anchors
        passed = self._times[anchors + offset] - self._times[anchors]
        differences = self._values[anchors + offset] - self._values[anchors]
        slopes = differences / passed
        is_far = passed > limits.min_interval
        narrowed = is_far.copy()
        opens = is_far & ~((pending.upper <= slopes) & (slopes <= pending.lower)) & (pending.held > anchors)
        is_far &= passed >= limits.max_interval
        following[anchors[is_far] - start] = anchors[is_far] + offset
        following[anchors[opens] - start] = anchors[opens] + offset - 1
        np.maximum(pending.upper, (differences - limits.deviation) / passed, out=pending.upper, where=narrowed)
        np.minimum(pending.lower, (differences + limits.deviation) / passed, out=pending.lower, where=narrowed)
        pending.held[narrowed] = anchors[narrowed] + offset
        return pending.select(~(is_far | opens))


def follow_after(trend: Trend, point: int, end: int) -> list[int]:
    """Return the points that are kept after another one."""
    return follow(point, end, trend)[1:]
