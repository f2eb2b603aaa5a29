"""Which gaps between the windows of a target a change opens, closes or moves. Pure arithmetic on arrays.

A gap lies between two windows of a group that follow each other. The windows here are those that change and their neighbors,
so two of them follow each other if one of the two changes; what lies between two others does not matter, and does not change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.streams.windows.change_batch import Bools, Int64s

NO_ROW = -1


@dataclass(frozen=True)
class Gaps:
    """Ranges of a group, both ends exclusive: each ends at the window before and the one after it, or where the group does.

    `before` and `after` are the rows of these windows; `NO_ROW` if they are not needed.
    """

    group: Int64s
    start: Int64s
    end: Int64s
    before: Int64s
    after: Int64s


@dataclass(frozen=True)
class MissingWindows:
    """Windows in gaps: the number of the gap, and their first and last instant in ticks, both inclusive."""

    gap: Int64s
    start: Int64s
    end: Int64s


@dataclass(frozen=True)
class WindowKeys:
    """Windows by group and start, each with its row; `NO_ROW` for windows to retract."""

    group: Int64s
    start: Int64s
    row: Int64s


@dataclass(frozen=True)
class Neighborhood:
    """The windows that a commit changes and their neighbors, ordered by group and start; each is there once.

    The rows are the one that the target has and the one to write, `NO_ROW` if there is none. `run` is equal for windows between
    which none is missing.
    """

    group: Int64s
    start: Int64s
    old_row: Int64s
    new_row: Int64s
    is_retracted: Bools
    run: Int64s

    @classmethod
    def of(cls, old: WindowKeys, upserts: WindowKeys, retractions: WindowKeys) -> Neighborhood:
        """Merge the windows of the target, those to write and those to retract. A window to write is not retracted."""
        group = np.concatenate((old.group, upserts.group, retractions.group))
        start = np.concatenate((old.start, upserts.start, retractions.start))
        order = np.lexsort((start, group))
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (np.diff(group[order]) != 0) | (np.diff(start[order]) != 0)
        index = np.empty(len(order), np.int64)
        index[order] = np.cumsum(is_first) - 1
        of_old, of_upsert, of_retraction = np.split(index, np.cumsum([len(old.start), len(upserts.start)]))
        old_row, new_row = np.full(int(is_first.sum()), NO_ROW), np.full(int(is_first.sum()), NO_ROW)
        old_row[of_old], new_row[of_upsert] = old.row, upserts.row
        is_retracted = np.zeros(len(new_row), np.bool_)
        is_retracted[of_retraction] = True
        is_retracted &= new_row == NO_ROW
        own_group, own_start = group[order][is_first], start[order][is_first]
        is_changed = is_retracted | (new_row != NO_ROW)
        follows = (np.diff(own_group) == 0) & (is_changed[1:] | is_changed[:-1])
        run = np.concatenate(([0], np.cumsum(~follows))) if len(own_start) else own_start
        return cls(own_group, own_start, old_row, new_row, is_retracted, run)

    @property
    def is_old(self) -> Bools:
        """Whether the target has the window before the commit."""
        return np.asarray(self.old_row != NO_ROW)

    @property
    def is_new(self) -> Bools:
        """Whether the target has the window after the commit."""
        return np.asarray((self.new_row != NO_ROW) | (self.is_old & ~self.is_retracted))

    @property
    def row(self) -> Int64s:
        """The row that the target has of a window after the commit."""
        return np.where(self.new_row != NO_ROW, self.new_row, np.where(self.is_retracted, NO_ROW, self.old_row))

    def is_inside(self) -> Bools:
        """Whether a window has others before and after it, so that FILL adds it if it is retracted."""
        positions = np.arange(len(self.start))
        before = np.maximum.accumulate(np.where(self.is_new, positions, -1))
        after = np.minimum.accumulate(np.where(self.is_new, positions, len(positions))[::-1])[::-1]
        run = np.append(self.run, -1)
        return np.asarray((run[before] == self.run) & (run[after] == self.run))

    def gaps_to_fill(self, is_different: Bools, *, before: bool, after: bool) -> Gaps:
        """Return the gaps after the commit that are new, or get other values.

        `is_different` says whether a window's row before and after the commit differ; `before` and `after`, whether values come
        from the window before a gap, or after it.
        """
        left, right = self._pairs(self.is_new)
        rank = np.cumsum(self.is_old)
        was_gap = self.is_old[left] & self.is_old[right] & (rank[right] - rank[left] == 1)
        is_same = was_gap & ~(before & is_different[left]) & ~(after & is_different[right])
        left, right = left[~is_same], right[~is_same]
        return Gaps(self.group[left], self.start[left], self.start[right], self.row[left], self.row[right])

    def gaps_to_clear(self) -> Gaps:
        """Return the parts of gaps before the commit that lie before the first or after the last window of a group by now."""
        left, right = self._pairs(self.is_old)
        low, high = self._ends()
        start, end, low, high = self.start[left], self.start[right], low[self.run[left]], high[self.run[left]]
        parts = [(start, np.minimum(end, low)), (np.maximum(start, np.maximum(high, np.minimum(end, low))), end)]
        first, last = (np.concatenate(ends) for ends in zip(*parts, strict=True))
        group = np.tile(self.group[left], 2)
        some = first < last
        none = np.full(int(some.sum()), NO_ROW)
        return Gaps(group[some], first[some], last[some], none, none)

    def _pairs(self, exists: Bools) -> tuple[Int64s, Int64s]:
        """Return the windows that exist and have the next one of them in their run, and these next ones."""
        positions = np.flatnonzero(exists)
        follows = self.run[positions[1:]] == self.run[positions[:-1]]
        return positions[:-1][follows], positions[1:][follows]

    def _ends(self) -> tuple[Int64s, Int64s]:
        """Return the first and last start after the commit in each run; without any, the greatest and least integer."""
        limits = np.iinfo(np.int64)
        count = int(self.run.max()) + 1 if len(self.run) else 0
        low, high = np.full(count, limits.max), np.full(count, limits.min)
        np.minimum.at(low, self.run[self.is_new], self.start[self.is_new])
        np.maximum.at(high, self.run[self.is_new], self.start[self.is_new])
        return low, high
