"""The state of a stream made from the stored rows of its source, where there is none to go on from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Plan, prepare, whole
from headrace.compute.plan import SERIES, TS, WEND, WSTART, IntervalWindow
from headrace.compute.terms import quote
from headrace.compute.types import from_ticks
from headrace.compute.windows import key_columns
from headrace.model.jobs import JobCounters
from headrace.model.positions import Position
from headrace.model.time import Duration
from headrace.storage.spark.functions import F
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import SEEN, StreamState
from headrace.streams.windows import window_sql
from headrace.streams.windows.emission import CURRENT, OLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LONGEST_MONTH: Final = Duration(31, "d")
DAY: Final = Duration(1, "d")


def rebuild(
    context: Context, plan: StreamPlan, position: Position, *, after_history: bool = True, counters: JobCounters | None = None
) -> StreamState:
    """Compute the state at a position from the stored rows, as if they all had come in order.

    Windows that are still open are held. `after_history` tells that the target has their values, as a history writes them; all
    closed ones count as emitted. One scan of timestamps, and the rows of open windows. The state asks to be woken at once: only the
    processor can tell which instants its windows wait for.
    """
    rows = source_rows(context, plan, position.offsets[plan.source_id])
    max_event_time_by_subtable = max_event_times(plan, rows)
    max_event_time = pc.max(max_event_time_by_subtable["_seen"]).as_py()
    total = without_pending(replace(counters or JobCounters(), rows_pending=0))
    state = StreamState(
        position,
        max_event_time_by_subtable=max_event_time_by_subtable,
        max_event_time=max_event_time,
        counters=total,
        wake_at=context.clock.now(),
    )
    watermark = state.watermark(plan.watermark)
    if watermark is None or plan.query.window is None:
        return state
    windows = open_windows(plan, rows, watermark, CURRENT if after_history else OLDER)
    return replace(state, windows=windows if windows.num_rows else None, evicted_through=watermark - 1)


def without_pending(counters: JobCounters) -> JobCounters:
    """Counters without the rows that were pending when they were recorded."""
    return replace(counters, rows_in=counters.rows_used + counters.rows_filtered + counters.rows_expired)


def source_rows(context: Context, plan: StreamPlan, version: int) -> DataFrame:
    """All rows of the source as of a version, with the tags that the query reads."""
    spark = context.spark()
    rows = context.tables.frame(spark, plan.source, version=version)
    tags = plan.query.scans[0].tags
    if not tags:
        return rows
    known = spark.createDataFrame(context.tables.read_tags(plan.source).select([plan.source.series_key, *tags]))
    return rows.join(F.broadcast(known), plan.source.series_key, "left")


def max_event_times(plan: StreamPlan, rows: DataFrame) -> pa.Table:
    """The largest instant of each subtable, of rows that WHERE keeps."""
    found = prepare(plan.query, rows).groupBy(SERIES).agg(F.max(TS).alias("_seen"))
    return found.toArrow().select(SEEN.names).cast(SEEN)


def open_windows(plan: StreamPlan, rows: DataFrame, watermark: int, standing: int) -> pa.Table:
    """The windows that a watermark leaves open, and the last ones of every partition, as the state holds them."""
    if isinstance(plan.query.window, IntervalWindow):
        low = from_ticks(f"{watermark - reach(plan.query, plan.query.window)}L", plan.query.precision)
        recent = rows.where(f"{quote(plan.source.timestamp.name)} >= {low}")
        found = whole(plan.query, prepare(plan.query, recent)).where(f"{WEND} >= {watermark}L")
    else:
        every = whole(plan.query, prepare(plan.query, rows))
        keys = ", ".join(key_columns(plan.query))
        last = f"max({WSTART}) OVER ({f'PARTITION BY {keys}' if keys else ''})"
        found = every.selectExpr("*", f"{last} AS _last").where(f"{WEND} >= {watermark}L OR {WEND} >= _last").drop("_last")
    windows = found.select(*window_sql.window_columns(plan.query)).toArrow()
    return windows.append_column(window_sql.EMITTED, pa.repeat(pa.scalar(standing, pa.int32()), windows.num_rows))


def reach(plan: Plan, window: IntervalWindow) -> int:
    """How far apart, in ticks, two instants of one window lie at most."""
    if not window.length.is_calendar:
        return window.length.ticks(plan.precision) + (DAY.ticks(plan.precision) if window.zone is not None else 0)
    return (window.length.months * LONGEST_MONTH.nanoseconds + DAY.nanoseconds) // plan.precision.nanoseconds
