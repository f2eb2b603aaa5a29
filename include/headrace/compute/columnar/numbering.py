"""Which window a segment belongs to by the order of the rows of its group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.compute.columnar.runs import Array, Bools, Int64s, Runs, marks, running_maximum
from headrace.compute.window_plans import CountWindow

NO_ROW: Final = -1
"""The first row of a segment that is a row, not yet a window."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """Segments of windows, in the order of groups and time.

    Attributes:
        index: The segments, which may be in several windows or in none.
        window: The window of each; different from its neighbor's if the windows are of one group and differ.
    """

    index: Int64s
    window: Int64s


def number_sessions(start: Int64s, end: Int64s, groups: Runs, gap: int) -> Numbered:
    """Number sessions: a segment further than the gap from all earlier ones of its group starts one."""
    index = np.arange(len(start))
    breaks = np.zeros(len(start), np.bool_)
    breaks[groups.starts] = True
    breaks[1:] |= start[1:] > running_maximum(end, groups)[:-1] + gap
    return Numbered(index, np.cumsum(breaks))


def number_states(states: Array, groups: Runs, apart: Bools | None) -> Numbered:
    """Number runs of equal states. Two neighbors that are both `apart` are never of one run."""
    breaks = marks([states], len(states))
    breaks[groups.starts] = True
    if apart is not None:
        breaks[1:] |= apart[1:] & apart[:-1]
    return Numbered(np.arange(len(states)), np.cumsum(breaks))


def number_events(is_start: Bools, is_end: Bools, groups: Runs) -> Numbered:
    """Number event windows. A segment is in one if there is a START since the last END before it."""
    rows = np.arange(len(is_start))
    before_group = groups.start_of_row - 1
    opened = np.maximum(np.maximum.accumulate(np.where(is_start, rows, -1)), before_group)
    closed = np.concatenate(([-1], np.maximum.accumulate(np.where(is_end, rows, -1))[:-1]))
    closed = np.maximum(closed, before_group)
    index = np.flatnonzero(opened > closed)
    return Numbered(index, closed[index])


def number_counts(first: Int64s, count: Int64s, groups: Runs, window: CountWindow) -> Numbered:
    """Number windows of a fixed number of rows. New rows, with the first row `NO_ROW`, continue the count of carried windows."""
    is_row = first == NO_ROW
    carried = np.maximum.reduceat(np.where(is_row, 0, first + count), groups.starts)
    new_rows = np.cumsum(np.where(is_row, count, 0))
    before_group = (new_rows - np.where(is_row, count, 0))[groups.starts]
    position = carried[groups.of_row] + new_rows - before_group[groups.of_row] - count
    position = np.where(is_row, position, first)
    latest = position // window.sliding
    earliest = np.where(is_row & (position >= window.count), (position - window.count) // window.sliding + 1, 0)
    earliest = np.where(is_row, earliest, latest)
    if window.sliding == window.count:
        return Numbered(np.arange(len(first)), latest)
    copies = latest - earliest + 1
    index = np.repeat(np.arange(len(first)), copies)
    offset = np.arange(len(index)) - np.repeat(np.cumsum(copies) - copies, copies)
    # A row is in several windows, so that those of a group have to be brought together.
    group, number = groups.of_row[index], earliest[index] + offset
    order = np.lexsort((number, group))
    return Numbered(index[order], number[order])
