"""The windows of a micro-batch before it is decided which to write, its row counts, and the event times it has reached."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import SERIES_KEY
from headrace.model.jobs import JobCounters
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import MAX_EVENT_TIME, MAX_EVENT_TIMES, StreamState
from headrace.streams.state.tables import ROW_ID, StateTable
from headrace.streams.windows.change_batch import NEVER, Bools, ChangeBatch, Int64s, RowKind, times_of, to_numpy
from headrace.streams.windows.window_sql import MAX_TIME, USED


@dataclass(frozen=True)
class BatchCount:
    """Rows of a micro-batch by outcome, and the largest event times after it, by subtable and overall."""

    counters: JobCounters
    max_event_time_by_subtable: StateTable
    max_event_time: int | None

    @classmethod
    def of_write(cls, tally: StreamState) -> BatchCount:
        """Return the count of one write whose pieces have been counted in a state."""
        return cls(replace(tally.counters, batches=1), tally.max_event_time_by_subtable, tally.max_event_time)

    def added_to(self, state: StreamState) -> StreamState:
        """Return a state with these rows and event times."""
        return replace(
            state,
            max_event_time_by_subtable=self.max_event_time_by_subtable,
            max_event_time=self.max_event_time,
            counters=state.counters.plus(self.counters),
        )

    def reaching(self, max_event_time: int | None) -> BatchCount:
        return replace(self, max_event_time=later_of(self.max_event_time, max_event_time))


@dataclass(frozen=True)
class EvaluatedBatch:
    """The windows after a micro-batch.

    Attributes:
        windows: The windows that the batch touched or recalculated.
        state_windows: The windows in state that were merged into them.
        unaffected: The windows in state that belong to a recalculated partition but stay as they are.
        possibly_emitted: Recalculated windows that the target may have although they are not in state.
        recalculated: The number of recalculated scopes.
        count: The batch's rows by outcome.
        deferred_rows: The indexes of the batch's rows that only mark windows.
        late: Some windows that expired rows were left out of, as `late_windows` returns them; None if there are none.
    """

    windows: pa.Table
    state_windows: pa.Table
    unaffected: pa.Table
    possibly_emitted: pa.Table
    recalculated: int
    count: BatchCount
    deferred_rows: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    late: pa.Table | None = None


def count_used_rows(batch: ChangeBatch, state: StreamState, windows: pa.Table) -> BatchCount:
    """Count a batch of new rows by its windows, which say how many pass WHERE, if event times by subtable are not kept."""
    used_count = int(pc.sum(windows[USED]).as_py() or 0)
    written_count = len(batch.ts)
    counters = JobCounters(rows_in=written_count, rows_used=used_count, rows_filtered=written_count - used_count, batches=1)
    return BatchCount(counters, state.max_event_time_by_subtable, later_of(pc.max(windows[MAX_TIME]).as_py(), state.max_event_time))


def count_rows(plan: StreamPlan, batch: ChangeBatch, state: StreamState, used: Bools, expired: Bools) -> BatchCount:
    """Count a batch by its used and its expired rows; the other written rows were dropped by WHERE.

    A used row that replaces an earlier one counts as updated. If updates of windows are ignored, it counts like any other.
    """
    written_count, used_count, expired_count = int(batch.is_written.sum()), int(used.sum()), int(expired.sum())
    updated_count = int((used & (batch.kind == RowKind.UPDATE_AFTER)).sum())
    counters = JobCounters(
        rows_in=written_count,
        rows_used=used_count - updated_count,
        rows_updated=updated_count,
        rows_filtered=written_count - used_count - expired_count,
        rows_expired=expired_count,
        batches=1,
    )
    passing = used | expired
    if not passing.any():
        return BatchCount(counters, state.max_event_time_by_subtable, state.max_event_time)
    max_event_time_by_subtable = state.max_event_time_by_subtable
    if plan.separates_late_rows or plan.leaves_rows_out:
        max_event_time_by_subtable = merge_max_times(
            max_event_time_by_subtable, max_times(batch.series.filter(pa.array(passing)), pa.array(batch.ts[passing]))
        )
    return BatchCount(counters, max_event_time_by_subtable, later_of(int(batch.ts[passing].max()), state.max_event_time))


def later_of(first: int | None, second: int | None) -> int | None:
    """Return the later of two instants, either of which may be None."""
    return max((instant for instant in (first, second) if instant is not None), default=None)


def max_times(names: pa.ChunkedArray, instants: pa.Array) -> pa.Table:
    encoded = (names if pa.types.is_dictionary(names.type) else names.dictionary_encode()).unify_dictionaries().combine_chunks()
    largest = np.full(len(encoded.dictionary), NEVER)
    np.maximum.at(largest, encoded.indices.to_numpy(), instants.to_numpy())
    times = pa.table({SERIES_KEY: encoded.dictionary, MAX_TIME: largest})
    return times.filter(pa.array(largest != NEVER))


def merge_max_times(previous: StateTable, batch_times: pa.Table) -> StateTable:
    in_state = times_of(previous, batch_times[SERIES_KEY])
    row = pc.index_in(batch_times[SERIES_KEY], in_state[SERIES_KEY])
    old_times = to_numpy(pc.fill_null(pc.take(in_state[MAX_EVENT_TIME], row), NEVER)).astype(np.int64)
    is_later = batch_times[MAX_TIME].to_numpy() > old_times
    replaced = pc.take(in_state[ROW_ID], row.filter(pa.array(is_later)).drop_null())
    later = batch_times.filter(pa.array(is_later)).rename_columns(MAX_EVENT_TIMES.names).cast(MAX_EVENT_TIMES)
    return previous.replace(to_numpy(replaced).astype(np.int64), later)
