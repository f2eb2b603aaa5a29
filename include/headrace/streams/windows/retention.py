"""The windows in state: which of them a batch may affect, and which are retained after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Plan
from headrace.compute.plan import WEND, WSTART
from headrace.compute.windows import key_columns, window_columns
from headrace.compute.windows.segments import base_key_columns
from headrace.storage.row_matching import match_rows, row_ids
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import MAX_EVENT_TIME, MAX_EVENT_TIMES, StreamState
from headrace.streams.state.tables import NO_IDS, ROW_ID, StateTable
from headrace.streams.windows.change_batch import NEVER, Bools, ChangeBatch, Int64s, max_by_group, to_numpy
from headrace.streams.windows.emission import EmitState, follows_closing, notes_ends
from headrace.streams.windows.window_sql import ADDED, EMITTED

MAX_CLOSED_WINDOWS: Final = 20_000
"""Closed windows to retain, so that late rows need no read of the source. At least two for each subtable are retained."""


def state_columns(plan: Plan) -> list[str]:
    return [*window_columns(plan), EMITTED]


@dataclass(frozen=True)
class Span:
    """What decides which windows in state a batch may change: the first and last instant of its rows, in ticks.

    `written` is the last instant of inserted and updated rows; None if there is none. `series` and `groups`, those of the rows, are
    None for any.
    """

    first: int
    last: int
    written: int | None
    series: pa.ChunkedArray | None = None
    groups: pa.Table | None = None

    @classmethod
    def of(cls, batch: ChangeBatch, groups: pa.Table | None) -> Span:
        """Return the span of a batch with rows, and the group keys of these."""
        written = batch.ts[batch.is_written]
        return cls(int(batch.ts.min()), int(batch.ts.max()), int(written.max()) if len(written) else None, batch.series, groups)


def affected_windows(plan: StreamPlan, state: StreamState, span: Span) -> pa.Table | None:
    """Return the windows in state that a batch may change, continue or close, with `_id`; None if there are none in state."""
    windows = state.windows
    if windows is None or windows.num_rows == 0:
        return None
    affected = changed_windows(plan, windows, span)
    if not follows_closing(plan) or span.written is None:
        return affected
    max_event_time = span.written if state.max_event_time is None else max(span.written, state.max_event_time)
    closing = windows.where(partial(is_unfinished_before, plan, max_event_time - plan.watermark))
    others = np.setdiff1d(closing, ids_of(affected), assume_unique=True)
    return windows.take(np.sort(np.concatenate((ids_of(affected), others)))) if len(others) else affected


def changed_windows(plan: StreamPlan, windows: StateTable, span: Span) -> pa.Table:
    if span.groups is not None:
        in_groups = windows.take(windows.matching(span.groups))
        if in_groups.num_rows == 0:
            return in_groups
        return in_groups.filter(pa.array(may_be_affected(plan.query, in_groups, span.first, span.last)))
    is_affected = partial(may_be_affected, plan.query, first=span.first, last=span.last)
    if plan.query.depends_on_order:
        all_windows = windows.to_table(numbered=True)
        affected = all_windows.filter(pa.array(is_affected(all_windows)))
    else:
        affected = windows.take(windows.where(is_affected))
    if span.series is not None and (key := subtable_key(plan)) is not None:
        return affected.filter(pc.is_in(affected[key], pc.unique(span.series)))
    return affected


def is_unfinished_before(plan: StreamPlan, instant: int, windows: pa.Table) -> Bools:
    """Return a mask of the windows that end before an instant, and must then be written, or noted as ended."""
    has_ended, finished = ends_before(instant, windows), EmitState.ENDED if notes_ends(plan) else EmitState.CURRENT
    return has_ended & (to_numpy(windows[EMITTED]).astype(np.int64) < finished) if has_ended.any() else has_ended


def ids_of(windows: pa.Table) -> Int64s:
    return to_numpy(windows[ROW_ID]).astype(np.int64) if windows.num_rows else NO_IDS


def empty_state_windows(plan: StreamPlan, windows: pa.Table) -> pa.Table:
    columns = state_columns(plan.query)[:-1]
    return windows.slice(0, 0).select(columns).append_column(EMITTED, pa.nulls(0, pa.int32()))


def may_be_affected(plan: Plan, windows: pa.Table, first: int, last: int) -> Bools:
    start, end = to_numpy(windows[WSTART]).astype(np.int64), to_numpy(windows[WEND]).astype(np.int64)
    window = plan.kind
    if not window.depends_on_order:
        return np.asarray((start - window.reach <= last) & (end + window.reach >= first))
    (group,) = row_ids([windows], key_columns(plan))
    previous_start = max_by_group(group, np.where(start < first, start, NEVER), len(start))
    return np.asarray((end >= first) | (start == previous_start[group]) | is_last_in_partition(group, start, end))


def touches_evicted(plan: StreamPlan, windows: pa.Table, in_state: pa.Table | None, evicted_through: int | None) -> bool:
    """Return whether new rows are in windows of INTERVAL that are not in state since they may have been evicted."""
    if evicted_through is None:
        return False
    key = [*key_columns(plan.query), WSTART]
    touched = windows.filter(pc.and_(pc.less_equal(windows[WSTART], evicted_through), pc.greater(windows[ADDED], 0))).select(key)
    return bool((match_rows(touched, (touched.slice(0, 0) if in_state is None else in_state).select(key), key) < 0).any())


def is_last_in_partition(group: Int64s, start: Int64s, end: Int64s) -> Bools:
    """Return a mask of the windows that their partition's next row may continue: the last ones."""
    return np.asarray(end >= max_by_group(group, start, len(group))[group])


def subtable_key(plan: StreamPlan) -> str | None:
    """Return the key column that is the source's series key; None if the query is not partitioned by it."""
    series = plan.query.grouped_series
    return None if series is None else series.column


def replace_windows(plan: StreamPlan, windows: StateTable | None, before: pa.Table, after: pa.Table) -> StateTable | None:
    after = after.select(state_columns(plan.query))
    if windows is None:
        return StateTable.of(after, base_key_columns(plan.query)) if after.num_rows else None
    return windows.replace(ids_of(before), after)


def evict_windows(plan: StreamPlan, state: StreamState, max_closed_windows: int = MAX_CLOSED_WINDOWS) -> StreamState:
    """Return the state without windows that are behind DELETE_MARK, and without the oldest if too many are closed."""
    state = forget_subtables(plan, state)
    windows, watermark = state.windows, state.watermark(plan.watermark)
    if windows is None or watermark is None:
        return state
    max_closed = max(max_closed_windows, 2 * state.max_event_time_by_subtable.num_rows)
    are_too_many = windows.num_rows > max_closed and windows.count(partial(ends_before, watermark)) > max_closed
    mark = delete_mark_instant(plan, state)
    if mark is None and not are_too_many:
        return state
    closed = windows.take(windows.where(partial(ends_before, watermark if are_too_many or mark is None else min(mark, watermark))))
    if not plan.query.kind.is_fixed:
        closed = without_last(plan, windows, closed)
    excess = closed.num_rows - max_closed * 3 // 4 if closed.num_rows > max_closed else 0
    evicted = closed.filter(pa.array(is_evicted(closed, mark, excess)))
    if evicted.num_rows == 0:
        return state
    evicted_through = pc.max(evicted[WSTART if plan.query.kind.is_fixed else WEND]).as_py()
    return replace(
        state,
        windows=windows.replace(ids_of(evicted), evicted.slice(0, 0)),
        evicted_through=evicted_through if state.evicted_through is None else max(evicted_through, state.evicted_through),
    )


def ends_before(instant: int, windows: pa.Table) -> Bools:
    return np.asarray(windows[WEND].to_numpy() < instant)


def without_last(plan: StreamPlan, windows: StateTable, closed: pa.Table) -> pa.Table:
    """Return the closed windows without those that their partition's next row may continue."""
    if closed.num_rows == 0:
        return closed
    in_groups = windows.take(windows.matching(closed))
    start, end = (to_numpy(in_groups[name]).astype(np.int64) for name in (WSTART, WEND))
    is_last = is_last_in_partition(row_ids([in_groups], key_columns(plan.query))[0], start, end)
    return closed.filter(pa.array(~np.isin(ids_of(closed), ids_of(in_groups)[is_last])))


def is_evicted(closed: pa.Table, mark: int | None, excess: int) -> Bools:
    end = to_numpy(closed[WEND]).astype(np.int64)
    is_oldest = np.zeros(len(end), np.bool_)
    is_oldest[np.argsort(end, kind="stable")[:excess]] = True
    return np.asarray(is_oldest | (end < (NEVER if mark is None else mark)))


def delete_mark_instant(plan: StreamPlan, state: StreamState) -> int | None:
    """Return the instant before which state is dropped; None if nothing is."""
    if plan.delete_mark is None or state.max_event_time is None:
        return None
    return state.max_event_time - plan.delete_mark


def forget_subtables(plan: StreamPlan, state: StreamState) -> StreamState:
    instant, times = delete_mark_instant(plan, state), state.max_event_time_by_subtable
    needs_order = plan.leaves_rows_out and not plan.options.ignore_expired
    if instant is None or times.num_rows == 0 or needs_order:
        return state
    old = times.where(lambda rows: np.asarray(rows[MAX_EVENT_TIME].to_numpy() < instant))
    return replace(state, max_event_time_by_subtable=times.replace(old, MAX_EVENT_TIMES.empty_table())) if len(old) else state
