"""KEEP of a stream's target: results older than that are discarded, and counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.notifications import EventType
from headrace.model.time import Precision
from headrace.streams.batches import BatchResult, Processor
from headrace.streams.definition.define import StreamPlan
from headrace.streams.notifications.events import WindowEvents
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows.change_batch import Changes

MIN_TIMESTAMP: Final = -(2**62)


def oldest_kept(plan: StreamPlan, now: int) -> int | None:
    """Return the oldest timestamp of a result that the target's database keeps, in stored units of the source's precision."""
    keep = plan.target_database.keep_ms
    if keep is None:
        return None
    return max((now - keep) * (1_000_000 if plan.query.precision is Precision.NANOSECOND else 1_000), MIN_TIMESTAMP)


def kept_windows(plan: StreamPlan, windows: pa.Table, now: int) -> pa.Table:
    """Return the finished windows (columns `o*`) that the target's database keeps."""
    oldest = oldest_kept(plan, now)
    if oldest is None or not windows.num_rows:
        return windows
    return windows.filter(pc.greater_equal(windows["o0"].cast(pa.int64()), oldest))


class KeepProcessor:
    """Leaves results out that the target's database does not keep."""

    def __init__(self, processor: Processor, plan: StreamPlan) -> None:
        self._processor = processor
        self._plan = plan

    def process_batch(self, state: StreamState, changes: Changes) -> BatchResult:
        return kept_result(self._plan, self._processor.process_batch(state, changes), changes.now)


def kept_result(plan: StreamPlan, result: BatchResult, now: int) -> BatchResult:
    kept = kept_windows(plan, result.upserts, now)
    discarded = result.upserts.num_rows - kept.num_rows
    if not discarded:
        return result
    counters = result.state.counters
    counters = replace(counters, rows_out=counters.rows_out - discarded, rows_discarded=counters.rows_discarded + discarded)
    state = replace(result.state, counters=counters)
    return replace(result, upserts=kept, state=state, events=kept_events(plan, result.events, now))


def kept_events(plan: StreamPlan, events: WindowEvents | None, now: int) -> WindowEvents | None:
    if events is None or EventType.WINDOW_CLOSE not in events.windows:
        return events
    closed = kept_windows(plan, events.windows[EventType.WINDOW_CLOSE], now)
    return WindowEvents({**events.windows, EventType.WINDOW_CLOSE: closed})
