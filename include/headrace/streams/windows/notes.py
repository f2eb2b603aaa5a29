"""Notes of windows that late and changed rows concern, for those who look at a stream: a few of each micro-batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WEND, WSTART
from headrace.compute.windows import key_columns
from headrace.model.window_notes import WindowNote
from headrace.storage.row_matching import row_ids
from headrace.streams.definition.define import StreamPlan
from headrace.streams.windows.change_batch import UPSERT_KINDS, to_numpy
from headrace.streams.windows.window_sql import ADDED, RECALCULATED

if TYPE_CHECKING:
    from headrace.streams.windows.accounting import EvaluatedBatch
    from headrace.streams.windows.lateness import BatchSegments

LATE_ROWS: Final = "_late_rows"
"""Expired rows that were left out of a window."""
MAX_NOTED: Final = 20
"""Windows of a micro-batch that are noted, of each kind: the latest."""
MAX_LATE_SEGMENTS: Final = 1_000
MAX_NOTES: Final = 100
"""Notes that are kept of a stream."""


def late_windows(plan: StreamPlan, segments: BatchSegments) -> pa.Table | None:
    """Return windows that expired rows were left out of, with the number of these; None if there are none."""
    is_late = segments.expired & ~segments.deferred & np.isin(segments.kind, UPSERT_KINDS)
    if not is_late.any():
        return None
    key = [*key_columns(plan.query), WSTART]
    late = segments.rows.select([*key, WEND]).take(pa.array(np.flatnonzero(is_late)[-MAX_LATE_SEGMENTS:]))
    _, first, counts = np.unique(row_ids([late], key)[0], return_index=True, return_counts=True)
    return latest(late.take(pa.array(first)).append_column(LATE_ROWS, pa.array(counts)))


def noted_windows(plan: StreamPlan, evaluated: EvaluatedBatch, watermark: int | None) -> pa.Table | None:
    """Return windows of a micro-batch to note; None if there are none.

    Columns: group keys, `_wstart`, `_wend`, `_late_rows`, and `_recalculated`, false for those that rows were too late for.
    `watermark` is the one before the micro-batch.
    """
    columns = [*key_columns(plan.query), WSTART, WEND]
    windows = recalculated_windows(evaluated, watermark)
    parts = [] if evaluated.late is None else [marked(evaluated.late, False)]
    if windows.num_rows:
        no_late_rows = pa.repeat(pa.scalar(0, pa.int64()), windows.num_rows)
        parts.append(marked(windows.select(columns).append_column(LATE_ROWS, no_late_rows), True))
    return pa.concat_tables(parts, promote_options="permissive") if parts else None


def recalculated_windows(evaluated: EvaluatedBatch, watermark: int | None) -> pa.Table:
    """Return windows that were computed again from stored rows, or got rows after they were closed."""
    windows = evaluated.windows
    is_noted = windows[RECALCULATED] if evaluated.recalculated else None
    if watermark is not None:
        is_late = pc.and_(pc.less(windows[WEND], watermark), pc.greater(windows[ADDED], 0))
        is_noted = is_late if is_noted is None else pc.or_(is_noted, is_late)
    return windows.slice(0, 0) if is_noted is None else latest(windows.filter(is_noted))


def marked(windows: pa.Table, recalculated: bool) -> pa.Table:
    return windows.append_column(RECALCULATED, pa.repeat(pa.scalar(recalculated), windows.num_rows))


def latest(windows: pa.Table) -> pa.Table:
    """Return the last windows by their start."""
    if windows.num_rows <= MAX_NOTED:
        return windows
    return windows.take(pa.array(np.argsort(to_numpy(windows[WSTART]))[-MAX_NOTED:]))


def add_notes(notes: Iterable[WindowNote], windows: pa.Table, names: pa.Array, now: int) -> tuple[WindowNote, ...]:
    """Return notes with those of further windows, which have these subtables; the ones that changed last are kept."""
    by_window = {(note.series, note.start): note for note in notes}
    columns = [windows[name].to_pylist() for name in (WSTART, WEND, LATE_ROWS, RECALCULATED)]
    for series, start, end, late_rows, recalculated in zip(names.to_pylist(), *columns, strict=True):
        if series is not None:
            old = by_window.pop((series, start), WindowNote(series, start, end, 0, 0, now))
            recalculations = old.recalculated + int(recalculated)
            by_window[series, start] = WindowNote(series, start, end, recalculations, old.late_rows + late_rows, now)
    return tuple(by_window.values())[-MAX_NOTES:]
