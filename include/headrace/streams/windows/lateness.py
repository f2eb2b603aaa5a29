"""Which rows count in which windows of a micro-batch, if some are late or windows have to be recalculated.

Everything here is arithmetic over segments and needs no Spark. Writes are handled one by one, as if each had been a batch of its
own, so the cut of writes into batches makes no difference. What has to be recalculated together, since rows of one part can change
windows of the other, is a *recalculation scope* (`headrace.streams.windows.recalculation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.compute.plan import WEND, WSTART
from headrace.compute.windows import key_columns
from headrace.storage.row_matching import row_ids
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows import window_sql
from headrace.streams.windows.accounting import BatchCount, count_rows
from headrace.streams.windows.change_batch import (
    NEVER,
    RECALCULATION_KINDS,
    UPSERT_KINDS,
    Bools,
    ChangeBatch,
    Int64s,
    RowKind,
    max_by_group,
    max_event_times_before,
    to_numpy,
    watermarks_before,
)

NO_WRITE: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class BatchSegments:
    """Segments of a batch's rows, of windows in state and of stored rows; all arrays have one entry for each segment.

    Attributes:
        rows: The columns of `window_sql.segment_columns`, and `_row`, the index in the batch (-1 for other segments).
        group: A number for each partition.
        start: The first instant, in ticks.
        end: The last instant, in ticks.
        kind: The `RowKind`.
        version: The version that wrote the row; `NEVER` for windows in state and stored rows.
        expired: Whether the row is left out of this window: it is expired, or only marks the window.
        deferred: Whether the row only marks the window, which is recalculated later.
        reached: The largest event time of the row's subtable before its write, for windows that leave rows out (EVENT).
        first: The first version in which a stored row had this value.
        last: The last such version.
    """

    rows: pa.Table
    group: Int64s
    start: Int64s
    end: Int64s
    kind: npt.NDArray[np.int8]
    version: Int64s
    expired: Bools
    deferred: Bools
    reached: Int64s
    first: Int64s
    last: Int64s

    @classmethod
    def of(cls, plan: StreamPlan, rows: pa.Table, kind: npt.NDArray[np.int8], version: Int64s, **arrays: Any) -> BatchSegments:
        """Return segments, by default of rows that count in their windows."""
        none, never = np.zeros(rows.num_rows, np.bool_), np.full(rows.num_rows, NEVER)
        defaults = {"expired": none, "deferred": none, "reached": never, "first": never, "last": never}
        (group,) = row_ids([rows], key_columns(plan.query))
        start, end = (to_numpy(rows[name]).astype(np.int64) for name in (WSTART, WEND))
        return cls(rows, group, start, end, kind, version, **(defaults | arrays))

    @property
    def row_index(self) -> Int64s:
        """For each segment the index of its row in the batch; -1 for other segments."""
        return to_numpy(self.rows[window_sql.ROW]).astype(np.int64)

    def is_kind(self, *kinds: RowKind) -> Bools:
        """Return a mask of the segments of these kinds that have not expired."""
        return np.asarray(np.isin(self.kind, kinds) & ~self.expired)


def batch_segments(
    plan: StreamPlan,
    batch: ChangeBatch,
    state: StreamState,
    row_segments: pa.Table,
    state_windows: pa.Table | None,
    *,
    defers: bool = False,
) -> BatchSegments:
    """Return the segments of a batch's rows and of windows in state.

    With `defers`, late, updated and deleted rows that are not expired only mark the windows that were closed before them.
    """
    rows = append_state_windows(plan, row_segments, state_windows)
    row_index = to_numpy(rows[window_sql.ROW]).astype(np.int64)
    kind = np.append(batch.kind, np.int8(RowKind.IN_STATE))[row_index]
    end = to_numpy(rows[WEND]).astype(np.int64)
    passing = passes_filter(batch, row_index)
    never = np.full(len(batch.ts), NEVER)
    closed_to = watermarks_before(batch, state, plan, passing) if plan.options.ignore_expired else never
    expired = np.asarray(end < np.append(closed_to, NEVER)[row_index])
    deferred = np.zeros(len(row_index), np.bool_)
    if defers:
        closed_before = watermarks_before(batch, state, plan, passing, of_changes=True)
        deferred = np.asarray((end < np.append(closed_before, NEVER)[row_index]) & ~expired)
    reached = max_event_times_before(batch, state, passing) if plan.leaves_rows_out else never
    masks = {"expired": expired | deferred, "deferred": deferred, "reached": np.append(reached, NEVER)[row_index]}
    return BatchSegments.of(plan, rows, kind, np.append(batch.version, NEVER)[row_index], **masks)


def passes_filter(batch: ChangeBatch, row_index: Int64s) -> Bools:
    passing = np.zeros(len(batch.ts), np.bool_)
    passing[row_index[row_index >= 0]] = True
    return passing


def append_state_windows(plan: StreamPlan, row_segments: pa.Table, state_windows: pa.Table | None) -> pa.Table:
    columns = [*window_sql.segment_columns(plan.query), window_sql.ROW]
    if state_windows is None or state_windows.num_rows == 0:
        return row_segments.select(columns)
    no_row = pa.repeat(pa.scalar(-1, pa.int64()), state_windows.num_rows)
    state_segments = window_sql.append_bookkeeping(state_windows).append_column(window_sql.ROW, no_row)
    return pa.concat_tables([row_segments.select(columns), state_segments.select(columns)], promote_options="permissive")


def append_stored_rows(plan: StreamPlan, segments: BatchSegments, stored: pa.Table, first: Int64s, last: Int64s) -> BatchSegments:
    """Append the segments of stored rows; `first` and `last` belong to the stored rows that `_row` counts."""
    row_index = to_numpy(stored[window_sql.ROW]).astype(np.int64)
    unnumbered = stored.set_column(
        stored.schema.get_field_index(window_sql.ROW), window_sql.ROW, pa.repeat(pa.scalar(-1, pa.int64()), len(row_index))
    )
    columns = segments.rows.column_names
    rows = pa.concat_tables([segments.rows, unnumbered.select(columns)], promote_options="permissive")
    added: dict[str, Any] = {
        "kind": np.int8(RowKind.STORED),
        "version": NEVER,
        "expired": False,
        "deferred": False,
        "reached": NEVER,
    }
    added |= {"first": first[row_index], "last": last[row_index]}
    arrays = {name: np.append(getattr(segments, name), np.broadcast_to(value, len(row_index))) for name, value in added.items()}
    return BatchSegments.of(plan, rows, **arrays)


def last_change_version(segments: BatchSegments, scope: Int64s, count: int) -> Int64s:
    """Return for each scope the last write that deleted or changed one of its rows; `NEVER` if there is none."""
    changed = segments.is_kind(*RECALCULATION_KINDS)
    return max_by_group(scope[changed], segments.version[changed], count)


def first_insert_version(segments: BatchSegments, scope: Int64s, count: int) -> Int64s:
    """Return for each scope the first write that added a row; `NEVER` if there is none."""
    first_version = np.full(count, NO_WRITE)
    inserts = segments.is_kind(RowKind.INSERT)
    np.minimum.at(first_version, scope[inserts], segments.version[inserts])
    return np.where(first_version == NO_WRITE, NEVER, first_version)


def select_segments(segments: BatchSegments, recalculated_at: Int64s, unaffected: Bools) -> Bools:
    """Return a mask of the segments to merge.

    These are new rows on time that were written after their scope was recalculated, the stored rows as of that write, and windows
    in state of scopes that are not recalculated. Unaffected windows and stored rows are left out. `recalculated_at` has for each
    segment the version at which its scope is recalculated; `NEVER` if it is not.
    """
    not_recalculated = recalculated_at == NEVER
    inserts = segments.is_kind(RowKind.INSERT) & (not_recalculated | (segments.version > recalculated_at))
    is_stored_then = (
        segments.is_kind(RowKind.STORED)
        & ~not_recalculated
        & (segments.first <= recalculated_at)
        & (recalculated_at <= segments.last)
    )
    return np.asarray((inserts | is_stored_then | (segments.is_kind(RowKind.IN_STATE) & not_recalculated)) & ~unaffected)


def mergeable_segments(plan: StreamPlan, segments: BatchSegments, selected: Bools, needs_recalculation: Bools) -> pa.Table:
    column = segments.rows.schema.get_field_index(window_sql.RECALCULATED)
    marked = segments.rows.set_column(column, window_sql.RECALCULATED, pa.array(needs_recalculation))
    return marked.select(list(window_sql.segment_columns(plan.query))).filter(pa.array(selected))


def count_batch(plan: StreamPlan, batch: ChangeBatch, state: StreamState, segments: BatchSegments) -> BatchCount:
    """Count a batch. A row is expired if every window it lies in was closed to it."""
    row_index = segments.row_index
    is_batch_row = row_index >= 0
    is_on_time = np.zeros(len(batch.ts), np.bool_)
    is_on_time[row_index[is_batch_row & (~segments.expired | segments.deferred)]] = True
    is_written = np.isin(batch.kind, UPSERT_KINDS) & passes_filter(batch, row_index)
    return count_rows(plan, batch, state, is_written & is_on_time, is_written & ~is_on_time)
