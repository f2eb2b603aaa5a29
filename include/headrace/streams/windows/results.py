"""The result of a micro-batch: what to write and retract of its windows, and the state after it."""

from __future__ import annotations

from dataclasses import replace

from headrace.model.jobs import JobCounters
from headrace.streams.batches import BatchResult
from headrace.streams.definition.define import StreamPlan
from headrace.streams.notifications.events import window_events
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows.accounting import EvaluatedBatch
from headrace.streams.windows.emission import emit, notes_ends
from headrace.streams.windows.notes import noted_windows
from headrace.streams.windows.retention import MAX_CLOSED_WINDOWS, evict_windows, replace_windows


def result_of(
    plan: StreamPlan, state: StreamState, evaluated: EvaluatedBatch, max_closed_windows: int = MAX_CLOSED_WINDOWS
) -> BatchResult:
    """Decide what to write and retract, and return it with the state after the batch.

    At most `max_closed_windows` closed windows are retained, but at least two for each subtable.
    """
    result = unevicted_result(plan, state, evaluated)
    return replace(result, state=evict_windows(plan, result.state, max_closed_windows))


def unevicted_result(plan: StreamPlan, state: StreamState, evaluated: EvaluatedBatch) -> BatchResult:
    counted = evaluated.count.added_to(state)
    emission = emit(
        plan.query,
        plan.options.trigger,
        evaluated.windows,
        evaluated.state_windows,
        evaluated.possibly_emitted,
        state.watermark(plan.watermark),
        counted.watermark(plan.watermark),
        notes_ends=notes_ends(plan),
    )
    rows_out = emission.upserts.num_rows + emission.retractions.num_rows
    counters = counted.counters.plus(JobCounters(rows_out=rows_out, windows_recalculated=evaluated.recalculated))
    windows = replace_windows(plan, state.windows, evaluated.state_windows, emission.windows)
    return BatchResult(
        emission.upserts,
        emission.retractions,
        replace(counted, windows=windows, counters=counters),
        events=window_events(plan, evaluated, emission, state.windows),
        rewritten=emission.rewritten,
        noted=noted_windows(plan, evaluated, state.watermark(plan.watermark)),
    )
