"""Recalculation scopes: what has to be recalculated together if one of its rows is late, changed or deleted.

Windows that depend on the order of rows are recalculated by partition, from the earliest window that such a row can change. Rows in
order need no recalculation: they continue the partition's last window. Of other windows, `WindowPlan.scopes` says what is linked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.compute import Plan
from headrace.compute.plan import FIRST_ROW, ROW_COUNT
from headrace.streams.windows.change_batch import (
    NEVER,
    RECALCULATION_KINDS,
    Bools,
    Int64s,
    RowKind,
    max_by_group,
    running_maximum_before,
    to_numpy,
)
from headrace.streams.windows.lateness import BatchSegments, first_insert_version, last_change_version

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
    """Return scopes that are recalculated at the last write that deleted or changed a row.

    A scope that may have evicted windows is recalculated at the first write that touches it, if there is no such write.
    """
    window = plan.kind
    scope = window.scopes(segments.group, segments.start, segments.end, segments.expired)
    if scope is None:
        return partition_scopes(plan, segments, evicted_through)
    count = int(scope.max()) + 1
    maybe_evicted = np.zeros(count, np.bool_)
    if evicted_through is not None:
        maybe_evicted[scope[(segments.start - window.reach <= evicted_through) & ~segments.expired]] = True
        if window.is_fixed:
            maybe_evicted[scope[segments.is_kind(RowKind.IN_STATE)]] = False
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
    last_out_of_order = max_by_group(scope[is_out_of_order], segments.version[is_out_of_order], count)
    recalculated_at = np.maximum(last_change_version(segments, scope, count), last_out_of_order)
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
    return np.flatnonzero(segments.is_kind(RowKind.IN_STATE) & (segments.group == group))


def recalculate_from(plan: Plan, segments: BatchSegments, group: int, earliest: int, evicted_through: int | None) -> int:
    """Return the instant from which to recalculate a partition whose rows before `earliest` are unchanged."""
    if evicted_through is not None and earliest <= evicted_through:
        return BEGINNING
    in_state = segments.rows.take(pa.array(find_state_windows(segments, group)))
    first = plan.kind.recalculate_from(in_state, earliest, has_evicted=evicted_through is not None)
    return BEGINNING if first is None else first


def rows_before_scopes(segments: BatchSegments, scopes: RecalculationScopes) -> Int64s:
    """Return for each partition the number of rows before the recalculated part, from which COUNT windows are numbered."""
    first_row, rows = (to_numpy(segments.rows[name].fill_null(0)).astype(np.int64) for name in (FIRST_ROW, ROW_COUNT))
    offsets = np.zeros(len(scopes.recalculated_at), np.int64)
    for group in np.flatnonzero(scopes.needs_recalculation & (scopes.first != BEGINNING)):
        in_state = find_state_windows(segments, int(group))
        after = in_state[segments.start[in_state] >= scopes.first[group]]
        # If no window follows, all rows of windows in state come before it.
        offsets[group] = first_row[after].min() if len(after) else (first_row + rows)[in_state].max(initial=0)
    return offsets
