"""The windows that a state holds: which of them a batch concerns, and which are still held after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Plan
from headrace.compute.plan import WEND, WSTART, IntervalWindow, SessionWindow
from headrace.compute.windows import key_columns
from headrace.model.streams import TriggerMode
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows.changes import NEVER, Bools, ChangeBatch, Int64s, to_numpy
from headrace.streams.windows.emission import CURRENT, flags, is_closed
from headrace.streams.windows.row_matching import identities
from headrace.streams.windows.window_sql import EMITTED, window_columns

MAX_CLOSED_WINDOWS: Final = 20_000
"""Closed windows that are held so that late rows find them without a read of the source; twice the subtables where that is more."""


def state_columns(plan: Plan) -> list[str]:
    """Columns of a window as the state holds it."""
    return [*window_columns(plan), EMITTED]


def candidates(plan: StreamPlan, state: StreamState, batch: ChangeBatch) -> tuple[pa.Table | None, pa.Table | None]:
    """Held windows that the batch may touch, continue or close, and the others."""
    windows = state.windows
    if windows is None or windows.num_rows == 0:
        return None, None
    chosen = concerned(plan.query, windows, int(batch.ts.min()), int(batch.ts.max()))
    if (key := subtable_key(plan)) is not None:
        chosen &= flags(pc.is_in(windows[key], pc.unique(batch.series)))
    written = batch.ts[batch.written]
    if plan.options.trigger is not TriggerMode.AT_ONCE and len(written):
        max_event_time = written.max() if state.max_event_time is None else max(written.max(), state.max_event_time)
        chosen |= (to_numpy(windows[WEND]) < max_event_time - plan.watermark) & (to_numpy(windows[EMITTED]) != CURRENT)
    return windows.filter(pa.array(chosen)), windows.filter(pa.array(~chosen))


def concerned(plan: Plan, windows: pa.Table, first: int, last: int) -> Bools:
    """Windows that rows between two instants may change, or that tell what they continue."""
    start, end = to_numpy(windows[WSTART]).astype(np.int64), to_numpy(windows[WEND]).astype(np.int64)
    match plan.window:
        case IntervalWindow():
            return np.asarray((start <= last) & (end >= first))
        case SessionWindow(gap=gap):
            return np.asarray((start - gap <= last) & (end + gap >= first))
        case _:
            (group,) = identities([windows], key_columns(plan))
            before = greatest(group, np.where(start < first, start, NEVER))
            return np.asarray((end >= first) | (start == before[group]) | tails(group, start, end))


def greatest(group: Int64s, value: Int64s) -> Int64s:
    """The largest value of each group."""
    found = np.full(int(group.max()) + 1, NEVER)
    np.maximum.at(found, group, value)
    return found


def tails(group: Int64s, start: Int64s, end: Int64s) -> Bools:
    """Windows that may go on with their partition's next row: the last ones."""
    return np.asarray(end >= greatest(group, start)[group])


def subtable_key(plan: StreamPlan) -> str | None:
    """The group column that is the source's series key, where the query is partitioned by it."""
    series = plan.query.grouped_series
    return None if series is None else series.column


def kept_windows(plan: StreamPlan, state: StreamState, parts: Sequence[pa.Table | None]) -> StreamState:
    """The state with these windows, but for closed ones beyond what is held; the floor tells where those lie."""
    columns = state_columns(plan.query)
    windows = [part.select(columns) for part in parts if part is not None and part.num_rows]
    if not windows:
        return replace(state, windows=None)
    held = pa.concat_tables(windows, promote_options="permissive").combine_chunks()
    closed = flags(is_closed(held, state.watermark(plan.watermark)))
    most = max(MAX_CLOSED_WINDOWS, 2 * state.max_event_time_by_subtable.num_rows)
    if closed.sum() <= most:
        return replace(state, windows=held)
    start, end = to_numpy(held[WSTART]).astype(np.int64), to_numpy(held[WEND]).astype(np.int64)
    if not isinstance(plan.query.window, IntervalWindow):
        closed &= ~tails(identities([held], key_columns(plan.query))[0], start, end)
    drop = oldest(closed, end, int(closed.sum()) - most * 3 // 4)
    if not drop.any():
        return replace(state, windows=held)
    evicted_through = int((start if isinstance(plan.query.window, IntervalWindow) else end)[drop].max())
    return replace(
        state,
        windows=held.filter(pa.array(~drop)),
        evicted_through=evicted_through if state.evicted_through is None else max(evicted_through, state.evicted_through),
    )


def oldest(closed: Bools, end: Int64s, count: int) -> Bools:
    """The `count` closed windows that ended first."""
    order = np.argsort(np.where(closed, end, np.iinfo(np.int64).max), kind="stable")
    found = np.zeros(len(end), np.bool_)
    found[order[: max(0, count)]] = True
    return found & closed
