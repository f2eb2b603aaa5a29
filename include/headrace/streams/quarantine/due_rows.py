"""Stored rows with which windows cannot be computed that the clock makes due.

These are windows that the clock closes (FORCE_WINDOW_CLOSE) or has recalculated (CONTINUOUS_WINDOW_CLOSE). Delayed windows
(MAX_DELAY) do not fail when they are due, since their values are computed whenever they change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WEND, WSTART
from headrace.context import Context
from headrace.errors import Error
from headrace.model.quarantine import QuarantineCode, QuarantinedRow
from headrace.storage.set_aside import SetAside
from headrace.streams.clocked.processor import ClockedProcessor
from headrace.streams.clocked.rows import stored_source_rows
from headrace.streams.definition.define import StreamPlan
from headrace.streams.quarantine.changed_rows import json_values, row_keys
from headrace.streams.quarantine.failing_rows import FailingRows, failure
from headrace.streams.quarantine.trial import Attempt
from headrace.streams.sources.stored import has_many_rows
from headrace.streams.windows.change_batch import Int64s
from headrace.streams.windows.evaluation import window_evaluation


@dataclass(frozen=True)
class DueRows:
    """The stored rows that a micro-batch without changes reads, since windows are due."""

    plan: StreamPlan
    held: SetAside
    attempt: Attempt
    rows: pa.Table

    def compute(self, selected: Int64s) -> object:
        """Compute the micro-batch from the selected rows alone, and discard the results."""
        is_selected = np.zeros(self.rows.num_rows, np.bool_)
        is_selected[selected] = True
        left_out = self.rows.filter(pa.array(~is_selected)).select(list(self.plan.source.primary_key))
        with self.held.changed(self.attempt.held, left_out):
            return self.attempt.processor.process_batch(self.attempt.state, self.attempt.changes)

    def failing(self, error: Error, max_rows: int) -> tuple[QuarantinedRow, ...]:
        """Return the rows with which the windows cannot be computed; none if they cannot be computed without any row either."""
        if failure(self.compute, np.empty(0, np.int64)) is not None:
            return ()
        errors = FailingRows(self.compute, max_rows).find(np.arange(self.rows.num_rows), error)
        rows = self.rows.take(pa.array(sorted(errors), pa.int64()))
        keys, values = row_keys(rows, self.plan.source, self.plan.query.precision), json_values(rows, self.plan.source)
        version = max(self.attempt.changes.offsets.values())
        return tuple(
            QuarantinedRow(key, version, QuarantineCode.DATA, errors[index].message, content)
            for index, key, content in zip(sorted(errors), keys, values, strict=True)
        )


def is_due(plan: StreamPlan, attempt: Attempt) -> bool:
    """Return whether the clock may have made something due that a micro-batch computes."""
    if attempt.changes.leaves_due:
        return False
    wake_at = attempt.state.wake_at
    return plan.is_closed_by_clock or (plan.defers_changes and wake_at is not None and wake_at <= attempt.changes.now)


def due_rows(context: Context, plan: StreamPlan, held: SetAside, attempt: Attempt) -> DueRows | None:
    """Return the rows that a micro-batch without changes reads; None if there are none, or more than the driver should read."""
    with held.changed(attempt.held):
        if plan.is_closed_by_clock:
            rows = ClockedProcessor(context, plan).due_rows(attempt.state, attempt.changes)
        else:
            rows = recalculated_rows(context, plan, attempt)
    return None if rows is None or rows.num_rows == 0 else DueRows(plan, held, attempt, rows)


def recalculated_rows(context: Context, plan: StreamPlan, attempt: Attempt) -> pa.Table | None:
    """Return the stored rows from the first to the last window that is recalculated; None if none is, or they are too many."""
    marks = attempt.state.deferred
    if marks is None:
        return None
    windows = window_evaluation(context, plan).assign_windows(marks)
    low, high = pc.min(windows[WSTART]).as_py(), pc.max(windows[WEND]).as_py()
    if has_many_rows(context, plan, low, high):
        return None
    return stored_source_rows(context, plan, low, high, attempt.changes.offsets).sort_by(plan.source.timestamp.name)


def without_due(attempt: Attempt) -> Attempt:
    """Return a micro-batch that only handles its changes, and leaves what is due to the next one."""
    return replace(attempt, changes=replace(attempt.changes, leaves_due=True))
