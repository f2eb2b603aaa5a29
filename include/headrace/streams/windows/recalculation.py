"""Components: what has to be evaluated together when a row of it came late, was changed, or was taken away.

- INTERVAL: a window. Its neighbours are not its business.
- SESSION: sessions and rows that are linked by gaps no longer than the session's, at any moment of the batch.
- STATE, EVENT, COUNT: a partition, from the window on that the earliest such row can change. While rows come in order nothing has
  to be evaluated again: they continue the partition's last window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.compute import Plan
from headrace.compute.plan import END as WINDOW_END
from headrace.compute.plan import FIRST, ROWS, CountWindow, EventWindow, IntervalWindow, SessionWindow, StateWindow
from headrace.streams.windows.changes import NEVER, REPAIRS, Bools, Int64s, RowKind, running_maximum_before, to_numpy
from headrace.streams.windows.lateness import BatchSegments, first_touch, last_repair, latest

BEGINNING: Final = np.iinfo(np.int64).min // 4
"""Stands for the beginning of time where a component reaches back to it."""
END: Final = np.iinfo(np.int64).max // 4


@dataclass(frozen=True)
class Components:
    """For each segment its component, and of each component:

    Attributes:
        of: its number, for each segment.
        again: the write at which it is evaluated again, `NEVER` where it is not.
        group: its partition.
        first, last: the instants between which it is evaluated. Windows held of it that start before `first` are left alone.
        unknown: whether windows of it may exist that are not held.
    """

    of: Int64s
    again: Int64s
    group: Int64s
    first: Int64s
    last: Int64s
    unknown: Bools

    @property
    def needs_recalculation(self) -> Bools:
        return np.asarray(self.again != NEVER)

    def unaffected(self, segments: BatchSegments) -> Bools:
        """Held windows and stored rows that lie before what is evaluated of their component."""
        old = np.isin(segments.kind, (RowKind.HELD, RowKind.STORED))
        return np.asarray(old & self.needs_recalculation[self.of] & (segments.start < self.first[self.of]))


def components(plan: Plan, segments: BatchSegments, evicted_through: int | None) -> Components:
    """The components of a batch. `evicted_through`: windows that are not held start (INTERVAL) or end (others) at or before it."""
    match plan.window:
        case IntervalWindow():
            return of_intervals(segments, evicted_through)
        case SessionWindow(gap=gap):
            return of_sessions(segments, gap, evicted_through)
        case _:
            return of_partitions(plan, segments, evicted_through)


def of_intervals(segments: BatchSegments, evicted_through: int | None) -> Components:
    _, of = np.unique(np.stack((segments.group, segments.start)), axis=1, return_inverse=True)
    of = of.reshape(-1).astype(np.int64)
    unknown = np.zeros(int(of.max()) + 1, np.bool_)
    if evicted_through is not None:
        unknown[of[segments.start <= evicted_through]] = True
        unknown[of[segments.are(RowKind.HELD)]] = False
    return bounded(segments, of, unknown)


def of_sessions(segments: BatchSegments, gap: int, evicted_through: int | None) -> Components:
    """Rows and sessions linked by gaps; a row that has expired is linked to nothing."""
    linked = np.flatnonzero(~segments.expired)
    linked = linked[np.lexsort((segments.start[linked], segments.group[linked]))]
    group, start, end = segments.group[linked], segments.start[linked], segments.end[linked]
    new = np.ones(len(linked), np.bool_)
    new[1:] = (group[1:] != group[:-1]) | (start[1:] > running_maximum(group, end)[:-1] + gap)
    of = np.full(len(segments.start), -1)
    of[linked] = np.cumsum(new) - 1
    alone = of < 0
    of[alone] = int(of.max(initial=-1)) + 1 + np.arange(int(alone.sum()))
    unknown = np.zeros(int(of.max()) + 1, np.bool_)
    if evicted_through is not None:
        unknown[of[(segments.start - gap <= evicted_through) & ~segments.expired]] = True
    return bounded(segments, of.astype(np.int64), unknown)


def running_maximum(group: Int64s, value: Int64s) -> Int64s:
    """The largest value so far of each group; groups come one after the other."""
    if len(value) == 0:
        return value
    values, rank = np.unique(value, return_inverse=True)
    # Ranks of one group lie above those of the group before, so that one running maximum serves all groups.
    number = np.cumsum(np.concatenate(([0], group[1:] != group[:-1])))
    return np.asarray(values[np.maximum.accumulate(number * len(values) + rank) % len(values)])


def bounded(segments: BatchSegments, of: Int64s, unknown: Bools) -> Components:
    """Components, evaluated again at the last write that took or changed a row, unknown ones at the first that touched them."""
    count = len(unknown)
    marked = last_repair(segments, of, count)
    again = np.where((marked == NEVER) & unknown, first_touch(segments, of, count), marked)
    group, first, last = np.zeros(count, np.int64), np.full(count, END), np.full(count, BEGINNING)
    group[of] = segments.group
    np.minimum.at(first, of, segments.start)
    np.maximum.at(last, of, segments.end)
    return Components(of, again, group, first, last, unknown)


def of_partitions(plan: Plan, segments: BatchSegments, evicted_through: int | None) -> Components:
    """Partitions, evaluated again at the write of their last row out of order."""
    of, count = segments.group, int(segments.group.max()) + 1
    disordered = out_of_order(segments)
    again = np.maximum(last_repair(segments, of, count), latest(of, segments.version, disordered, count))
    upset = segments.are(*REPAIRS) | (segments.are(RowKind.INPUT) & (segments.version <= again[of]))
    earliest = np.full(count, END)
    np.minimum.at(earliest, of[upset], segments.start[upset])
    first = np.full(count, END)
    for group in np.flatnonzero(again != NEVER):
        first[group] = anchor(plan, segments, int(group), int(earliest[group]), evicted_through)
    unknown = (again != NEVER) & (first <= (BEGINNING if evicted_through is None else evicted_through))
    return Components(of, again, np.arange(count), first, np.full(count, END), unknown)


def out_of_order(segments: BatchSegments) -> Bools:
    """New rows that are not later than what their partition had before their write."""
    known = segments.are(RowKind.HELD, RowKind.INPUT)
    before = np.maximum(
        running_maximum_before(segments.group, segments.version, np.where(known, segments.end, NEVER)), segments.reached
    )
    return np.asarray(segments.are(RowKind.INPUT) & (segments.start <= before))


def held_of(segments: BatchSegments, group: int) -> Int64s:
    """The rows of a partition's windows in state, in the order of time."""
    held = np.flatnonzero(segments.are(RowKind.HELD) & (segments.group == group))
    return held[np.argsort(segments.start[held], kind="stable")]


def anchor(plan: Plan, segments: BatchSegments, group: int, earliest: int, evicted_through: int | None) -> int:
    """Return the instant from which to recalculate a partition whose rows before `earliest` are unchanged.

    No window may be open just before that instant: what lies before it is left alone.
    """
    if evicted_through is not None and earliest <= evicted_through:
        return BEGINNING
    held = held_of(segments, group)
    if isinstance(plan.window, StateWindow):
        # The run before may join the run after, so it is recalculated as well.
        before = segments.start[held][segments.start[held] < earliest]
        return int(before[-1]) if len(before) else earliest if evicted_through is None else BEGINNING
    changed = segments.start[held][may_hold(plan, segments, held, earliest)]
    return min(int(changed[0]), earliest) if len(changed) else earliest


def may_hold(plan: Plan, segments: BatchSegments, held: Int64s, instant: int) -> Bools:
    """Tell which windows in state end at `instant` or later, or take further rows that come before it or at it."""
    reaches = segments.end[held] >= instant
    rows = segments.rows.take(pa.array(held))
    match plan.window:
        case EventWindow():
            open_ = ~to_numpy(rows[WINDOW_END]).astype(np.bool_)
            return np.asarray((segments.start[held] <= instant) & (reaches | open_))
        case CountWindow(count=size):
            return np.asarray(reaches | (to_numpy(rows[ROWS]).astype(np.int64) < size))
    return np.asarray(reaches)


def counted_before(segments: BatchSegments, found: Components) -> Int64s:
    """Return for each partition the number of rows before what is recalculated of it, from which COUNT windows are numbered."""
    first_row, rows = (to_numpy(segments.rows[name].fill_null(0)).astype(np.int64) for name in (FIRST, ROWS))
    offsets = np.zeros(len(found.again), np.int64)
    for group in np.flatnonzero(found.needs_recalculation & (found.first != BEGINNING)):
        held = held_of(segments, int(group))
        after = held[segments.start[held] >= found.first[group]]
        # Without a window after it, all rows that windows have come before it.
        offsets[group] = first_row[after[0]] if len(after) else (first_row + rows)[held].max(initial=0)
    return offsets
