"""The micro-batch of a stream whose windows the clock closes (`TRIGGER FORCE_WINDOW_CLOSE`).

Rows that arrive are only counted. When a window has ended, it is computed once, from the rows that the source has by then. Rows
that arrive later, updates and deletes change nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute import Plan
from headrace.compute.plan import WSTART
from headrace.compute.windows.intervals import IntervalWindow
from headrace.context import Context
from headrace.errors import InternalError
from headrace.model.calendar_windows import CalendarGrid
from headrace.model.clock import MAX_STEP_MS
from headrace.model.jobs import JobCounters
from headrace.model.positions import Offsets, is_behind
from headrace.model.time import Duration
from headrace.model.windows import WindowGrid, Windows
from headrace.storage.values.scalars import stored_units_per_tick
from headrace.streams.batches import BatchResult
from headrace.streams.clocked.results import ResultEvaluation
from headrace.streams.clocked.rows import last_rows, needs_rows_before, stored_frame, stored_pieces, stored_rows, stored_source_rows
from headrace.streams.definition.define import StreamPlan
from headrace.streams.notifications.events import computed_events
from headrace.streams.sources.source_tables import latest_offsets
from headrace.streams.sources.stored import has_many_rows, max_stored_time
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows.accounting import count_rows
from headrace.streams.windows.change_batch import ChangeBatch, Changes, change_batch, to_numpy
from headrace.streams.windows.evaluation import window_evaluation
from headrace.streams.windows.window_sql import ROW

MAX_FILLED_WINDOWS: Final = 10_000
"""Windows, or points, to compute in one micro-batch if all groups have a row for each. The next ones compute the rest."""
MAX_WINDOWS: Final = 10_000_000
"""The same if only windows with rows have results."""

IDLE_PAUSE_MS: Final = 1000
"""Windows that can have no results are closed at most this often."""

NO_ROWS: Final = pa.table({})


class ClockedProcessor:
    """Computes the micro-batches of a stream with FORCE_WINDOW_CLOSE."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan
        self.grid = window_sequence(plan.query)
        self.results = ResultEvaluation(context, plan)
        self.arrivals = window_evaluation(context, arrival_plan(plan))
        self.needs_rows_before = needs_rows_before(plan.query)
        self.is_filled = plan.query.fill is not None or plan.query.interp is not None

    def process_batch(self, state: StreamState, changes: Changes) -> BatchResult:
        if state.computed_before is None:
            state = replace(state, computed_before=self.first_window(state))
        state = self.count(self.without_future(state, changes), changes)
        if changes.leaves_due:
            return BatchResult(NO_ROWS, NO_ROWS, state, changes.now)
        return self.compute_due(state, changes, self.due_instant(changes))

    def without_future(self, state: StreamState, changes: Changes) -> StreamState:
        """Return the state with windows open again that a clock that was ahead, and was set back, has closed."""
        start, now = state.computed_before, self.ticks(changes.now)
        if start is None or start <= self.grid.first_open(now + self.ticks(MAX_STEP_MS)):
            return state
        first = self.grid.first_open(min(self.plan.query.present, now))
        open_again = max(first, self.grid.first_open(self.due_instant(changes)))
        return replace(state, computed_before=open_again, due_offsets=None, rows_before=None)

    def due_instant(self, changes: Changes) -> int:
        """Return the instant, in ticks, by which windows that a micro-batch computes have ended."""
        return self.ticks(changes.now) - self.plan.watermark

    def due_rows(self, state: StreamState, changes: Changes) -> pa.Table | None:
        """Return the stored rows of the windows that are due, and those after them if values depend on these.

        None if no window is due, or its rows are more than the driver should read.
        """
        start, instant = state.computed_before, self.due_instant(changes)
        if start is None or self.grid.end(start) > instant:
            return None
        windows = self.limited(self.grid.ended(start, instant, self.max_windows))
        low, high = int(windows.start[0]), int(windows.last[-1])
        if has_many_rows(self.context, self.plan, low, high):
            return None
        return stored_source_rows(self.context, self.plan, low, None if self.needs_rows_before else high, changes.offsets)

    @property
    def max_windows(self) -> int:
        return MAX_FILLED_WINDOWS if self.is_filled else MAX_WINDOWS

    def compute_due(self, state: StreamState, changes: Changes, instant: int) -> BatchResult:
        """Compute the windows that have ended by an instant, in ticks, once all that had arrived by then is handled."""
        start = state.computed_before
        assert start is not None
        if self.grid.end(start) > instant:
            return self.waiting(state, changes)
        due = state.due_offsets if state.due_offsets is not None else latest_offsets(self.context, self.plan.sources)
        if is_behind(changes.offsets, due):
            return BatchResult(NO_ROWS, NO_ROWS, replace(state, due_offsets=due), changes.now)
        results, state, following = self.compute_ended(state, start, instant, changes)
        counters = state.counters.plus(JobCounters(rows_out=results.num_rows))
        moved = replace(state, computed_before=following, due_offsets=None, counters=counters)
        return replace(self.waiting(moved, changes), upserts=results, events=computed_events(self.plan, results))

    def compute_ended(self, state: StreamState, start: int, instant: int, changes: Changes) -> tuple[pa.Table, StreamState, int]:
        """Compute windows from the one at `start` on that have ended by an instant.

        Returns their results, the state with what later windows need, and the start of the next window.
        """
        ended = self.grid.ended(start, instant, self.max_windows)
        if not self.can_have_results(state, start):
            return NO_ROWS, state, self.grid.next_start(int(ended.start[-1]))
        windows = self.limited(ended)
        results, state = self.compute(state, windows, changes)
        return results, state, self.grid.next_start(int(windows.start[-1]))

    def compute(self, state: StreamState, windows: Windows, changes: Changes) -> tuple[pa.Table, StreamState]:
        """Return the results of windows, and the state with what later windows need."""
        low, high = int(windows.start[0]), int(windows.last[-1])
        if self.needs_rows_before:
            state, rows = self.with_rows_before(state, windows, changes)
            evaluated = self.results.evaluate(rows, windows, state.last_results, changes.now)
        elif has_many_rows(self.context, self.plan, low, high):
            frame = stored_frame(self.context, self.plan, low, high, changes.offsets)
            evaluated = self.results.evaluate_frame(frame, windows, state.last_results, changes.now)
        else:
            rows = stored_rows(self.context, self.plan, low, high, changes.offsets)
            evaluated = self.results.evaluate(rows, windows, state.last_results, changes.now)
        return evaluated.rows, replace(state, last_results=evaluated.last_results)

    def with_rows_before(self, state: StreamState, windows: Windows, changes: Changes) -> tuple[StreamState, pa.Table]:
        """Return the state for later windows, and the rows that these depend on: also the last ones before, and those after."""
        low, following = int(windows.start[0]), self.grid.next_start(int(windows.start[-1]))
        before = state.rows_before
        if before is None:
            before = self.rows_before_stream(low, changes.offsets)
        rows = self.passing(stored_rows(self.context, self.plan, low, None, changes.offsets))
        all_rows = pa.concat_tables([before, rows], promote_options="permissive")
        return replace(state, rows_before=last_rows(self.plan, all_rows, following)), all_rows

    def rows_before_stream(self, low: int, offsets: Offsets) -> pa.Table:
        before = stored_rows(self.context, self.plan, low, low - 1, offsets)
        for piece in stored_pieces(self.context, self.plan, low - 1, offsets):
            before = last_rows(self.plan, pa.concat_tables([before, self.passing(piece)], promote_options="permissive"), low)
        return before

    def limited(self, windows: Windows) -> Windows:
        """Return as many of consecutive windows, at least one, as have rows that the driver should read at once."""
        count = len(windows.start)
        while count > 1 and has_many_rows(self.context, self.plan, int(windows.start[0]), int(windows.last[count - 1])):
            count //= 2
        return Windows(windows.start[:count], windows.last[:count])

    def waiting(self, state: StreamState, changes: Changes) -> BatchResult:
        """Return a result without rows that asks for a wake-up when the next window has ended.

        It is closed even if it has no rows, so that those that arrive later are late.
        """
        assert state.computed_before is not None
        due = self.grid.end(state.computed_before) + self.plan.watermark
        earliest = changes.now + (0 if self.can_have_results(state, state.computed_before) else IDLE_PAUSE_MS)
        wake_at = max(-(-due * 1000 // self.plan.query.precision.ticks_per_second), earliest)
        return BatchResult(NO_ROWS, NO_ROWS, state, wake_at)

    def can_have_results(self, state: StreamState, start: int) -> bool:
        """Return whether windows from the one at `start` on may have results: by rows of the source, or by groups to fill."""
        if self.plan.query.interp is not None and (state.rows_before is None or state.rows_before.num_rows > 0):
            return True
        if self.plan.query.fill is not None and state.last_results is not None and state.last_results.num_rows > 0:
            return True
        high = max_stored_time(self.context, self.plan)
        return high is not None and high >= start

    def first_window(self, state: StreamState) -> int:
        """Return the start of the first window to compute: the one that was current when the stream was created.

        A state that was recovered does not have it. Windows up to the last one in the target count as computed then.
        """
        start = self.grid.first_open(self.plan.query.present)
        bounds = self.context.tables.bounds(self.plan.target) if state.position.batch else None
        if bounds is None:
            return start
        ticks = bounds.high // stored_units_per_tick(self.plan.target_database.precision)
        scale = self.plan.query.precision.ticks_per_second / self.plan.target_database.precision.ticks_per_second
        return max(start, self.grid.first_open(self.grid.end(round(ticks * scale))))

    def count(self, state: StreamState, changes: Changes) -> StreamState:
        """Return the state with the rows of a micro-batch counted. A row whose windows are all computed is expired."""
        for piece in changes.pieces():
            if piece.num_rows:
                state = self.count_piece(state, change_batch(self.plan, replace(changes, source=piece), ignore_update=True))
        return state

    def count_piece(self, state: StreamState, batch: ChangeBatch) -> StreamState:
        if batch.rows.num_rows == 0:
            return state
        segments = self.arrivals.assign_windows(batch.rows)
        row = to_numpy(segments[ROW]).astype(np.int64)
        is_open = to_numpy(segments[WSTART]).astype(np.int64) >= (state.computed_before or 0)
        passing, on_time = (np.zeros(len(batch.ts), np.bool_) for _ in range(2))
        passing[row], on_time[row[is_open]] = True, True
        if self.plan.query.interp is not None:
            on_time = passing
        used, expired = batch.is_written & passing & on_time, batch.is_written & passing & ~on_time
        counted = count_rows(self.plan, batch, state, used, expired)
        return replace(state, max_event_time=counted.max_event_time, counters=state.counters.plus(counted.counters))

    def passing(self, rows: pa.Table) -> pa.Table:
        if self.plan.query.filter is None or rows.num_rows == 0:
            return rows
        return rows.take(pc.unique(self.arrivals.assign_windows(rows)[ROW]).sort())

    def ticks(self, ms: int) -> int:
        return ms * self.plan.query.precision.ticks_per_second // 1000


def window_sequence(plan: Plan) -> WindowGrid | CalendarGrid:
    """Return the windows of a query with INTERVAL, or the points of one with EVERY."""
    if plan.interp is not None:
        return WindowGrid(plan.interp.every, 0, 0)
    if plan.interval is None:
        raise InternalError("only windows of INTERVAL are a sequence")
    return plan.interval.grid(plan)


def arrival_plan(plan: StreamPlan) -> StreamPlan:
    """Return the stream as one that only counts rows, to tell which pass WHERE and in which windows they are."""
    window = plan.query.window
    if plan.query.interp is not None:
        tick = Duration(plan.query.interp.every * plan.query.precision.nanoseconds, "b")
        window = IntervalWindow(tick, tick, Duration(0, "b"))
    elif isinstance(window, IntervalWindow):
        window = replace(window, fill=None)
    selection = replace(plan.query.groups, window=window, aggregates=())
    query = replace(plan.query, selection=selection, arguments=(), outputs=())
    return replace(plan, query=query)
