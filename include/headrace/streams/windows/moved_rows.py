"""Which rows a change of tags moves, if a stream has not computed the windows of all of them: one without history.

A row whose window the stream has computed leaves it, and takes part in its window in the new group. Other rows of its subtable are
as if they had not been written, as before, except in windows that the stream has in their new group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import SERIES_KEY, TS, WEND, WSTART
from headrace.compute.windows import key_columns
from headrace.context import Context
from headrace.storage.row_matching import match_rows, row_ids
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sinks.target import GROUP, TargetTable
from headrace.streams.sinks.target_groups import plain
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.state.tables import concat
from headrace.streams.windows.change_batch import CHANGE, Bools, ChangeBatch, Int64s, to_numpy
from headrace.streams.windows.rewritten_rows import find_windows
from headrace.streams.windows.window_sql import ROW


@dataclass(frozen=True)
class MovedRows:
    """Selects segments of rows of retagged subtables: those of windows that are recalculated, in the old and the new group.

    The stream has computed the windows of all rows in `computed`; `is_computed` returns a mask of the segments of others, those
    whose window it has.
    """

    computed: Sequence[tuple[int, int]]
    is_computed: Callable[[pa.Table], Bools]

    def select(self, batch: ChangeBatch, is_old: Bools, segments: pa.Table) -> pa.Table:
        """Return those of the segments of a batch. It has each row with its earlier tags (`is_old`) and with the present ones."""
        if segments.num_rows == 0:
            return segments
        row = to_numpy(segments[ROW]).astype(np.int64)
        is_computed = is_within(batch.ts[row], self.computed) | self.is_computed(segments)
        columns = {SERIES_KEY: batch.series.take(pa.array(row)), TS: pa.array(batch.ts[row]), WSTART: segments[WSTART]}
        windows = pa.table(columns)
        left = windows.filter(pa.array(is_computed & is_old[row]))
        has_left = match_rows(windows, left, windows.column_names) >= 0
        return segments.filter(pa.array(is_computed | (has_left & ~is_old[row])))


def has_earlier_tags(changes: pa.Table) -> Bools:
    """Return a mask of the rows of a change of tags that have their earlier tags."""
    return to_numpy(pc.equal(changes[CHANGE], "delete")).astype(np.bool_)


def is_within(ticks: Int64s, ranges: Sequence[tuple[int, int]]) -> Bools:
    """Return a mask of the instants in ranges that are disjoint and in order."""
    first, last = np.array(ranges).reshape(-1, 2).T
    index = np.searchsorted(first, ticks, "right") - 1
    return np.asarray((index >= 0) & (ticks <= np.append(last, 0)[index]))


@dataclass(frozen=True)
class ComputedWindows:
    """The windows that a stream has: those in its state, and those in its target."""

    context: Context
    plan: StreamPlan
    state: StreamState

    def has(self, segments: pa.Table) -> Bools:
        """Return a mask of the segments whose window the stream has.

        Of windows that depend on the order of rows, a group has all from the first one on.
        """
        keys = key_columns(self.plan.query)
        own, windows = plain_keys(segments, keys), self.windows_of(segments)
        if not self.plan.query.depends_on_order:
            return np.asarray(match_rows(own, windows, [*keys, WSTART]) >= 0)
        group, window_group = row_ids([own, windows], keys)
        first = np.full(int(group.max()) + 1 + windows.num_rows, np.iinfo(np.int64).max)
        np.minimum.at(first, window_group, starts(windows))
        return np.asarray(starts(own) >= first[group])

    def windows_of(self, segments: pa.Table) -> pa.Table:
        """Return the keys and starts of the windows of the groups of segments, at least those between their starts."""
        keys = key_columns(self.plan.query)
        (group,) = row_ids([segments], keys)
        groups = segments.take(pa.array(np.unique(group, return_index=True)[1]))
        first, last = (pc.min_max(segments[WSTART])[name].as_py() for name in ("min", "max"))
        stored = TargetTable(self.context, self.plan).windows_between(groups, first, last)
        in_target = pa.table({name: groups[name].take(stored[GROUP]) for name in keys} | {WSTART: stored[WSTART]})
        in_state = self.state.windows
        if in_state is None:
            return plain_keys(in_target, keys)
        return concat([plain_keys(rows, keys) for rows in (in_target, in_state.take(in_state.matching(groups)))])


@dataclass(frozen=True)
class ComputedSessions:
    """Sessions that a stream has, by their keys, with the extent of their rows."""

    plan: StreamPlan
    sessions: pa.Table

    def has(self, segments: pa.Table) -> Bools:
        keys = key_columns(self.plan.query)
        group, own = row_ids([plain_keys(self.sessions, keys), plain_keys(segments, keys)], keys)
        start, end = starts(self.sessions), to_numpy(self.sessions[WEND]).astype(np.int64)
        order = np.lexsort((end, start, group))
        low, high = find_windows(group[order], start[order], end[order], own, starts(segments))
        return np.asarray(high > low)


def starts(windows: pa.Table) -> Int64s:
    return to_numpy(windows[WSTART]).astype(np.int64)


def plain_keys(windows: pa.Table, keys: list[str]) -> pa.Table:
    """Return the keys and starts of windows in types that are the same in all tables."""
    return pa.table({name: plain(windows[name]) for name in keys} | {WSTART: windows[WSTART].cast(pa.int64())})
