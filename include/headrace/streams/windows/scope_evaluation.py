"""Windows from segments: which scopes are recalculated, from which stored rows, and what the windows are after that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import FIRST_ROW, WSTART
from headrace.compute.windows import key_columns
from headrace.storage.row_matching import match_rows, row_ids
from headrace.streams.definition.define import StreamPlan
from headrace.streams.windows.accounting import BatchCount, EvaluatedBatch
from headrace.streams.windows.change_batch import RowKind, to_numpy
from headrace.streams.windows.evaluation import WindowEvaluation
from headrace.streams.windows.lateness import BatchSegments, mergeable_segments, select_segments
from headrace.streams.windows.recalculation import RecalculationScopes, find_scopes, rows_before_scopes
from headrace.streams.windows.retention import empty_state_windows
from headrace.streams.windows.stored_rows import Ranges, coalesce_ranges, is_covered
from headrace.streams.windows.window_sql import ROW

ReadStored = Callable[[Ranges, RecalculationScopes], BatchSegments]
"""Returns the segments of a batch with those of the stored rows in some ranges."""


def evaluate_inserts(plan: StreamPlan, windows: pa.Table, affected: pa.Table | None, count: BatchCount) -> EvaluatedBatch:
    """Return the windows after a batch of new rows that were merged into the affected ones in state."""
    no_windows = empty_state_windows(plan, windows)
    return EvaluatedBatch(windows, no_windows if affected is None else affected, no_windows, no_windows, 0, count)


def complete_scopes(
    plan: StreamPlan, segments: BatchSegments, evicted_through: int | None, read: ReadStored
) -> tuple[BatchSegments, RecalculationScopes]:
    """Add the stored rows of recalculation scopes, reading until no further rows are linked to them."""
    scopes = find_scopes(plan.query, segments, evicted_through)
    completed, read_ranges = segments, list[tuple[int, int]]()
    while scopes.needs_recalculation.any():
        ranges = ranges_to_read(plan, scopes)
        if is_covered(ranges, read_ranges):
            break
        read_ranges = ranges
        completed = read(read_ranges, scopes)
        scopes = find_scopes(plan.query, completed, evicted_through)
    return completed, scopes


def ranges_to_read(plan: StreamPlan, scopes: RecalculationScopes) -> Ranges:
    """Return the ranges of ticks to read for the scopes that are recalculated."""
    margin, reach = np.zeros(len(scopes.recalculated_at), np.int64), plan.query.kind.reach
    if reach:
        # Evicted sessions may extend beyond the rows in memory, so widen the range by its own length, and at least by a gap.
        margin = np.where(scopes.maybe_evicted, np.maximum(reach, scopes.last - scopes.first) + 1, 0)
    needs_recalculation = scopes.needs_recalculation
    return coalesce_ranges((scopes.first - margin)[needs_recalculation], (scopes.last + margin)[needs_recalculation])


def evaluate_scopes(
    plan: StreamPlan,
    evaluation: WindowEvaluation,
    segments: BatchSegments,
    scopes: RecalculationScopes,
    state_windows: pa.Table,
    count: BatchCount,
) -> EvaluatedBatch:
    """Return the windows after a batch.

    Its segments include those of windows in state and of stored rows; `state_windows` has these windows in the order of the
    segments.
    """
    unaffected, needs_recalculation = scopes.unaffected(segments), scopes.needs_recalculation[scopes.of_segment]
    selected = select_segments(segments, scopes.recalculated_at[scopes.of_segment], unaffected)
    windows = evaluation.finalize_windows(mergeable_segments(plan, segments, selected, needs_recalculation))
    is_state_window = segments.kind == RowKind.IN_STATE
    possibly_emitted = needs_recalculation & scopes.maybe_evicted[scopes.of_segment] & ~unaffected
    return EvaluatedBatch(
        windows=renumber_count_windows(plan, windows, segments, scopes),
        state_windows=state_windows.filter(pa.array((~unaffected)[is_state_window])),
        unaffected=state_windows.filter(pa.array(unaffected[is_state_window])),
        possibly_emitted=segments.rows.filter(pa.array(possibly_emitted)),
        recalculated=int(scopes.needs_recalculation.sum()),
        count=count,
        deferred_rows=segments.row_index[segments.deferred],
    )


def renumber_count_windows(plan: StreamPlan, windows: pa.Table, segments: BatchSegments, scopes: RecalculationScopes) -> pa.Table:
    """Number COUNT windows of a partition that was recalculated from the middle on as if from its beginning."""
    keys = key_columns(plan.query)
    if FIRST_ROW not in windows.column_names or not scopes.needs_recalculation.any() or windows.num_rows == 0:
        return windows
    offsets = rows_before_scopes(segments, scopes)
    representative = segments.rows.take(pa.array(np.unique(segments.group, return_index=True)[1]))
    group = match_rows(windows, representative, keys) if keys else 0
    first_rows = pc.add(windows[FIRST_ROW], pa.array(np.broadcast_to(offsets[group], windows.num_rows)))
    return windows.set_column(windows.schema.get_field_index(FIRST_ROW), FIRST_ROW, first_rows)


def add_marks(plan: StreamPlan, evaluation: WindowEvaluation, marks: pa.Table | None, rows: pa.Table) -> pa.Table:
    """Return rows that only mark windows, as few as mark the same ones."""
    all_rows = rows if marks is None else pa.concat_tables([marks, rows], promote_options="permissive")
    windows = evaluation.assign_windows(all_rows)
    (window_ids,) = row_ids([windows], [*key_columns(plan.query), WSTART])
    row_index = to_numpy(windows[ROW]).astype(np.int64)
    order = np.lexsort((row_index, window_ids))
    is_first = np.concatenate(([True], np.diff(window_ids[order]) != 0))
    return all_rows.take(pa.array(np.unique(row_index[order][is_first])))
