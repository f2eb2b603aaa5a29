"""Large commits of new rows, merged into windows piece by piece, so that memory follows the windows and not the commit.

Only rows that need no recalculation are merged like this: that are not late, touch no window that was evicted, and continue their
partition where the order of rows matters. Otherwise the micro-batch is computed from all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WEND, WSTART
from headrace.compute.windows import key_columns
from headrace.model.jobs import JobCounters
from headrace.storage.delta.changes import InsertedRows
from headrace.storage.row_matching import row_ids
from headrace.storage.values.scalars import stored_units_per_tick
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows.accounting import BatchCount, EvaluatedBatch, count_rows
from headrace.streams.windows.change_batch import (
    ChangeBatch,
    Changes,
    LargeCommit,
    change_batch,
    max_by_group,
    max_subtable_time_in_state,
    maybe_expired,
    to_numpy,
)
from headrace.streams.windows.evaluation import KernelEvaluation
from headrace.streams.windows.retention import Span, affected_windows, subtable_key, touches_evicted
from headrace.streams.windows.scope_evaluation import evaluate_inserts

MAX_WINDOWS: Final = 2_000_000
"""Greatest number of windows of a commit that are in this process at a time, if it can be computed in another way."""


class TooManyWindowsError(Exception):
    """A commit has more windows than may be in memory."""


def check_windows(count: int) -> None:
    if count > MAX_WINDOWS:
        raise TooManyWindowsError


@dataclass(frozen=True)
class LargeCommits:
    """Merges the large commits of one stream, with any number of windows in memory unless that `is_limited`."""

    plan: StreamPlan
    kernels: KernelEvaluation
    is_limited: bool = False

    def merge(self, state: StreamState, changes: Changes, commit: LargeCommit) -> EvaluatedBatch | None:
        """Return the windows after a commit; None if it may need recalculation."""
        if commit.inserted is None or (self.plan.leaves_rows_out and may_mix_series(self.plan)):
            return None
        return self.merge_pieces(state, changes, commit.pieces(), self.span(commit.inserted))

    def span(self, inserted: InsertedRows) -> Span:
        unit, times = stored_units_per_tick(self.plan.query.precision), inserted.times
        first, last = times.low // unit, times.high // unit
        return Span(first, last, last)

    def merge_pieces(self, state: StreamState, changes: Changes, pieces: Iterable[pa.Table], span: Span) -> EvaluatedBatch | None:
        """Return the windows after pieces of a commit; None if they may need recalculation.

        Raises:
            TooManyWindowsError: There are too many windows.
        """
        affected = affected_windows(self.plan, state, span)
        windows, tally = self.kernels.carried(affected), replace(state, counters=JobCounters())
        for piece in pieces:
            batch = change_batch(self.plan, replace(changes, source=piece), ignore_update=self.plan.ignores_updates)
            if batch.rows.num_rows == 0:
                continue
            added = self.kernels.piece_segments(batch.rows)
            if not self.is_on_time(batch, state, tally) or not self._continues(windows, added, state):
                return None
            windows = self.kernels.add(windows, added)
            if self.is_limited:
                check_windows(windows.num_rows)
            tally = self.counted(batch, tally)
        if self.plan.query.kind.is_fixed and touches_evicted(self.plan, windows, affected, state.evicted_through):
            return None
        return evaluate_inserts(self.plan, self.kernels.finish(windows), affected, BatchCount.of_write(tally))

    def is_on_time(self, batch: ChangeBatch, state: StreamState, tally: StreamState) -> bool:
        """Return whether no row may be expired or, for windows that leave rows out, out of order in its subtable."""
        if self.plan.leaves_rows_out:
            return bool((max_subtable_time_in_state(tally, batch.series) < batch.ts).all())
        maybe_late = self.plan.separates_late_rows and maybe_expired(batch, state, self.plan.watermark, self.plan.delete_mark).any()
        return not maybe_late

    def _continues(self, windows: pa.Table, added: pa.Table, state: StreamState) -> bool:
        """Return whether segments only continue their partitions, where that is necessary to merge them."""
        window, evicted = self.plan.query.kind, state.evicted_through
        if window.is_fixed:
            return True
        if not window.depends_on_order:
            return evicted is None or added.num_rows == 0 or pc.min(added[WSTART]).as_py() - window.reach > evicted
        if added.num_rows == 0 or windows.num_rows == 0:
            return True
        groups, added_groups = row_ids([windows, added], key_columns(self.plan.query))
        last = max_by_group(groups, to_numpy(windows[WEND]).astype(np.int64), len(groups) + len(added_groups))
        return bool((to_numpy(added[WSTART]).astype(np.int64) > last[added_groups]).all())

    def counted(self, batch: ChangeBatch, tally: StreamState) -> StreamState:
        """Return the state with a piece's rows and event times counted."""
        passing = self.kernels.passing(batch.rows)
        return count_rows(self.plan, batch, tally, passing, np.zeros(len(passing), np.bool_)).added_to(tally)


def may_mix_series(plan: StreamPlan) -> bool:
    """Return whether a window may have rows of several series, so that the event times of these do not show what is in order."""
    return subtable_key(plan) is None and plan.source_subtable is None and plan.source.has_series
