"""Which gaps between the windows of a target a change opens, closes or moves.

A gap lies between two windows of a group that follow each other. The windows here are those that change and their neighbors,
so two of them follow each other if one of the two changes; what lies between two others does not matter, and does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.compute.plan import WSTART
from headrace.compute.windows.fill import AT, NEXT
from headrace.storage.row_matching import anti_join
from headrace.streams.windows.change_batch import Bools, Int64s

NO_ROW: Final = -1
GROUP: Final = "_group"
ENDS: Final = (GROUP, WSTART, NEXT.name)
"""The columns of a gap: the group, and the starts of the windows before and after it."""


@dataclass(frozen=True)
class WindowKeys:
    """Windows by group and start, each with its row; `NO_ROW` for windows to retract."""

    group: Int64s
    start: Int64s
    row: Int64s


@dataclass(frozen=True)
class Neighborhood:
    """The windows that a commit changes and their neighbors, ordered by group and start; each is there once.

    The rows are those that the target has before and after the commit, `NO_ROW` if it has none. `run` is equal for windows between
    which none is missing.
    """

    group: Int64s
    start: Int64s
    old_row: Int64s
    row: Int64s
    run: Int64s

    @classmethod
    def of(cls, old: WindowKeys, changed: WindowKeys) -> Neighborhood:
        """Join windows of the target with those to write and to retract. A window to write is not retracted."""
        group, start = np.concatenate((old.group, changed.group)), np.concatenate((old.start, changed.start))
        order = np.lexsort((start, group))
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (np.diff(group[order]) != 0) | (np.diff(start[order]) != 0)
        index = np.empty(len(order), np.int64)
        index[order] = np.cumsum(is_first) - 1
        of_old, of_changed = np.split(index, [len(old.start)])
        old_row, new_row = np.full((2, int(is_first.sum())), NO_ROW)
        old_row[of_old] = old.row
        np.maximum.at(new_row, of_changed, changed.row)
        is_changed = np.zeros(len(old_row), np.bool_)
        is_changed[of_changed] = True
        group, start = group[order][is_first], start[order][is_first]
        follows = (np.diff(group) == 0) & (is_changed[1:] | is_changed[:-1])
        run = np.concatenate(([0], np.cumsum(~follows)))[: len(start)]
        return cls(group, start, old_row, np.where(is_changed, new_row, old_row), run)

    @property
    def is_retracted(self) -> Bools:
        """Whether the target has the window before the commit alone."""
        return np.asarray((self.old_row != NO_ROW) & (self.row == NO_ROW))

    @property
    def is_new(self) -> Bools:
        """Whether the target has the window after the commit."""
        return np.asarray(self.row != NO_ROW)

    def keys(self, mask: Bools) -> pa.Table:
        return pa.table({GROUP: self.group[mask], AT.name: self.start[mask]})

    def gaps(self, row: Int64s, before: Mapping[str, pa.ChunkedArray], after: Mapping[str, pa.ChunkedArray]) -> pa.Table:
        """Return the gaps between windows that have a row, with values of the windows before and after them by these rows."""
        positions = np.flatnonzero(row != NO_ROW)
        follows = self.run[positions[1:]] == self.run[positions[:-1]]
        left, right = positions[:-1][follows], positions[1:][follows]
        ends = {GROUP: self.group[left], WSTART: self.start[left], NEXT.name: self.start[right]}
        sides = [
            {name: column.take(pa.array(row[index])) for name, column in values.items()}
            for index, values in ((left, before), (right, after))
        ]
        return pa.table(ends | sides[0] | sides[1])


def changed_gaps(
    near: Neighborhood, old: pa.Table, new: pa.Table, sources: list[str], windows_in: Callable[[pa.Table], pa.Table]
) -> tuple[pa.Table, pa.Table]:
    """Return the windows to fill, each with its gap, and the keys of those to delete.

    `old` and `new` are the gaps before and after the commit, in which values depend on the columns `sources`. `windows_in` repeats
    gaps for each window in them, which starts at `_at`.
    """
    filled = windows_in(anti_join(new, old, [*ENDS, *sources]))
    closed = windows_in(anti_join(old, new, ENDS).select(ENDS))
    key = [GROUP, AT.name]
    gone = pa.concat_tables([closed.select(key), near.keys(near.is_retracted)])
    present = pa.concat_tables([filled.select(key), near.keys(near.is_new)])
    return filled, anti_join(gone, present, key)
