"""Rebuilding a stream's state from the stored rows of its source, if there is no checkpoint to continue from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import aggregate_windows, prepare
from headrace.compute.nodes import bigint, quote
from headrace.compute.plan import SERIES_KEY, TS, WEND, WSTART
from headrace.compute.types import from_ticks
from headrace.compute.windows import key_columns, window_columns
from headrace.compute.windows.segments import base_key_columns
from headrace.context import Context
from headrace.model.jobs import JobCounters
from headrace.model.positions import Offsets, Position
from headrace.storage.delta.shares import ALL_SERIES
from headrace.storage.row_matching import row_ids
from headrace.storage.spark.functions import F
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sources.stored import source_frame
from headrace.streams.state.checkpoints import MAX_EVENT_TIME, MAX_EVENT_TIMES, StreamState, event_times
from headrace.streams.state.tables import StateTable
from headrace.streams.windows import window_sql
from headrace.streams.windows.change_batch import to_numpy
from headrace.streams.windows.emission import EmitState
from headrace.streams.windows.retention import is_last_in_partition, subtable_key
from headrace.streams.windows.stored_windows import StoredWindows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rebuild(
    context: Context, plan: StreamPlan, position: Position, *, after_history: bool = True, counters: JobCounters | None = None
) -> StreamState:
    """Compute the state at a position from the stored rows, as if all had arrived in order.

    Reads the timestamps of all rows, and the rows of open windows. The state asks to be woken at once, since only the processor
    knows which instants its windows wait for.

    `after_history` says whether the target has the values of open windows, as a backfill writes them; closed windows count as
    emitted in any case. `counters` are those recorded at the position. Before any, only the rows that the history has set aside are
    counted.
    """
    if counters is None:
        counters = JobCounters(rows_quarantined=0 if context.set_aside is None else len(context.set_aside.rows.keys))
    settled_counters = replace(counters, rows_in=counters.rows_handled, rows_pending=0)
    if plan.is_closed_by_clock:
        return StreamState(position, counters=settled_counters, wake_at=context.clock.now())
    stored = StoredWindows(context, plan, position.offsets, plan.part or ALL_SERIES)
    near_times = stored.max_event_times()
    max_event_time_by_subtable = max_event_times(context, plan, position.offsets) if near_times is None else near_times
    max_event_time = pc.max(max_event_time_by_subtable[MAX_EVENT_TIME]).as_py()
    state = StreamState(
        position,
        max_event_time_by_subtable=event_times(max_event_time_by_subtable),
        max_event_time=max_event_time,
        counters=settled_counters,
        wake_at=context.clock.now(),
    )
    if plan.follows_tags:
        # The target may have results by the tags of any version since.
        state = replace(state, tags_version=plan.tags_version)
    elif plan.keeps_groups:
        state = replace(state, tags_version=context.tables.tags.version(plan.source))
    watermark = state.watermark(plan.watermark)
    if watermark is None or plan.query.window is None:
        return state
    near_windows = stored.windows(None, None)
    if near_windows is None:
        windows = open_windows(context, plan, position.offsets, watermark)
    else:
        windows = retained_windows(plan, near_windows, watermark)
    emit_state = EmitState.CURRENT if after_history else EmitState.STALE
    windows = windows.append_column(window_sql.EMITTED, pa.repeat(pa.scalar(emit_state, pa.int32()), windows.num_rows))
    return replace(state, windows=StateTable.of(windows, base_key_columns(plan.query)), evicted_through=watermark - 1)


def source_rows(context: Context, plan: StreamPlan, offsets: Offsets) -> DataFrame:
    rows = source_frame(context, plan, offsets)
    tags = plan.query.scans[0].tags
    if not tags:
        return rows
    tag_rows = context.spark().createDataFrame(context.tables.tags.read(plan.source).select([plan.source.series_key, *tags]))
    return rows.join(F.broadcast(tag_rows), plan.source.series_key, "left")


def max_event_times(context: Context, plan: StreamPlan, offsets: Offsets) -> pa.Table:
    rows = source_rows(context, plan, offsets)
    times = prepare(plan.query, rows).groupBy(SERIES_KEY).agg(F.max(TS).alias(MAX_EVENT_TIME))
    return own_rows(plan, SERIES_KEY, times.toArrow().select(MAX_EVENT_TIMES.names).cast(MAX_EVENT_TIMES))


def own_rows(plan: StreamPlan, key: str | None, rows: pa.Table) -> pa.Table:
    """Return those of the event times or windows of all series that a job computes."""
    return rows if plan.part is None or key is None else plan.part.of(key, rows)


def retained_windows(plan: StreamPlan, windows: pa.Table, watermark: int) -> pa.Table:
    """Return the windows to keep in state: those open at a watermark, and the last ones of every partition."""
    ends = to_numpy(windows[WEND]).astype(np.int64)
    is_retained = np.asarray(ends >= watermark)
    if not plan.query.kind.is_fixed and windows.num_rows:
        (group,) = row_ids([windows], base_key_columns(plan.query))
        is_retained |= is_last_in_partition(group, to_numpy(windows[WSTART]).astype(np.int64), ends)
    return windows.filter(pa.array(is_retained)).select(list(window_columns(plan.query)))


def open_windows(context: Context, plan: StreamPlan, offsets: Offsets, watermark: int) -> pa.Table:
    """Return what `retained_windows` does, computed by Spark."""
    rows = source_rows(context, plan, offsets)
    if plan.query.interval is not None:
        low = from_ticks(bigint(watermark - plan.query.interval.max_span(plan.query.precision)), plan.query.precision)
        recent = rows.where(f"{quote(plan.source.timestamp.name)} >= {low}")
        windows = aggregate_windows(plan.query, prepare(plan.query, recent)).where(f"{WEND} >= {watermark}L")
    else:
        all_windows = aggregate_windows(plan.query, prepare(plan.query, rows))
        keys = ", ".join(key_columns(plan.query))
        last = f"max({WSTART}) OVER ({f'PARTITION BY {keys}' if keys else ''})"
        windows = all_windows.selectExpr("*", f"{last} AS _last").where(f"{WEND} >= {watermark}L OR {WEND} >= _last").drop("_last")
    return own_rows(plan, subtable_key(plan), windows.select(*window_columns(plan.query)).toArrow())
