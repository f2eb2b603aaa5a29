"""Recalculation scopes: what has to be recalculated together if one of its rows is late, changed or deleted.

- INTERVAL: the row's own window; adjacent windows are unaffected.
- SESSION: sessions and rows that are linked, at any moment of the batch, by gaps no longer than the session's.
- STATE, EVENT, COUNT: a partition, from the earliest window that such a row can change. Rows in order need no recalculation: they
  continue the partition's last window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.compute import Plan
from headrace.compute.columnar.runs import Runs, combined, marks, renumbered
from headrace.compute.columnar.segments import number_sessions
from headrace.compute.plan import FIRST_ROW, ROW_COUNT
from headrace.compute.plan import IS_END as WINDOW_END
from headrace.compute.window_plans import CountWindow, EventWindow, IntervalWindow, SessionWindow, StateWindow
from headrace.streams.windows.change_batch import (
    NEVER,
    RECALCULATION_KINDS,
    Bools,
    Int64s,
    RowKind,
    running_maximum_before,
    to_numpy,
)
from headrace.streams.windows.lateness import BatchSegments, first_insert_version, last_change_version, max_version

BEGINNING: Final = np.iinfo(np.int64).min // 4
"""The start of a scope that covers a partition from its first row."""
END: Final = np.iinfo(np.int64).max // 4


@dataclass(frozen=True)
class RecalculationScopes:
    """The recalculation scopes of a batch. `of_segment` has one entry for each segment, the others one for each scope.

    Attributes:
        of_segment: The scope of each segment.
        recalculated_at: The version at which the scope is recalculated; `NEVER` if it is not.
        group: The scope's partition.
        first: The instant from which it is recalculated, in ticks. Windows in state that start before it are unaffected.
        last: The last instant that is recalculated, in ticks.
        maybe_evicted: Whether the scope may have windows that were evicted from the state.
    """

    of_segment: Int64s
    recalculated_at: Int64s
    group: Int64s
    first: Int64s
    last: Int64s
    maybe_evicted: Bools

    @property
    def needs_recalculation(self) -> Bools:
        return np.asarray(self.recalculated_at != NEVER)

    def unaffected(self, segments: BatchSegments) -> Bools:
        """Return a mask of the windows in state and stored rows that lie before the recalculated part of their scope."""
        old = np.isin(segments.kind, (RowKind.IN_STATE, RowKind.STORED))
        return np.asarray(old & self.needs_recalculation[self.of_segment] & (segments.start < self.first[self.of_segment]))


def find_scopes(plan: Plan, segments: BatchSegments, evicted_through: int | None) -> RecalculationScopes:
    match plan.window:
        case IntervalWindow():
            return interval_scopes(segments, evicted_through)
        case SessionWindow(gap=gap):
            return session_scopes(segments, gap, evicted_through)
        case _:
            return partition_scopes(plan, segments, evicted_through)


def interval_scopes(segments: BatchSegments, evicted_through: int | None) -> RecalculationScopes:
    scope, _ = renumbered(combined([segments.group, segments.start], len(segments.start)))
    maybe_evicted = np.zeros(int(scope.max()) + 1, np.bool_)
    if evicted_through is not None:
        maybe_evicted[scope[segments.start <= evicted_through]] = True
        maybe_evicted[scope[segments.is_kind(RowKind.IN_STATE)]] = False
    return build_scopes(segments, scope, maybe_evicted)


def session_scopes(segments: BatchSegments, gap: int, evicted_through: int | None) -> RecalculationScopes:
    """Return one scope for rows and sessions linked by gaps. An expired row is linked to nothing."""
    linked = np.flatnonzero(~segments.expired)
    linked = linked[np.lexsort((segments.start[linked], segments.group[linked]))]
    groups = Runs.of(marks([segments.group[linked]], len(linked)))
    scope = np.full(len(segments.start), -1)
    scope[linked] = number_sessions(segments.start[linked], segments.end[linked], groups, gap).window - 1
    is_expired = scope < 0
    scope[is_expired] = int(scope.max(initial=-1)) + 1 + np.arange(int(is_expired.sum()))
    maybe_evicted = np.zeros(int(scope.max()) + 1, np.bool_)
    if evicted_through is not None:
        maybe_evicted[scope[(segments.start - gap <= evicted_through) & ~segments.expired]] = True
    return build_scopes(segments, scope.astype(np.int64), maybe_evicted)


def build_scopes(segments: BatchSegments, scope: Int64s, maybe_evicted: Bools) -> RecalculationScopes:
    """Return scopes that are recalculated at the last write that deleted or changed a row.

    A scope that may have evicted windows is recalculated at the first write that touches it, if there is no such write.
    """
    count = len(maybe_evicted)
    last_change = last_change_version(segments, scope, count)
    recalculated_at = np.where((last_change == NEVER) & maybe_evicted, first_insert_version(segments, scope, count), last_change)
    group, first, last = np.zeros(count, np.int64), np.full(count, END), np.full(count, BEGINNING)
    group[scope] = segments.group
    np.minimum.at(first, scope, segments.start)
    np.maximum.at(last, scope, segments.end)
    return RecalculationScopes(scope, recalculated_at, group, first, last, maybe_evicted)


def partition_scopes(plan: Plan, segments: BatchSegments, evicted_through: int | None) -> RecalculationScopes:
    """Return one scope for each partition, recalculated at the write of its last row that is out of order, changed or deleted."""
    scope, count = segments.group, int(segments.group.max()) + 1
    is_out_of_order = find_out_of_order(segments)
    recalculated_at = np.maximum(
        last_change_version(segments, scope, count), max_version(scope, segments.version, is_out_of_order, count)
    )
    triggers_recalculation = segments.is_kind(*RECALCULATION_KINDS) | (
        segments.is_kind(RowKind.INSERT) & (segments.version <= recalculated_at[scope])
    )
    earliest = np.full(count, END)
    np.minimum.at(earliest, scope[triggers_recalculation], segments.start[triggers_recalculation])
    first = np.full(count, END)
    for group in np.flatnonzero(recalculated_at != NEVER):
        first[group] = recalculate_from(plan, segments, int(group), int(earliest[group]), evicted_through)
    maybe_evicted = (recalculated_at != NEVER) & (first <= (BEGINNING if evicted_through is None else evicted_through))
    return RecalculationScopes(scope, recalculated_at, np.arange(count), first, np.full(count, END), maybe_evicted)


def find_out_of_order(segments: BatchSegments) -> Bools:
    is_counted = segments.is_kind(RowKind.IN_STATE, RowKind.INSERT)
    max_time = np.maximum(
        running_maximum_before(segments.group, segments.version, np.where(is_counted, segments.end, NEVER)), segments.reached
    )
    return np.asarray(segments.is_kind(RowKind.INSERT) & (segments.start <= max_time))


def find_state_windows(segments: BatchSegments, group: int) -> Int64s:
    indexes = np.flatnonzero(segments.is_kind(RowKind.IN_STATE) & (segments.group == group))
    return indexes[np.argsort(segments.start[indexes], kind="stable")]


def recalculate_from(plan: Plan, segments: BatchSegments, group: int, earliest: int, evicted_through: int | None) -> int:
    """Return the instant from which to recalculate a partition whose rows before `earliest` are unchanged.

    No window may be open just before that instant, since windows before it are unaffected.
    """
    if evicted_through is not None and earliest <= evicted_through:
        return BEGINNING
    in_state = find_state_windows(segments, group)
    if isinstance(plan.window, StateWindow):
        # The run before may join the run after, so it is recalculated as well.
        earlier = segments.start[in_state][segments.start[in_state] < earliest]
        return int(earlier[-1]) if len(earlier) else earliest if evicted_through is None else BEGINNING
    changed = segments.start[in_state][may_contain(plan, segments, in_state, earliest)]
    return min(int(changed[0]), earliest) if len(changed) else earliest


def may_contain(plan: Plan, segments: BatchSegments, in_state: Int64s, instant: int) -> Bools:
    """Return a mask of the windows in state that end at `instant` or later, or may take rows up to it."""
    ends_later = segments.end[in_state] >= instant
    rows = segments.rows.take(pa.array(in_state))
    match plan.window:
        case EventWindow():
            is_open = ~to_numpy(rows[WINDOW_END]).astype(np.bool_)
            return np.asarray((segments.start[in_state] <= instant) & (ends_later | is_open))
        case CountWindow(count=size):
            return np.asarray(ends_later | (to_numpy(rows[ROW_COUNT]).astype(np.int64) < size))
    return np.asarray(ends_later)


def rows_before_scopes(segments: BatchSegments, scopes: RecalculationScopes) -> Int64s:
    """Return for each partition the number of rows before the recalculated part, from which COUNT windows are numbered."""
    first_row, rows = (to_numpy(segments.rows[name].fill_null(0)).astype(np.int64) for name in (FIRST_ROW, ROW_COUNT))
    offsets = np.zeros(len(scopes.recalculated_at), np.int64)
    for group in np.flatnonzero(scopes.needs_recalculation & (scopes.first != BEGINNING)):
        in_state = find_state_windows(segments, int(group))
        after = in_state[segments.start[in_state] >= scopes.first[group]]
        # If no window follows, all rows of windows in state come before it.
        offsets[group] = first_row[after[0]] if len(after) else (first_row + rows)[in_state].max(initial=0)
    return offsets
