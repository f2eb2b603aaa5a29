"""The micro-batch of a window query: from changes and state to rows to write, rows to retract, and the new state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.windows.segments import base_key_columns
from headrace.context import Context
from headrace.streams.batches import BatchResult, idle_result
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sources.tags import computed_times
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.state.tables import concat
from headrace.streams.wide.dispatch import LargeCommitProcessor
from headrace.streams.windows import window_sql
from headrace.streams.windows.accounting import BatchCount, EvaluatedBatch, count_rows, count_used_rows, later_of
from headrace.streams.windows.change_batch import (
    Bools,
    ChangeBatch,
    Changes,
    Int64s,
    RowKind,
    change_batch,
    maybe_expired,
    recalculation_batch,
    to_numpy,
)
from headrace.streams.windows.emission import follows_closing
from headrace.streams.windows.evaluation import window_evaluation
from headrace.streams.windows.lateness import (
    BatchSegments,
    append_state_windows,
    append_stored_rows,
    batch_segments,
    count_batch,
    mergeable_segments,
)
from headrace.streams.windows.merged_commits import MergedCommits
from headrace.streams.windows.moved_rows import ComputedSessions, ComputedWindows, MovedRows, has_earlier_tags, is_within, starts
from headrace.streams.windows.notes import late_windows
from headrace.streams.windows.recalculation import BEGINNING, END, RecalculationScopes
from headrace.streams.windows.results import result_of
from headrace.streams.windows.retention import (
    Span,
    affected_windows,
    empty_state_windows,
    is_unfinished_before,
    subtable_key,
    touches_evicted,
)
from headrace.streams.windows.rewritten_rows import mark_rewritten, rows_to_add, segments_to_add
from headrace.streams.windows.scope_evaluation import add_marks, complete_scopes, evaluate_inserts, evaluate_scopes
from headrace.streams.windows.stored_rows import Ranges, VersionedRows, read_stored_rows
from headrace.streams.windows.timers import timer_of
from headrace.streams.windows.window_sql import ROW


class WindowProcessor:
    """Computes the micro-batches of a query with a window."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan
        self.evaluation = window_evaluation(context, plan)
        self.merged = None if plan.query.depends_on_order else MergedCommits(context, plan, self.evaluation)
        self.large_commits = LargeCommitProcessor(context, plan, self.evaluation, self.merged, self.process_rows)
        self.timer = timer_of(self)

    def process_batch(self, state: StreamState, changes: Changes) -> BatchResult:
        result = self.process_changes(state, changes)
        if changes.leaves_due:
            return replace(result, wake_at=state.wake_at)
        return self.timer(state, result, changes)

    def process_changes(self, state: StreamState, changes: Changes) -> BatchResult:
        if changes.tags_version is not None:
            return self.move_rows(state, changes)
        large = changes.large
        result = None if large is None else self.large_commits.process(state, changes, large)
        return self.process_rows(state, changes) if result is None else result

    def process_rows(self, state: StreamState, changes: Changes) -> BatchResult:
        """Compute what changes make due from all of them at once."""
        batch = change_batch(self.plan, changes, ignore_update=self.plan.ignores_updates)
        if batch.rows.num_rows == 0:
            return idle_result(state)
        affected = affected_windows(self.plan, state, self.span_of(batch, state, changes))
        evaluated = self.merge_inserts(batch, state, affected, changes) if self.can_use_fast_path(batch, state) else None
        if evaluated is not None:
            return result_of(self.plan, state, evaluated)
        evaluated = self.recalculate(batch, state, affected, changes, defers=self.plan.defers_changes)
        result = result_of(self.plan, state, evaluated)
        return replace(result, state=self.add_deferred_rows(result.state, batch, evaluated))

    def move_rows(self, state: StreamState, changes: Changes) -> BatchResult:
        """Recalculate the windows of rows in the groups that they leave and join, whose tags have changed.

        What is in state was computed with tags that may have changed since, so the target may have any of the windows. Those that
        depend on the order of rows are of one subtable, so all of their rows are among the changes.
        """
        moved = self.moved_rows(state, changes) if changes.computed else None
        if self.merged is not None:
            return self.merged.recalculate(changes.pieces(), state, changes, END, moved)
        rows = changes.rows
        if moved is not None:
            batch = recalculation_batch(self.plan, rows)
            segments = moved.select(batch, has_earlier_tags(rows), self.evaluation.assign_windows(batch.rows))
            rows = rows.take(pc.unique(segments[ROW]).sort())
        present = rows.filter(pa.array(~has_earlier_tags(rows))).select(list(self.plan.scan.columns))
        return self.recalculate_windows(state, rows, changes, VersionedRows.unchanged(present))

    def moved_rows(self, state: StreamState, changes: Changes) -> MovedRows:
        if self.merged is None or self.plan.query.kind.is_fixed:
            return MovedRows(changes.computed, ComputedWindows(self.context, self.plan, state).has)
        return MovedRows(changes.computed, ComputedSessions(self.plan, self.merged.computed_sessions(state, changes)).has)

    def recalculate_windows(
        self, state: StreamState, rows: pa.Table, changes: Changes, stored: VersionedRows | None = None
    ) -> BatchResult:
        """Recalculate the windows of rows, from stored rows if these are in memory already."""
        if self.merged is not None:
            return self.merged.recalculate([rows], state, changes, state.evicted_through)
        if rows.num_rows == 0:
            return idle_result(state)
        batch = recalculation_batch(self.plan, rows)
        affected = affected_windows(self.plan, state, self.span_of(batch, state, changes))
        no_changes = replace(changes, source=changes.rows.slice(0, 0), is_one_write=True)
        return result_of(self.plan, state, self.recalculate(batch, state, affected, no_changes, stored=stored))

    def add_deferred_rows(self, state: StreamState, batch: ChangeBatch, evaluated: EvaluatedBatch) -> StreamState:
        if len(evaluated.deferred_rows) == 0:
            return state
        rows = batch.rows.take(pa.array(np.unique(evaluated.deferred_rows)))
        return replace(state, deferred=add_marks(self.plan, self.evaluation, state.deferred, rows))

    def span_of(self, batch: ChangeBatch, state: StreamState, changes: Changes) -> Span:
        keys = base_key_columns(self.plan.query)
        if keys == [subtable_key(self.plan)]:
            span = Span.of(batch, pa.table({keys[0]: batch.series}))
        else:
            span = Span.of(batch, self.evaluation.groups(batch.rows) if keys else None)
        moves_watermark = changes.max_event_time is not None and changes.max_event_time != state.max_event_time
        return replace(span, written=later_of(span.written, changes.max_event_time)) if moves_watermark else span

    def can_use_fast_path(self, batch: ChangeBatch, state: StreamState) -> bool:
        """Return True for an insert-only INTERVAL batch that cannot contain expired rows.

        The event times after it must follow from the batch or from its windows alone.
        """
        if batch.needs_recalculation or not self.plan.query.kind.is_fixed:
            return False
        if not self.plan.separates_late_rows:
            return True
        if self.plan.query.filter is not None and self.evaluation.kernels is None:
            return False
        return not maybe_expired(batch, state, self.plan.watermark, self.plan.delete_mark).any()

    def merge_inserts(
        self, batch: ChangeBatch, state: StreamState, affected: pa.Table | None, changes: Changes
    ) -> EvaluatedBatch | None:
        """Merge new rows in one step; None if a window turns out to have stored rows that are not in state."""
        windows = self.evaluation.merge_inserts(batch.rows, affected)
        if touches_evicted(self.plan, windows, affected, state.evicted_through):
            return None
        count = self.count_inserts(batch, state, windows).reaching(changes.max_event_time)
        return evaluate_inserts(self.plan, windows, affected, count)

    def count_inserts(self, batch: ChangeBatch, state: StreamState, windows: pa.Table) -> BatchCount:
        plan = self.plan
        if plan.query.filter is not None and not plan.separates_late_rows:
            return count_used_rows(batch, state, windows)
        passing = batch.is_written if plan.query.filter is None else self.evaluation.passing(batch.rows)
        return count_rows(plan, batch, state, passing, np.zeros(len(passing), np.bool_))

    def recalculate(
        self,
        batch: ChangeBatch,
        state: StreamState,
        affected: pa.Table | None,
        changes: Changes,
        *,
        defers: bool = False,
        stored: VersionedRows | None = None,
    ) -> EvaluatedBatch:
        """Assign rows to windows, re-read the source for affected windows unless there are `stored` rows, then merge."""
        row_segments = self.evaluation.assign_windows(batch.rows)
        own_segments = batch_segments(self.plan, batch, state, row_segments, affected, defers=defers)
        segments = mark_rewritten(self.plan.query, own_segments)
        count = count_batch(self.plan, batch, state, segments).reaching(changes.max_event_time)
        no_windows = empty_state_windows(self.plan, row_segments)
        if len(segments.start) == 0:
            windows = self.evaluation.finalize_windows(mergeable_segments(self.plan, segments, segments.expired, segments.expired))
            return EvaluatedBatch(windows, no_windows, no_windows, no_windows, 0, count)
        late = late_windows(self.plan, segments)

        def read(ranges: Ranges, scopes: RecalculationScopes) -> BatchSegments:
            del scopes
            rows = stored or read_stored_rows(self.context, self.plan, batch, changes, ranges)
            assigned = self.evaluation.assign_windows(rows.rows)
            if stored is None and ranges[0][0] <= BEGINNING and assigned.num_rows:
                assigned = assigned.filter(pa.array(self.is_of_stream(assigned, rows.is_changed, state)))
            return append_stored_rows(self.plan, segments, assigned, rows.first, rows.last)

        completed, scopes = complete_scopes(self.plan, segments, state.evicted_through, read)
        has_state = affected is not None and (completed.kind == RowKind.IN_STATE).any()
        state_windows = affected if has_state else no_windows
        evaluated = replace(evaluate_scopes(self.plan, self.evaluation, completed, scopes, state_windows, count), late=late)
        return self.add_rewritten_rows(evaluated, completed, rows_to_add(completed, scopes))

    def is_of_stream(self, segments: pa.Table, is_changed: Bools, state: StreamState) -> Bools:
        """Return a mask of the segments of stored rows without those from before a stream that has no history.

        Where windows depend on the order of rows, the rows of a group before its first window are such, unless a batch changes
        them.
        """
        if not (computed := computed_times(self.context, self.plan)):
            return np.ones(segments.num_rows, np.bool_)
        is_changed = is_changed[to_numpy(segments[ROW]).astype(np.int64)]
        has_window = ComputedWindows(self.context, self.plan, state).has(segments)
        return np.asarray(is_changed | has_window | is_within(starts(segments), computed))

    def add_rewritten_rows(self, evaluated: EvaluatedBatch, segments: BatchSegments, rewritten: Int64s) -> EvaluatedBatch:
        """Count rewritten rows once more, and include unaffected windows that this batch closes."""
        closes = self.closed_by_batch(evaluated)
        if len(rewritten) == 0 and not closes.any():
            return evaluated
        columns = list(window_sql.segment_columns(self.plan.query))
        unaffected = append_state_windows(self.plan, segments.rows.slice(0, 0), evaluated.unaffected).select(columns)
        all_windows = concat([evaluated.windows.select(columns), unaffected])
        is_closing = np.concatenate((np.zeros(evaluated.windows.num_rows, np.bool_), closes))
        parts, touched = segments_to_add(self.plan.query, segments, rewritten, all_windows, is_closing)
        if not touched.any():
            return evaluated
        is_touched, is_moved = touched[: evaluated.windows.num_rows], touched[evaluated.windows.num_rows :]
        merged = self.evaluation.finalize_numbered(parts)
        return replace(
            evaluated,
            windows=concat([evaluated.windows.filter(pa.array(~is_touched)), merged]),
            state_windows=concat([evaluated.state_windows, evaluated.unaffected.filter(pa.array(is_moved))]),
            unaffected=evaluated.unaffected.filter(pa.array(~is_moved)),
        )

    def closed_by_batch(self, evaluated: EvaluatedBatch) -> Bools:
        """Return a mask of the unaffected windows that are closed after the batch and must be written, or noted as ended."""
        if not follows_closing(self.plan) or evaluated.count.max_event_time is None:
            return np.zeros(evaluated.unaffected.num_rows, np.bool_)
        return is_unfinished_before(self.plan, evaluated.count.max_event_time - self.plan.watermark, evaluated.unaffected)
