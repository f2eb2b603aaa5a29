"""Stored rows with which windows that the clock has closed cannot be computed, of a stream with FORCE_WINDOW_CLOSE."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.errors import Error
from headrace.model.quarantine import QuarantineCode, QuarantinedRow
from headrace.streams.clocked.processor import ClockedProcessor
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.quarantine.changed_rows import row_keys
from headrace.streams.quarantine.failing_rows import FailingRows, failure
from headrace.streams.quarantine.set_aside import SetAside
from headrace.streams.quarantine.trial import Attempt
from headrace.streams.quarantine.values import json_values
from headrace.streams.windows.change_batch import Int64s


@dataclass(frozen=True)
class DueRows:
    """The stored rows that a micro-batch reads, since windows are due."""

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


def due_rows(context: Context, plan: StreamPlan, held: SetAside, attempt: Attempt) -> DueRows | None:
    """Return the rows that a micro-batch without changes reads; None if there are none, or more than the driver should read."""
    with held.changed(attempt.held):
        rows = ClockedProcessor(context, plan).due_rows(attempt.state, attempt.changes)
    return None if rows is None or rows.num_rows == 0 else DueRows(plan, held, attempt, rows)


def without_due(attempt: Attempt) -> Attempt:
    """Return a micro-batch that only counts its rows, and leaves the windows that are due to the next one."""
    return replace(attempt, changes=replace(attempt.changes, leaves_due=True))
