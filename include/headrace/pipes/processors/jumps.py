"""Points that are kept because they differ enough from the one kept before.

Whether a point is kept depends on the last kept point of its series alone, so a series is a chain of jumps. Many series advance
together, a point of each at a time. A few long series are followed one by one, from each kept point to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from headrace.pipes.processors.grouping import Array, Flags, Integers

MIN_LANES: Final = 48
"""Fewer series than this are followed one by one: one step of NumPy costs as much as a jump."""
LOOK_AHEAD: Final = 32
BLOCK: Final = 1 << 14
FIRST_SEARCH: Final = 64
MAX_RANK: Final = 1 << 62

Differs: TypeAlias = Callable[[Any, Any], Flags]
"""Whether points at some indices (second) are kept if the points at others (first) are the last kept ones."""


class Chain(Protocol):
    """A long series, in which each kept point determines the next one."""

    def next_points(self, start: int, stop: int, end: int) -> Integers:
        """Return for all points from `start` to `stop` the point that is kept next, -1 if it is not found among the next few."""

    def next_point(self, point: int, end: int) -> int | None:
        """Return the point that is kept after another one, for which `next_points` found none; None if there is none."""


def keep_differing(starts: Integers, differs: Differs) -> Flags:
    """Return which points are kept.

    Args:
        starts: Where each series starts, and at last the number of points. The first point of a series is kept.
        differs: Whether a point is kept.
    """
    kept = np.zeros(starts[-1], np.bool_)
    kept[starts[:-1]] = True
    firsts, ends = by_length(starts)
    anchors, negative_lengths, step = firsts.copy(), firsts - ends, 1
    while (count := count_longer(negative_lengths, step)) >= MIN_LANES:
        candidates = firsts[:count] + step
        hits = differs(anchors[:count], candidates)
        kept[candidates[hits]] = True
        anchors[:count][hits] = candidates[hits]
        step += 1
    for lane in range(count):
        point = search(int(anchors[lane]), int(firsts[lane]) + step, int(ends[lane]), differs)
        kept[np.array(follow(point, int(ends[lane]), DifferingPoints(differs)), np.int64)] = True
    return kept


def by_length(starts: Integers) -> tuple[Integers, Integers]:
    """Return starts and ends of series, the longest first."""
    order = np.argsort(starts[:-1] - starts[1:], kind="stable")
    return starts[:-1][order], starts[1:][order]


def count_longer(negative_lengths: Integers, step: int) -> int:
    """Return how many series have more than `step` points; the longest come first."""
    return int(np.searchsorted(negative_lengths, -step, side="left"))


def follow(point: int | None, end: int, series: Chain) -> list[int]:
    """Return all kept points of a long series from one of them on."""
    chain: list[int] = []
    block_start = block_end = -1
    following: list[int] = []
    while point is not None:
        if point >= block_end:
            block_start, block_end = point, min(point + BLOCK, end)
            following = series.next_points(block_start, block_end, end).tolist()
        last = point
        while 0 <= point < block_end:
            last = point
            chain.append(last)
            point = following[point - block_start]
        if point < 0:
            point = series.next_point(last, end)
    return chain


@dataclass(frozen=True, slots=True)
class DifferingPoints:
    """A long series of which those points are kept that differ from the last kept one."""

    differs: Differs

    def next_points(self, start: int, stop: int, end: int) -> Integers:
        following = np.full(stop - start, -1, np.int64)
        pending = np.arange(start, stop)
        for offset in range(1, LOOK_AHEAD + 1):
            pending = pending[pending + offset < end]
            hits = self.differs(pending, pending + offset)
            following[pending[hits] - start] = pending[hits] + offset
            pending = pending[~hits]
            if not len(pending):
                break
        return following

    def next_point(self, point: int, end: int) -> int | None:
        return search(point, point + 1 + LOOK_AHEAD, end, self.differs)


def search(anchor: int, start: int, end: int, differs: Differs) -> int | None:
    """Return the first point from `start` that is kept after `anchor`; None if there is none before `end`."""
    size = FIRST_SEARCH
    while start < end:
        hits = differs(anchor, slice(start, min(start + size, end)))
        if hits.any():
            return start + int(hits.argmax())
        start, size = start + size, min(2 * size, BLOCK)
    return None


def place_before(starts: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Return new starts of segments with room for `counts` more items at the head of each, and where the old items go."""
    shift = np.cumsum(counts)
    lengths = np.diff(starts)
    places = np.arange(starts[-1]) + np.repeat(shift, lengths)
    return starts + np.concatenate(([0], shift)), places


def last_true(flags: Array, starts: Integers) -> Integers:
    """Return the index of the last true flag of each segment; the first of each has to be true."""
    indices = np.where(flags, np.arange(len(flags)), -1)
    last: Integers = np.maximum.reduceat(indices, starts[:-1]) if len(starts) > 1 else np.zeros(0, np.int64)
    return last


@dataclass(frozen=True, slots=True)
class Greatest:
    """The greatest value of the series of each point before and after it, and of each series after all."""

    before: Integers
    after: Integers
    last: Integers


def running_greatest(values: Integers, starts: Integers, before: Integers) -> Greatest:
    """Return the running maximum of some series. One before that is less than all values may be raised, but stays less.

    Args:
        values: The values of all series, one series after the other.
        starts: Where each starts, and at last the number of values.
        before: The greatest value of each series before.
    """
    lengths = np.diff(starts)
    low = int(values.min()) - 1 if len(values) else 0
    # What lies below all values decides nothing: one less than the least of them does as well.
    merged = np.concatenate((values, np.maximum(before, low)))
    span = int(merged.max(initial=low)) - low + 1
    distinct = None if span * len(lengths) < MAX_RANK else np.unique(merged)
    ranks = merged - low if distinct is None else np.searchsorted(distinct, merged)
    # One running maximum does for all series: the ranks of each are above those of the series before.
    floors = np.arange(len(lengths), dtype=np.int64) * (span if distinct is None else len(distinct))
    heads, places = place_before(starts, np.ones(len(lengths), np.int64))
    running = np.empty(heads[-1], np.int64)
    running[heads[:-1]] = ranks[len(values) :] + floors
    running[places] = ranks[: len(values)] + np.repeat(floors, lengths)
    running = np.maximum.accumulate(running) - np.repeat(floors, lengths + 1)
    running = running + low if distinct is None else distinct[running]
    return Greatest(running[places - 1], running[places], running[heads[1:] - 1])
