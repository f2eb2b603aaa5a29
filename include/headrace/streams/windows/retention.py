"""The windows in state: which of them a batch may affect, and which are retained after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Plan
from headrace.compute.plan import WEND, WSTART
from headrace.compute.window_plans import IntervalWindow, SessionWindow
from headrace.compute.windows import key_columns
from headrace.model.streams import TriggerMode
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import MAX_EVENT_TIME, StreamState
from headrace.streams.windows.change_batch import NEVER, Bools, ChangeBatch, Int64s, to_numpy
from headrace.streams.windows.emission import EmitState, flags, is_closed
from headrace.streams.windows.row_matching import row_ids
from headrace.streams.windows.window_sql import EMITTED, window_columns

MAX_CLOSED_WINDOWS: Final = 20_000
"""Closed windows to retain, so that late rows need no read of the source. At least two for each subtable are retained."""


def state_columns(plan: Plan) -> list[str]:
    """Return the columns of a window in state."""
    return [*window_columns(plan), EMITTED]


@dataclass(frozen=True)
class Span:
    """What decides which windows in state a batch may change.

    Attributes:
        first: The first instant of its rows, in ticks.
        last: The last one.
        written: The last one of its inserted and updated rows; None if there is none.
        series: The names of its rows' series; None for any.
    """

    first: int
    last: int
    written: int | None
    series: pa.ChunkedArray | None = None

    @classmethod
    def of(cls, batch: ChangeBatch) -> Span:
        """Return the span of a batch with rows."""
        written = batch.ts[batch.is_written]
        return cls(int(batch.ts.min()), int(batch.ts.max()), int(written.max()) if len(written) else None, batch.series)


def split_state(plan: StreamPlan, state: StreamState, span: Span) -> tuple[pa.Table | None, pa.Table | None]:
    """Split the windows in state into those that a batch may change, continue or close, and the others."""
    windows = state.windows
    if windows is None or windows.num_rows == 0:
        return None, None
    is_affected = may_be_affected(plan.query, windows, span.first, span.last)
    if span.series is not None and (key := subtable_key(plan)) is not None:
        is_affected &= flags(pc.is_in(windows[key], pc.unique(span.series)))
    if plan.options.trigger is not TriggerMode.AT_ONCE and span.written is not None:
        max_event_time = span.written if state.max_event_time is None else max(span.written, state.max_event_time)
        is_affected |= (to_numpy(windows[WEND]).astype(np.int64) < max_event_time - plan.watermark) & (
            to_numpy(windows[EMITTED]) != EmitState.CURRENT
        )
    return windows.filter(pa.array(is_affected)), windows.filter(pa.array(~is_affected))


def empty_state_windows(plan: StreamPlan, windows: pa.Table) -> pa.Table:
    """Return no rows, with the columns of windows in state."""
    columns = state_columns(plan.query)[:-1]
    return windows.slice(0, 0).select(columns).append_column(EMITTED, pa.nulls(0, pa.int32()))


def may_be_affected(plan: Plan, windows: pa.Table, first: int, last: int) -> Bools:
    """Return a mask of the windows that rows between two instants may change or continue."""
    start, end = to_numpy(windows[WSTART]).astype(np.int64), to_numpy(windows[WEND]).astype(np.int64)
    match plan.window:
        case IntervalWindow():
            return np.asarray((start <= last) & (end >= first))
        case SessionWindow(gap=gap):
            return np.asarray((start - gap <= last) & (end + gap >= first))
        case _:
            (group,) = row_ids([windows], key_columns(plan))
            previous_start = max_by_group(group, np.where(start < first, start, NEVER))
            return np.asarray((end >= first) | (start == previous_start[group]) | is_last_in_partition(group, start, end))


def max_by_group(group: Int64s, value: Int64s) -> Int64s:
    """Return the largest value of each group."""
    maximum = np.full(int(group.max()) + 1, NEVER)
    np.maximum.at(maximum, group, value)
    return maximum


def is_last_in_partition(group: Int64s, start: Int64s, end: Int64s) -> Bools:
    """Return a mask of the windows that their partition's next row may continue: the last ones."""
    return np.asarray(end >= max_by_group(group, start)[group])


def subtable_key(plan: StreamPlan) -> str | None:
    """Return the key column that is the source's series key; None if the query is not partitioned by it."""
    series = plan.query.grouped_series
    return None if series is None else series.column


def evict_windows(
    plan: StreamPlan, state: StreamState, parts: Sequence[pa.Table | None], max_closed_windows: int = MAX_CLOSED_WINDOWS
) -> StreamState:
    """Return the state with these windows. Those behind DELETE_MARK, and the oldest if too many are closed, are evicted."""
    state = forget_subtables(plan, state)
    columns = state_columns(plan.query)
    windows = [part.select(columns) for part in parts if part is not None and part.num_rows]
    if not windows:
        return replace(state, windows=None)
    all_windows = pa.concat_tables(windows, promote_options="permissive").combine_chunks()
    closed = flags(is_closed(all_windows, state.watermark(plan.watermark)))
    max_closed = max(max_closed_windows, 2 * state.max_event_time_by_subtable.num_rows)
    start, end = to_numpy(all_windows[WSTART]).astype(np.int64), to_numpy(all_windows[WEND]).astype(np.int64)
    mark = delete_mark_instant(plan, state)
    is_evicted = end < (NEVER if mark is None else mark)
    if closed.sum() <= max_closed and not is_evicted.any():
        return replace(state, windows=all_windows)
    if not isinstance(plan.query.window, IntervalWindow):
        closed &= ~is_last_in_partition(row_ids([all_windows], key_columns(plan.query))[0], start, end)
    is_evicted &= closed
    if closed.sum() > max_closed:
        is_evicted |= select_oldest(closed, end, int(closed.sum()) - max_closed * 3 // 4)
    if not is_evicted.any():
        return replace(state, windows=all_windows)
    evicted_through = int((start if isinstance(plan.query.window, IntervalWindow) else end)[is_evicted].max())
    return replace(
        state,
        windows=all_windows.filter(pa.array(~is_evicted)),
        evicted_through=evicted_through if state.evicted_through is None else max(evicted_through, state.evicted_through),
    )


def delete_mark_instant(plan: StreamPlan, state: StreamState) -> int | None:
    """Return the instant before which state is dropped; None if nothing is."""
    if plan.delete_mark is None or state.max_event_time is None:
        return None
    return state.max_event_time - plan.delete_mark


def forget_subtables(plan: StreamPlan, state: StreamState) -> StreamState:
    """Return the state without the largest event times of subtables that are behind DELETE_MARK."""
    instant, times = delete_mark_instant(plan, state), state.max_event_time_by_subtable
    needs_order = plan.leaves_rows_out and not plan.options.ignore_expired
    if instant is None or times.num_rows == 0 or needs_order:
        return state
    is_recent = pc.greater_equal(times[MAX_EVENT_TIME], instant)
    return state if pc.all(is_recent).as_py() else replace(state, max_event_time_by_subtable=times.filter(is_recent))


def select_oldest(closed: Bools, end: Int64s, count: int) -> Bools:
    """Return a mask of the `count` closed windows that ended first."""
    order = np.argsort(np.where(closed, end, np.iinfo(np.int64).max), kind="stable")
    is_oldest = np.zeros(len(end), np.bool_)
    is_oldest[order[: max(0, count)]] = True
    return is_oldest & closed
