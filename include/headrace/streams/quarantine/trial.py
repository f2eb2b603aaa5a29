"""Attempts to compute a micro-batch, with all of its rows or with some."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.model.quarantine import RowKey
from headrace.storage.row_matching import row_ids
from headrace.storage.set_aside import SetAside
from headrace.streams.batches import BatchResult, Processor
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows.change_batch import Bools, Changes, Int64s


@dataclass(frozen=True)
class Attempt:
    """What a micro-batch is computed from, and the keys of rows in quarantine before it."""

    processor: Processor
    state: StreamState
    changes: Changes
    held: frozenset[RowKey]

    def with_rows(self) -> Attempt:
        """Return it with all changes in memory."""
        return self.with_changes(replace(self.changes, source=self.changes.rows))

    def with_changes(self, changes: Changes) -> Attempt:
        return replace(self, changes=changes)

    def from_no_state(self) -> Attempt:
        return replace(self, state=StreamState(self.state.position))


@dataclass(frozen=True)
class Trial:
    """Computes a micro-batch with some of its written rows, as if the source had no others.

    `held` are the rows in quarantine, `written` is a mask of the written rows of the stream.
    """

    plan: StreamPlan
    held: SetAside
    attempt: Attempt
    written: Bools

    def compute(self, selected: Int64s) -> BatchResult:
        """Compute the micro-batch with the selected written rows, and the changes of no others."""
        rows, changes = self.attempt.changes.rows, self.attempt.changes
        is_selected = np.zeros(rows.num_rows, np.bool_)
        is_selected[selected] = True
        left_out = rows.filter(pa.array(self.written & ~is_selected)).select(list(self.plan.source.primary_key))
        (ids,) = row_ids([rows], list(self.plan.source.primary_key))
        is_other = ~self.written & ~np.isin(ids, ids[self.written & ~is_selected])
        with self.held.changed(self.attempt.held, left_out):
            remaining = rows.filter(pa.array(is_selected | is_other))
            return self.attempt.processor.process_batch(self.attempt.state, replace(changes, source=remaining))
