"""What the clock makes due in streams whose windows are closed by event time: delayed windows and recalculations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.compute.plan import WSTART
from headrace.compute.windows import key_columns
from headrace.model.jobs import JobCounters
from headrace.model.streams import TriggerMode
from headrace.model.time import Duration
from headrace.storage.row_matching import anti_join, match_rows
from headrace.streams.batches import BatchResult
from headrace.streams.definition.define import StreamPlan
from headrace.streams.notifications.events import combined_events, written_events
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.state.tables import NO_IDS, join_tables
from headrace.streams.windows.change_batch import Bools, Changes, Int64s, to_numpy
from headrace.streams.windows.emission import EmitState, flags, is_closed
from headrace.streams.windows.evaluation import WindowEvaluation
from headrace.streams.windows.retention import ids_of
from headrace.streams.windows.window_sql import EMITTED, IS_RESULT, append_bookkeeping

if TYPE_CHECKING:
    from headrace.streams.windows.processor import WindowProcessor

Timer = Callable[[StreamState, BatchResult, Changes], BatchResult]
"""Adds to the result of a micro-batch what the clock makes due, and when something is due next.

Its arguments are the state before the micro-batch, with the instant that was asked for; what the changes alone make due; and the
changes, with the present.
"""


def timer_of(processor: WindowProcessor) -> Timer:
    options = processor.plan.options
    match options.trigger:
        case TriggerMode.MAX_DELAY if options.max_delay is not None:
            return DelayTimer(processor.plan, processor.evaluation, milliseconds(options.max_delay)).apply
        case TriggerMode.CONTINUOUS_WINDOW_CLOSE:
            return RecalculationTimer(processor, milliseconds(options.recalculation_interval)).apply
        case _:
            return lambda _before, result, _changes: result


def milliseconds(duration: Duration) -> int:
    """Return a duration of fixed length in milliseconds, rounded up."""
    return -(-duration.nanoseconds // 1_000_000)


@dataclass(frozen=True)
class DelayTimer:
    """MAX_DELAY: the first change of an open window that is not written yet starts the delay; at its end all such are written."""

    plan: StreamPlan
    evaluation: WindowEvaluation
    delay_ms: int

    def apply(self, before: StreamState, result: BatchResult, changes: Changes) -> BatchResult:
        if before.wake_at is not None and before.wake_at <= changes.now:
            return self.write_overdue(result)
        wake_at = before.wake_at
        if wake_at is None and result.state is not before and len(self.delayed(result.state)):
            wake_at = changes.now + self.delay_ms
        return replace(result, wake_at=wake_at)

    def delayed(self, state: StreamState) -> Int64s:
        """Return the numbers of the windows in state that are open, and that the target does not have as they are."""
        watermark = state.watermark(self.plan.watermark)

        def is_delayed(windows: pa.Table) -> Bools:
            is_open = ~flags(is_closed(windows, watermark))
            return np.asarray(is_open & (to_numpy(windows[EMITTED]).astype(np.int64) < EmitState.CURRENT))

        return NO_IDS if state.windows is None else state.windows.where(is_delayed)

    def write_overdue(self, result: BatchResult) -> BatchResult:
        state, ids = result.state, self.delayed(result.state)
        if state.windows is None or not len(ids):
            return replace(result, wake_at=None)
        key, delayed = [*key_columns(self.plan.query), WSTART], state.windows.take(ids)
        finished = self.evaluation.finalize_windows(append_bookkeeping(delayed))
        upserts = finished.filter(finished[IS_RESULT])
        written = delayed.filter(pa.array(match_rows(delayed.select(key), upserts.select(key), key) >= 0))
        current = pa.repeat(pa.scalar(EmitState.CURRENT, pa.int32()), written.num_rows)
        updated = written.set_column(written.schema.get_field_index(EMITTED), EMITTED, current)
        windows = state.windows.replace(ids_of(written), updated)
        counters = state.counters.plus(JobCounters(rows_out=upserts.num_rows))
        no_retractions = upserts.slice(0, 0).select(key)
        events = written_events(self.plan, upserts, windows)
        tick = BatchResult(upserts, no_retractions, replace(state, windows=windows, counters=counters), events=events)
        return combined(result, tick, key)


@dataclass(frozen=True)
class RecalculationTimer:
    """CONTINUOUS_WINDOW_CLOSE: the first row that marks a window starts the interval; at its end the windows are recalculated."""

    processor: WindowProcessor
    interval_ms: int

    def apply(self, before: StreamState, result: BatchResult, changes: Changes) -> BatchResult:
        marks = result.state.deferred
        if marks is None:
            return replace(result, wake_at=None)
        if before.wake_at is None or before.deferred is None:
            return replace(result, wake_at=changes.now + self.interval_ms)
        if before.wake_at > changes.now or changes.large is not None:
            return replace(result, wake_at=before.wake_at)
        tick = self.processor.recalculate_windows(replace(result.state, deferred=None), marks, changes)
        return combined(result, tick, [*key_columns(self.processor.plan.query), WSTART])


def combined(first: BatchResult, second: BatchResult, key: list[str]) -> BatchResult:
    """Return two results of one micro-batch as one. The second was computed from the state after the first, and prevails.

    What the first has staged are closed windows, which the second, if it is that of a delay, does not have.
    """
    later = [rows.select(key) for rows in (second.upserts, second.retractions) if rows.num_rows]

    def joined(earlier: pa.Table, own: pa.Table) -> pa.Table:
        """Return both tables, without the windows of the earlier one that the second result replaces."""
        if earlier.num_rows == 0:
            return own
        kept = earlier if not later else anti_join(earlier, pa.concat_tables(later, promote_options="permissive"), key)
        return pa.concat_tables([kept, own], promote_options="permissive") if own.num_rows else kept

    return BatchResult(
        joined(first.upserts, second.upserts),
        joined(first.retractions, second.retractions),
        second.state,
        events=combined_events(first.events, second.events, key),
        staged=first.staged,
        noted=join_tables([first.noted, second.noted]),
    )
